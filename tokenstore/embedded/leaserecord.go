package embedded

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// A lease on disk is one byte for the form of what follows, the token, the time
// to live, the beat, the time of the grant in nanoseconds since 1970, the
// length of the ID, the ID, and the holder: sealed together with its key. A
// lease that was ended, which stands in a log alone, is that byte and no more.
const (
	leaseForm     = 1
	endedForm     = 0
	leaseTokenAt  = 1
	leaseTTLAt    = leaseTokenAt + tokenstore.TokenSize
	leaseBeatAt   = leaseTTLAt + 8
	leaseTimeAt   = leaseBeatAt + 8
	leaseLengthAt = leaseTimeAt + 8
	leaseIDAt     = leaseLengthAt + 1
)

// leaseSeal is the key under which a lease is sealed: not that of the record
// of the key, so that neither can pass for the other.
func leaseSeal(key []byte) []byte { return append([]byte("lease "), key...) }

// encodeLease returns the sealed bytes of l under key.
func encodeLease(key []byte, l tokenstore.Lease) []byte {
	if !l.Held() {
		return seal(leaseSeal(key), []byte{endedForm})
	}
	b := append(make([]byte, 0, leaseIDAt+len(l.ID)+len(l.Holder)+sealSize), leaseForm)
	b, _ = l.Token.AppendBinary(b) // never fails
	b = binary.BigEndian.AppendUint64(b, uint64(l.TTL))
	b = binary.BigEndian.AppendUint64(b, l.Beat)
	b = binary.BigEndian.AppendUint64(b, uint64(nanoseconds(l.GrantedAt)))
	b = append(b, byte(len(l.ID)))
	b = append(append(b, l.ID...), l.Holder...)
	return seal(leaseSeal(key), b)
}

// decodeLease reads what encodeLease wrote; its result keeps nothing of b.
func decodeLease(key, b []byte) (l tokenstore.Lease, err error) {
	if b, err = unseal(leaseSeal(key), b); err != nil {
		return l, err
	}
	if len(b) == 1 && b[0] == endedForm {
		return l, nil
	}
	if len(b) <= leaseIDAt || b[0] != leaseForm {
		return l, errLease
	}
	if err := l.Token.UnmarshalBinary(b[leaseTokenAt:leaseTTLAt]); err != nil {
		return l, errLease
	}
	l.TTL = time.Duration(binary.BigEndian.Uint64(b[leaseTTLAt:]))
	l.Beat = binary.BigEndian.Uint64(b[leaseBeatAt:])
	if at := int64(binary.BigEndian.Uint64(b[leaseTimeAt:])); at != math.MinInt64 {
		l.GrantedAt = time.Unix(0, at)
	}
	rest, n := b[leaseIDAt:], int(b[leaseLengthAt])
	if n == 0 || n > len(rest) || l.TTL <= 0 {
		return tokenstore.Lease{}, errLease
	}
	l.ID, l.Holder = string(rest[:n]), string(rest[n:])
	return l, nil
}

// nanoseconds is a time as a record has it; what it cannot say is no time.
func nanoseconds(t time.Time) int64 {
	if y := t.Year(); y < 1700 || y > 2261 {
		return math.MinInt64
	}
	return t.UnixNano()
}

func damagedLease(key []byte, err error) *tokenstore.DamagedError {
	return &tokenstore.DamagedError{Key: tokenstore.Key(key), Why: "of its lease, " + err.Error()}
}
