package redis

import (
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// FuzzValue: no value of Redis makes a panic, and what passes as a member, an
// entry of a session, a record or the counter of leases is written back as it was.
func FuzzValue(f *testing.F) {
	e := session.Entry{Key: "k", Token: tokenstore.Token{Epoch: 1, Major: 2, Minor: 3}, Session: session.ID{4}, Nonce: 5}
	for _, value := range []string{
		"", encodeMember(&e), encodeNonce(5) + encodeToken(e.Token) + "k", encodeToken(e.Token) + encodeWhen(time.Unix(1, 0)) + "h",
		encodeToken(e.Token) + "-000000000000001", encodeToken(e.Token) + "+000000000000001h", encodeGranted(7),
	} {
		for n := range len(value) + 1 {
			f.Add("k", value[:n])
		}
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		if e, err := decodeMember(key, value); err == nil && (encodeMember(&e) != value || string(e.Key) != key) {
			t.Fatalf("the member %q reads as %+v", value, e)
		}
		if e, err := decodeOwn(session.ID{1}, value); err == nil && encodeNonce(e.Nonce)+encodeToken(e.Token)+string(e.Key) != value {
			t.Fatalf("the entry %q reads as %+v", value, e)
		}
		if rec, ok, err := decodeRecord(tokenstore.Key(key), value); err == nil && ok {
			if again := encodeToken(rec.Highest) + encodeWhen(rec.RaisedAt) + rec.Holder; again != value {
				t.Fatalf("the record %q reads as %+v, which is %q", value, rec, again)
			}
		} else if ok != (value != "") {
			t.Fatalf("the record %q: there is one: %v (%v)", value, ok, err)
		}
		if n, err := decodeGranted(value); err == nil && n > 0 && encodeGranted(n) != value {
			t.Fatalf("the counter %q reads as %d", value, n)
		}
	})
}
