package embedded

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

func TestRecord(t *testing.T) {
	most := tokenstore.Token{Epoch: math.MaxUint64, Major: math.MaxUint64, Minor: math.MaxUint64}
	for name, rec := range map[string]tokenstore.Record{
		"zero token": {RaisedAt: time.Unix(0, 1)},
		"all set":    {Highest: most, Clear: true, RaisedAt: time.Unix(1<<32, 999_999_999), Holder: strings.Repeat("h\x00", 500)},
	} {
		t.Run(name, func(t *testing.T) {
			b := encodeRecord([]byte("k"), rec)
			got, err := decodeRecord([]byte("k"), b)
			if err != nil || !got.RaisedAt.Equal(rec.RaisedAt) {
				t.Fatalf("decoded %+v, %v", got, err)
			}
			got.RaisedAt = rec.RaisedAt
			if got != rec {
				t.Errorf("decoded %+v, want %+v", got, rec)
			}
			for i := range b {
				bad := bytes.Clone(b)
				bad[i] ^= 0x10
				if _, err := decodeRecord([]byte("k"), bad); err == nil {
					t.Fatalf("a change of byte %d is not seen", i)
				}
			}
			if _, err := decodeRecord([]byte("K"), b); err == nil {
				t.Error("the record passes under another key")
			}
		})
	}
	if n := len(encodeRecord([]byte("k"), tokenstore.Record{})); n != 37 {
		t.Errorf("a record without holder takes %d bytes, want 37", n)
	}
}

// FuzzRecord: what passes as a record is one, written back byte for byte.
func FuzzRecord(f *testing.F) {
	value := encodeRecord([]byte("k"), tokenstore.Record{Clear: true, Holder: "h"})
	f.Add([]byte("k"), value)
	value = value[:len(value)-sealSize]
	for n := range len(value) {
		f.Add([]byte("k"), value[:n])
	}
	value = bytes.Clone(value)
	value[flagsAt] = 2
	f.Add([]byte("k"), value)
	f.Fuzz(func(t *testing.T, key, value []byte) {
		for _, raw := range [][]byte{value, seal(key, bytes.Clone(value))} {
			rec, err := decodeRecord(key, raw)
			if err == nil && !bytes.Equal(encodeRecord(key, rec), raw) {
				t.Errorf("%x reads as %+v, which is written otherwise", raw, rec)
			}
		}
	})
}
