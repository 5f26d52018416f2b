package postgres

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// The counter is a token without an epoch, and NULL before the first grant.
func encodeGranted(n uint64) []byte {
	if n == 0 {
		return nil
	}
	return encode(tokenstore.Token{Major: n})
}

func decodeGranted(b []byte) (uint64, error) {
	if b == nil {
		return 0, nil
	}
	var t tokenstore.Token
	if err := t.UnmarshalBinary(b); err != nil {
		return 0, fmt.Errorf("the counter of leases cannot be read: %w", err)
	}
	return t.Major, nil
}

// LeaseState implements session.LeaseBackend, as do the methods that follow.
func (b *Backend) LeaseState(ctx context.Context, key tokenstore.Key) (st session.LeaseState, err error) {
	var value, granted []byte
	var r row
	found := false
	err = call(ctx, b.work, b.sql.leaseState, []any{[]byte(key)}, []any{&value, &granted, &r.highest, &r.raisedAt, &r.holder}, func() (err error) {
		found = true
		if st.Lease, err = session.DecodeLease(key, value); err != nil {
			return err
		}
		if st.Granted, err = decodeGranted(granted); err != nil || r.highest == nil {
			return err
		}
		rec, err := r.record(key)
		if !errors.As(err, &st.Damaged) {
			st.Record, st.Exists = rec, true
		}
		return nil
	})
	if err == nil && !found {
		err = errNoEnd
	}
	if err != nil {
		return session.LeaseState{}, err
	}
	return st, nil
}

// SwapLease is one round trip where the swap is done.
func (b *Backend) SwapLease(ctx context.Context, s session.LeaseSwap) (done bool, now session.LeaseState, err error) {
	var grantedWas, grantedNext []byte
	if s.Grant {
		grantedWas, grantedNext = encodeGranted(s.Granted), encodeGranted(s.Next.Token.Major)
	}
	err = call(ctx, b.work, b.sql.swapLease, []any{[]byte(s.Key), session.EncodeLease(s.Key, s.Was), session.EncodeLease(s.Key, s.Next),
		s.Grant, encode(s.Next.Token), grantedWas, grantedNext}, []any{&done}, noRow)
	if err != nil {
		return false, now, err
	}
	if !done {
		now, err = b.LeaseState(ctx, s.Key)
		return false, now, err
	}
	if s.Grant || !s.Next.Held() { // a renewal is no news
		b.notes.addLease(s.Key)
	}
	return true, now, nil
}

func (b *Backend) Leases(ctx context.Context) (held []tokenstore.KeyLease, damaged []*tokenstore.DamagedError, err error) {
	var key, value []byte
	err = call(ctx, b.work, b.sql.leases, nil, []any{&key, &value}, func() error {
		k := tokenstore.Key(key)
		l, err := session.DecodeLease(k, value)
		var why *tokenstore.DamagedError
		switch {
		case errors.As(err, &why):
			damaged = append(damaged, why)
		case l.Held():
			held = append(held, tokenstore.KeyLease{Key: k, Lease: l})
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return held, damaged, nil
}

func (b *Backend) RaiseGranted(ctx context.Context, granted uint64) (uint64, error) {
	var now []byte
	if err := call(ctx, b.work, b.sql.raiseGranted, []any{encodeGranted(granted)}, []any{&now}, noRow); err != nil {
		return 0, err
	}
	return decodeGranted(now)
}

// leaseMark stands behind the key of a hint about its lease. Programs that know
// nothing of leases take such a hint for none.
const leaseMark = ":lease"

// addLease is add for a lease.
func (n *notes) addLease(key tokenstore.Key) {
	n.mu.Lock()
	n.leased[key] = struct{}{}
	n.mu.Unlock()
	n.wakeUp()
}

func (n *notes) leaseHint(key tokenstore.Key) string { return n.hint(key) + leaseMark }

// readLease returns the key of a hint about a lease, of another proxy.
func (n *notes) readLease(hint string) (key tokenstore.Key, ok bool) {
	sender, text, _ := strings.Cut(hint, ":")
	text, ok = strings.CutSuffix(text, leaseMark)
	if !ok || sender == n.sender {
		return "", false
	}
	raw, err := base64.RawStdEncoding.DecodeString(text)
	return tokenstore.Key(raw), err == nil
}
