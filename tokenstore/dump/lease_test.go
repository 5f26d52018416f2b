package dump

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

var leases = []tokenstore.KeyLease{
	{Key: "a", Lease: tokenstore.Lease{ID: "i", TTL: 1, Token: tokenstore.Token{Major: 1}}},
	{Key: "keys", Lease: tokenstore.Lease{ID: "\xff\x00", Holder: "\xfe <h>", TTL: math.MaxInt64, Beat: math.MaxUint64, GrantedAt: when,
		Token: tokenstore.Token{Epoch: 3, Major: math.MaxUint64}}},
	{Key: "\xfe", Lease: tokenstore.Lease{ID: strings.Repeat("i", tokenstore.MaxLeaseID), Holder: strings.Repeat("\x01", tokenstore.MaxHolder), TTL: time.Minute}},
}

func writeLeases(t *testing.T, h Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	err := w.Begin(h)
	for _, r := range records {
		err = errors.Join(err, w.Add(r))
	}
	for _, l := range leases {
		err = errors.Join(err, w.AddLease(l))
	}
	if err = errors.Join(err, w.End()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestLeaseRoundTrip(t *testing.T) {
	h := header
	h.Granted = math.MaxUint64
	b := writeLeases(t, h)
	r, err := NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	var all []Record
	for err == nil {
		if len(r.Leases()) > 0 {
			t.Error("leases are told before the end of the dump is known")
		}
		var rec Record
		if rec, err = r.Next(); err == nil {
			all = append(all, rec)
		}
	}
	if !errors.Is(err, io.EOF) || !reflect.DeepEqual(r.Header, h) || !reflect.DeepEqual(all, records) || !reflect.DeepEqual(r.Leases(), leases) {
		t.Fatalf("%v, %+v, %d records, %+v", err, r.Header, len(all), r.Leases())
	}
	// A store that never granted one is written so that older programs read it.
	if old := write(t); !bytes.Contains(old, []byte(`"version":1,`)) || !bytes.Contains(b, []byte(`"version":2,`)) || bytes.Contains(old, []byte("lease")) {
		t.Error("the versions are wrong")
	}
}

func TestLeaseBroken(t *testing.T) {
	h := header
	h.Granted = math.MaxUint64
	whole := writeLeases(t, h)
	broken := func(what string, b []byte) {
		t.Helper()
		if _, _, err := read(b); !errors.Is(err, ErrBroken) {
			t.Errorf("%s: %v, want ErrBroken", what, err)
		}
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	lines = lines[:len(lines)-1]
	first := 1 + len(records)
	// With the right checksum all the same: as if a program wrote it so.
	resealed := func(keys, leases int, lines ...[]byte) []byte {
		b := bytes.Join(lines, nil)
		sum := sha256.Sum256(b)
		return append(b, fmt.Sprintf("{\"keys\":%d,\"leases\":%d,\"sha256\":%q}\n", keys, leases, hex.EncodeToString(sum[:]))...)
	}
	body := lines[:len(lines)-1]
	if _, _, err := read(resealed(len(records), len(leases), body...)); err != nil {
		t.Fatalf("the test's own dump: %v", err)
	}
	for i := range leases {
		less := append(append([][]byte{}, body[:first+i]...), body[first+i+1:]...)
		broken("a lease is missing", append(bytes.Join(less, nil), lines[len(lines)-1]...))
		broken("a lease is missing, and the checksum is right", resealed(len(records), len(leases), less...))
	}
	broken("a lease twice", resealed(len(records), len(leases)+1, append(append([][]byte{}, body...), body[len(body)-1])...))
	broken("not in order", resealed(len(records), len(leases), append(append(append([][]byte{}, body[:first]...), body[first+1], body[first]), body[first+2:]...)...))
	broken("a record behind a lease", resealed(len(records), len(leases), append(append(append([][]byte{}, body[:first-1]...), body[first:]...), body[first-1])...))
	with := func(line string) []byte { return resealed(0, 1, body[0], []byte(line+"\n")) }
	for name, line := range map[string]string{
		"no ID":       `{"lease":"k","token":"1.0","ttl":"1s"}`,
		"no TTL":      `{"lease":"k","id":"i","token":"1.0"}`,
		"no token":    `{"lease":"k","id":"i","token":"","ttl":"1s"}`,
		"no key":      `{"lease":"","id":"i","token":"1.0","ttl":"1s"}`,
		"more":        `{"lease":"k","id":"i","token":"1.0","ttl":"1s","more":1}`,
		"a long ID":   `{"lease":"k","id":"` + strings.Repeat("i", 65) + `","token":"1.0","ttl":"1s"}`,
		"a long name": `{"lease":"k","id":"i","token":"1.0","ttl":"1s","holder":"` + strings.Repeat("i", 257) + `"}`,
	} {
		broken(name, with(line))
	}
	if _, _, err := read(with(`{"lease":"k","id":"i","token":"1.0","ttl":"1s"}`)); err != nil {
		t.Errorf("a right one: %v", err)
	}
	low := write(t) // its counter is 0
	old := bytes.SplitAfter(low, []byte("\n"))[0]
	broken("a token above the counter", resealed(0, 1, old, []byte(`{"lease":"k","id":"i","token":"1.0","ttl":"1s"}`+"\n")))
}

func TestLeaseWriterRefuses(t *testing.T) {
	w := NewWriter(io.Discard)
	if err := w.Begin(Header{Granted: 5}); err != nil {
		t.Fatal(err)
	}
	l := func(key tokenstore.Key, token uint64) tokenstore.KeyLease {
		return tokenstore.KeyLease{Key: key, Lease: tokenstore.Lease{ID: "i", TTL: 1, Token: tokenstore.Token{Major: token}}}
	}
	if err := w.AddLease(l("b", 5)); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]tokenstore.KeyLease{"before": l("a", 1), "again": l("b", 1), "above the counter": l("c", 6), "nobody's": {Key: "d"}} {
		if err := w.AddLease(bad); err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
	if err := w.Add(records[3]); err == nil {
		t.Error("a record was taken behind a lease")
	}
}
