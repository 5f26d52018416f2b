package embedded

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// FuzzLease: what passes as a lease is one, written back byte for byte: a time
// alone may be one that no lease is granted at.
func FuzzLease(f *testing.F) {
	lease := tokenstore.Lease{ID: "x", Holder: "h", Token: tokenstore.Token{Major: 7}, TTL: time.Minute, Beat: 3, GrantedAt: time.Unix(1, 2)}
	value := encodeLease([]byte("k"), lease)
	f.Add([]byte("k"), value)
	for n := range len(value) - sealSize + 1 {
		f.Add([]byte("k"), value[:n])
	}
	lease.TTL = 0
	value = encodeLease([]byte("k"), lease)
	f.Add([]byte("k"), value[:len(value)-sealSize])
	f.Add([]byte("k"), encodeLease([]byte("k"), tokenstore.Lease{}))
	f.Add([]byte("k"), []byte{endedForm})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		for _, raw := range [][]byte{value, seal(leaseSeal(key), bytes.Clone(value))} {
			l, err := decodeLease(key, raw)
			if err != nil {
				continue
			}
			if l.Held() && l.TTL <= 0 {
				t.Errorf("%x reads as the lease %+v", raw, l)
			}
			if l.Held() && nanoseconds(l.GrantedAt) != int64(binary.BigEndian.Uint64(raw[leaseTimeAt:])) {
				continue
			}
			if again := encodeLease(key, l); !bytes.Equal(again, raw) {
				t.Errorf("%x reads as %+v, which is written as %x", raw, l, again)
			}
		}
	})
}
