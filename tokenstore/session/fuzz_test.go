package session

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// FuzzLease: no value of a shared store makes a panic, and what passes as a lease
// is one, which is written back byte for byte: a time alone may be one that no
// lease is granted at.
func FuzzLease(f *testing.F) {
	lease := tokenstore.Lease{ID: "x", Holder: "h", Token: tokenstore.Token{Epoch: 1, Major: 7}, TTL: time.Minute, Beat: 3, GrantedAt: time.Unix(1, 2)}
	for value := EncodeLease("k", lease); len(value) > 0; value = value[:len(value)-1] {
		f.Add("k", value)
	}
	lease.GrantedAt, lease.Holder = time.Time{}, ""
	f.Add("k", EncodeLease("k", lease))
	lease.TTL = 0
	value := EncodeLease("k", lease)
	f.Add("k", value[:len(value)-leaseSealSize])
	f.Add("k", []byte{})
	f.Add("k", bytes.Repeat([]byte{leaseVersion}, leaseIDAt+5))
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		k := tokenstore.Key(key)
		sealed := binary.BigEndian.AppendUint32(bytes.Clone(value), leaseSum(k, value))
		for _, raw := range [][]byte{value, sealed} {
			l, err := DecodeLease(k, raw)
			if err != nil || len(raw) == 0 {
				continue
			}
			if !l.Held() || l.TTL <= 0 || len(l.ID) > math.MaxUint8 {
				t.Fatalf("%x reads as the lease %+v", raw, l)
			}
			if leaseTime(l.GrantedAt) != int64(binary.BigEndian.Uint64(raw[leaseTimeAt:])) {
				continue
			}
			if again := EncodeLease(k, l); !bytes.Equal(again, raw) {
				t.Fatalf("%x reads as %+v, which is written as %x", raw, l, again)
			}
		}
		_, _ = readAbout(value)
	})
}
