package redis

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// Leases are a hash by their keys, and the counter is 8 bytes, big-endian, of
// which there are none before the first grant. A failover that loses the last
// grants loses their tokens with them, and grants them again: what was accepted
// with accept_lost_writes.
var (
	leaseStateScript   = script("leasestate", " flags=allow-oom")
	swapLeaseScript    = script("swaplease", "")
	leasesScript       = script("leases", " flags=allow-oom")
	raiseGrantedScript = script("raisegranted", "")
)

const leasedChannel = "leased" // key

func encodeGranted(n uint64) string {
	if n == 0 {
		return ""
	}
	return string(binary.BigEndian.AppendUint64(nil, n))
}

func decodeGranted(s string) (uint64, error) {
	switch len(s) {
	case 0:
		return 0, nil
	case 8:
		return binary.BigEndian.Uint64([]byte(s)), nil
	}
	return 0, errShape
}

// leaseState reads an answer.
func leaseState(key tokenstore.Key, a answer) (st session.LeaseState, err error) {
	lease, err1 := a.text(0)
	granted, err2 := a.text(1)
	raw, err3 := a.text(2)
	if err := errors.Join(err1, err2, err3); err != nil {
		return st, err
	}
	if st.Lease, err = session.DecodeLease(key, []byte(lease)); err != nil {
		return session.LeaseState{}, err
	}
	if st.Granted, err = decodeGranted(granted); err != nil {
		return session.LeaseState{}, err
	}
	rec, ok, err := decodeRecord(key, raw)
	if !errors.As(err, &st.Damaged) {
		st.Record, st.Exists = rec, ok
	}
	return st, nil
}

// LeaseState implements session.LeaseBackend, as do the methods that follow.
func (b *Backend) LeaseState(ctx context.Context, key tokenstore.Key) (session.LeaseState, error) {
	a, err := b.ok(ctx, b.main, leaseStateScript, string(key))
	if err != nil {
		return session.LeaseState{}, err
	}
	return leaseState(key, a)
}

// SwapLease is one script.
func (b *Backend) SwapLease(ctx context.Context, s session.LeaseSwap) (done bool, now session.LeaseState, err error) {
	args := []any{string(s.Key), session.EncodeLease(s.Key, s.Was), session.EncodeLease(s.Key, s.Next), b.channel(leasedChannel)}
	if s.Grant {
		args = append(args, encodeToken(s.Next.Token), encodeGranted(s.Granted), encodeGranted(s.Next.Token.Major))
	}
	a, err := b.run(ctx, b.main, swapLeaseScript, args...)
	switch {
	case err != nil:
		return false, now, err
	case a.word == "done":
		return true, now, nil
	case a.word != "ok":
		return false, now, errShape
	}
	now, err = leaseState(s.Key, a)
	return false, now, err
}

// Leases reads in parts, of which Redis promises that none misses what is
// there all the time.
func (b *Backend) Leases(ctx context.Context) (held []tokenstore.KeyLease, damaged []*tokenstore.DamagedError, err error) {
	seen := map[tokenstore.Key]bool{}
	for cursor := "0"; ; {
		a, err := b.ok(ctx, b.main, leasesScript, cursor)
		if err != nil {
			return nil, nil, err
		}
		next, err := a.text(0)
		if err != nil {
			return nil, nil, err
		}
		pairs, err := a.texts(1, 2)
		if err != nil {
			return nil, nil, err
		}
		for i := 0; i < len(pairs); i += 2 {
			key := tokenstore.Key(pairs[i])
			if seen[key] {
				continue
			}
			seen[key] = true
			l, err := session.DecodeLease(key, []byte(pairs[i+1]))
			var why *tokenstore.DamagedError
			switch {
			case errors.As(err, &why):
				damaged = append(damaged, why)
			case l.Held():
				held = append(held, tokenstore.KeyLease{Key: key, Lease: l})
			}
		}
		if next == "0" {
			return held, damaged, nil
		}
		cursor = next
	}
}

func (b *Backend) RaiseGranted(ctx context.Context, granted uint64) (uint64, error) {
	a, err := b.ok(ctx, b.main, raiseGrantedScript, encodeGranted(granted))
	if err != nil {
		return 0, err
	}
	now, err := a.text(0)
	if err != nil {
		return 0, err
	}
	return decodeGranted(now)
}
