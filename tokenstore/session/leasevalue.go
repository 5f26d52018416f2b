package session

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// The value in which engines keep a lease: one byte for the version of this
// form, the token, the time to live, the beat, the time of the grant in
// nanoseconds since 1970, the length of the ID in one byte, the ID, the length
// of the holder in two, the holder, and a checksum over the key and all that.
// Equal leases have equal values.
const (
	leaseVersion  = 1
	leaseTokenAt  = 1
	leaseTTLAt    = leaseTokenAt + tokenstore.TokenSize
	leaseBeatAt   = leaseTTLAt + 8
	leaseTimeAt   = leaseBeatAt + 8
	leaseLengthAt = leaseTimeAt + 8
	leaseIDAt     = leaseLengthAt + 1
	leaseSealSize = 4
)

var (
	castagnoli   = crc32.MakeTable(crc32.Castagnoli)
	errLeaseSeal = errors.New("of its lease, the checksum is wrong")
	errLeaseForm = errors.New("of its lease, the form is none of this version")
)

// EncodeLease returns the value of the lease of key, nil where nobody holds it.
func EncodeLease(key tokenstore.Key, l tokenstore.Lease) []byte {
	if !l.Held() {
		return nil
	}
	b := append(make([]byte, 0, leaseIDAt+len(l.ID)+2+len(l.Holder)+leaseSealSize), leaseVersion)
	b, _ = l.Token.AppendBinary(b) // never fails
	b = binary.BigEndian.AppendUint64(b, uint64(l.TTL))
	b = binary.BigEndian.AppendUint64(b, l.Beat)
	b = binary.BigEndian.AppendUint64(b, uint64(leaseTime(l.GrantedAt)))
	b = append(append(b, byte(len(l.ID))), l.ID...)
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(l.Holder))), l.Holder...)
	return binary.BigEndian.AppendUint32(b, leaseSum(key, b))
}

// DecodeLease reads what EncodeLease wrote, and keeps nothing of b. Its error
// is a *tokenstore.DamagedError.
func DecodeLease(key tokenstore.Key, b []byte) (l tokenstore.Lease, err error) {
	if len(b) == 0 {
		return l, nil
	}
	damaged := func(why error) (tokenstore.Lease, error) {
		return tokenstore.Lease{}, &tokenstore.DamagedError{Key: key, Why: why.Error()}
	}
	n := len(b) - leaseSealSize
	if n < 0 || binary.BigEndian.Uint32(b[n:]) != leaseSum(key, b[:n]) {
		return damaged(errLeaseSeal)
	}
	if n < leaseIDAt+2 || b[0] != leaseVersion {
		return damaged(errLeaseForm)
	}
	if err := l.Token.UnmarshalBinary(b[leaseTokenAt:leaseTTLAt]); err != nil {
		return damaged(err)
	}
	l.TTL = time.Duration(binary.BigEndian.Uint64(b[leaseTTLAt:]))
	l.Beat = binary.BigEndian.Uint64(b[leaseBeatAt:])
	if at := int64(binary.BigEndian.Uint64(b[leaseTimeAt:])); at != math.MinInt64 {
		l.GrantedAt = time.Unix(0, at)
	}
	rest, ids := b[leaseIDAt:n], int(b[leaseLengthAt])
	if ids == 0 || ids+2 > len(rest) || ids+2+int(binary.BigEndian.Uint16(rest[ids:])) != len(rest) || l.TTL <= 0 {
		return damaged(errLeaseForm)
	}
	l.ID, l.Holder = string(rest[:ids]), string(rest[ids+2:])
	return l, nil
}

// leaseTime is a time as a value has it; what it cannot say is no time.
func leaseTime(t time.Time) int64 {
	if y := t.Year(); y < 1700 || y > 2261 {
		return math.MinInt64
	}
	return t.UnixNano()
}

// leaseSum is of another kind than that of a record, so that neither can pass
// for the other.
func leaseSum(key tokenstore.Key, value []byte) uint32 {
	sum := crc32.Update(crc32.Checksum([]byte("lease "), castagnoli), castagnoli, []byte(key))
	return crc32.Update(sum, castagnoli, value)
}
