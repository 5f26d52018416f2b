package dump

import (
	"bytes"
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

var (
	when    = time.Date(2026, 5, 4, 3, 2, 1, 123456789, time.UTC)
	header  = Header{Unordered: true, Settle: 90 * time.Second, ExportedAt: when, Rules: tokenstore.Rules{"a": "f <&>"}, Epochs: map[string]uint64{"a": math.MaxUint64}}
	records = []Record{
		{"a", tokenstore.Record{Highest: tokenstore.Token{}, RaisedAt: when}},
		{"b\u2028\"%2F", tokenstore.Record{Highest: tokenstore.Token{Major: math.MaxUint64}, Clear: true, RaisedAt: when}},
		{"keys", tokenstore.Record{Highest: tokenstore.Token{Epoch: 3, Major: 7, Minor: math.MaxUint64}, Holder: "\xff\x00h", RaisedAt: when}},
		{tokenstore.Key(strings.Repeat("\xfe", tokenstore.MaxKey)), tokenstore.Record{Highest: tokenstore.Token{Epoch: math.MaxUint64}, Holder: strings.Repeat("\x01", 500), RaisedAt: when}},
	}
)

func write(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	if err := w.Begin(header); err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if err := w.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func read(b []byte) (h Header, all []Record, err error) {
	r, err := NewReader(bytes.NewReader(b))
	if err != nil {
		return h, nil, err
	}
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return r.Header, all, nil
		}
		if err != nil {
			return h, all, err
		}
		all = append(all, rec)
	}
}

func TestRoundTrip(t *testing.T) {
	h, all, err := read(write(t))
	if err != nil || !reflect.DeepEqual(h, header) || !reflect.DeepEqual(all, records) {
		t.Fatalf("%v, %+v, %d records", err, h, len(all))
	}
}

// What is not wholly there, or not as it was, is no dump: wherever it was cut,
// whichever bit was flipped, and whichever line is missing, doubled or moved.
func TestBroken(t *testing.T) {
	whole := write(t)
	broken := func(what string, b []byte) {
		t.Helper()
		if _, _, err := read(b); !errors.Is(err, ErrBroken) {
			t.Errorf("%s: %v, want ErrBroken", what, err)
		}
	}
	step := max(1, len(whole)/500)
	for n := 0; n < len(whole); n += step {
		broken("cut", whole[:n])
		flipped := bytes.Clone(whole)
		flipped[n] ^= 1
		broken("flipped", flipped)
	}
	broken("its end is missing", whole[:len(whole)-1])
	broken("more behind it", append(bytes.Clone(whole), '\n'))
	broken("twice", append(bytes.Clone(whole), whole...))
	lines := bytes.SplitAfter(whole, []byte("\n"))
	for i := range len(lines) - 1 {
		less := append(append([][]byte{}, lines[:i]...), lines[i+1:]...)
		broken("a line is missing", bytes.Join(less, nil))
		more := append(append(append([][]byte{}, lines[:i+1]...), lines[i]), lines[i+1:]...)
		broken("a line is doubled", bytes.Join(more, nil))
	}
	broken("endless line", bytes.Repeat([]byte("x"), 2*maxLine))
	for _, first := range []string{`{"fenceproxy":"export","version":3}`, `{"version":1}`, `{"fenceproxy":"export","version":1,"more":1}`, `[]`, ``} {
		if _, err := NewReader(strings.NewReader(first + "\n")); !errors.Is(err, ErrBroken) {
			t.Errorf("%s: %v", first, err)
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	w := NewWriter(io.Discard)
	for _, key := range []tokenstore.Key{"", tokenstore.Key(strings.Repeat("k", tokenstore.MaxKey+1))} {
		if err := w.Add(Record{Key: key}); err == nil {
			t.Errorf("a key of %d bytes was taken", len(key))
		}
	}
	for what, rec := range map[string]tokenstore.Record{
		"a year of five digits":       {RaisedAt: time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -3600))},
		"a line that nobody can read": {RaisedAt: when, Holder: strings.Repeat("<", maxLine/6)},
	} {
		if err := NewWriter(io.Discard).Add(Record{"k", rec}); err == nil {
			t.Errorf("%s was taken", what)
		}
	}
	if err := w.Add(records[1]); err != nil {
		t.Fatal(err)
	}
	for _, r := range records[:2] {
		if err := w.Add(r); err == nil {
			t.Errorf("%q was taken behind %q", r.Key, records[1].Key)
		}
	}
}
