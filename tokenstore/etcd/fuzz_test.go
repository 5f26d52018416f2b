package etcd

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// FuzzValue: no key and no value of etcd makes a panic, and what passes as a
// record, a call, an entry, a session or the counter of leases is written back as
// it was.
func FuzzValue(f *testing.F) {
	const l = layout("/p/")
	e := session.Entry{Key: "k\x00y", Token: tokenstore.Token{Epoch: 1, Major: 2, Minor: 3}, Session: session.ID{4}, Nonce: 5}
	for _, value := range []string{
		"", encodeRecord("k", tokenstore.Record{Highest: e.Token, Holder: "h", RaisedAt: time.Unix(1, 0)}), encodeCall("k", e.Token),
		l.openOf(&e), l.ownOf(&e), l.sessOf(e.Session), encodeGranted(7),
	} {
		for n := range len(value) + 1 {
			f.Add("k", []byte(value[:n]))
		}
	}
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		k := tokenstore.Key(key)
		sealed := binary.BigEndian.AppendUint32(bytes.Clone(value), checksum(k, value))
		for _, raw := range [][]byte{value, sealed} {
			rec, err := decodeRecord(k, raw)
			if err != nil || rec.RaisedAt.UnixNano() < 0 {
				continue // nor is a time of before 1970 ever written
			}
			if encodeRecord(k, rec) != string(raw) {
				t.Fatalf("the record %x reads as %+v", raw, rec)
			}
		}
		if m, err := decodeCall(value); err == nil && encodeCall(m.Key, m.Token) != string(value) {
			t.Fatalf("the call %x reads as %+v", value, m)
		}
		open := append([]byte(l.open()), value...)
		if e, err := l.readOpen(open); err == nil && l.openOf(&e) != string(open) {
			t.Fatalf("the entry %x reads as %+v", open, e)
		}
		own := append([]byte(l.own(session.ID{1})), value...)
		if e, err := l.readOwn(session.ID{1}, own); err == nil && l.ownOf(&e) != string(own) {
			t.Fatalf("the entry %x reads as %+v", own, e)
		}
		name := append([]byte(l.sess()), value...)
		if s, err := readSession(l.sess(), name); err == nil && l.sessOf(s) != string(bytes.ToLower(name)) {
			t.Fatalf("the session %q reads as %v", name, s)
		}
		for _, path := range [][]byte{value, name, open, own} {
			_, _ = l.readOpen(path)
			_, _ = l.readOwn(session.ID{1}, path)
			_, _ = readSession(l.sess(), path)
		}
		if n, err := decodeGranted(&mvccpb.KeyValue{Value: value}); err == nil && encodeGranted(n) != string(value) {
			t.Fatalf("the counter %x reads as %d", value, n)
		}
	})
}
