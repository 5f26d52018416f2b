package dump

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"testing"
)

// FuzzDump: whatever lines stand in a dump, with a right last line behind them
// too, nothing panics, and what is read as a whole one can be written, and reads
// as the same then: no record, lease or header has a second meaning.
func FuzzDump(f *testing.F) {
	for _, seed := range []string{
		`{"fenceproxy":"export","version":1,"clean":true,"exported_at":"2026-05-04T03:02:01Z"}` + "\n",
		`{"fenceproxy":"export","version":1,"clean":false,"unordered":true,"settle":"1m30s","exported_at":"2026-05-04T03:02:01.5+02:00","rules":{"a":"f"},"epochs":{"a":3}}` + "\n" +
			`{"key":"a","highest":"3/7.0","clear":true,"holder":"h","raised_at":"2026-05-04T03:02:01Z"}` + "\n" +
			`{"key":{"base64":"/v8="},"highest":"0.0","raised_at":"2026-05-04T03:02:01Z"}` + "\n",
		`{"fenceproxy":"export","version":2,"clean":true,"exported_at":"2026-05-04T03:02:01Z","granted":9}` + "\n" +
			`{"key":"a","highest":"9.0","raised_at":"2026-05-04T03:02:01Z"}` + "\n" +
			`{"lease":"a","id":"x","holder":"h","token":"9.0","ttl":"30s","beat":2,"granted_at":"2026-05-04T03:02:01Z"}` + "\n",
	} {
		f.Add([]byte(seed), int64(bytes.Count([]byte(seed), []byte(`{"key"`))), int64(bytes.Count([]byte(seed), []byte(`{"lease"`))))
	}
	f.Fuzz(func(t *testing.T, body []byte, keys, leases int64) {
		if len(body) > maxLine/6 {
			return // escaped, a line might be too long
		}
		sum := sha256.Sum256(body)
		last := fmt.Appendf(nil, `{"keys":%d,"leases":%d,"sha256":%q}`+"\n", keys, leases, hex.EncodeToString(sum[:]))
		for _, text := range [][]byte{body, append(bytes.Clone(body), last...)} {
			r, all, err := readAll(text)
			if err != nil {
				continue
			}
			var out bytes.Buffer
			w := NewWriter(&out)
			if err := w.Begin(r.Header); err != nil {
				t.Fatalf("the header %+v cannot be written: %v", r.Header, err)
			}
			for _, rec := range all {
				if err := w.Add(rec); err != nil {
					t.Fatalf("%+v cannot be written: %v", rec, err)
				}
			}
			for _, l := range r.Leases() {
				if err := w.AddLease(l); err != nil {
					t.Fatalf("%+v cannot be written: %v", l, err)
				}
			}
			if err := w.End(); err != nil {
				t.Fatal(err)
			}
			again, allAgain, err := readAll(out.Bytes())
			if err != nil {
				t.Fatalf("%q is written as %q: %v", text, out.Bytes(), err)
			}
			if !reflect.DeepEqual(utc(again, allAgain), utc(r, all)) {
				t.Fatalf("%q reads as %+v, and written again as %+v", text, utc(r, all), utc(again, allAgain))
			}
		}
	})
}

// readAll is read, with the leases.
func readAll(text []byte) (*Reader, []Record, error) {
	r, err := NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, nil, err
	}
	_, all, err := read(text)
	if err != nil {
		return nil, nil, err
	}
	for range len(all) + 1 { // to its end
		_, _ = r.Next()
	}
	return r, all, nil
}

// utc is all that a dump says, its times in one zone and nothing for empty maps.
func utc(r *Reader, all []Record) []any {
	h := r.Header
	h.ExportedAt = h.ExportedAt.UTC()
	said := []any{fmt.Sprintf("%+v", h)}
	for _, rec := range all {
		rec.RaisedAt = rec.RaisedAt.UTC()
		said = append(said, rec)
	}
	for _, l := range r.Leases() {
		l.GrantedAt = l.GrantedAt.UTC()
		said = append(said, l)
	}
	return said
}
