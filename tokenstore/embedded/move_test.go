package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
)

func exported(t *testing.T, dir string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Export(dir, time.Minute, dump.NewWriter(&b)); err != nil {
		t.Fatalf("Export: %v", err)
	}
	return b.Bytes()
}

func reader(t *testing.T, b []byte) *dump.Reader {
	t.Helper()
	r, err := dump.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func recordsOf(t *testing.T, b []byte) map[tokenstore.Key]tokenstore.Record {
	t.Helper()
	all := map[tokenstore.Key]tokenstore.Record{}
	for r := reader(t, b); ; {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all[rec.Key] = rec.Record
	}
}

func imported(t *testing.T, dir string, b []byte) Imported {
	t.Helper()
	done, err := Import(Options{Path: dir, Create: true, tuning: tuning{foldAt: 700, most: 1}}, reader(t, b))
	if err != nil {
		t.Fatalf("Import: %v", err)
	}
	return done
}

// raise records marks, and may close the store.
func raise(t *testing.T, s *Store, marks ...tokenstore.Mark) {
	t.Helper()
	for _, m := range marks {
		if _, err := s.Acquire(t.Context(), []tokenstore.Mark{m}); err != nil {
			t.Fatal(err)
		}
	}
}

func closed(t *testing.T, s *Store, clean bool) {
	t.Helper()
	if err := s.Close(clean); err != nil {
		t.Fatal(err)
	}
}

// TestMove: everything comes along, from the file and from the logs, and the
// store that is exported does not change by it.
func TestMove(t *testing.T) {
	for _, clean := range []bool{true, false} {
		t.Run(fmt.Sprintf("clean=%v", clean), func(t *testing.T) {
			from, to := t.TempDir(), t.TempDir()
			o := Options{Path: from, Create: true, Rules: tokenstore.Rules{"a": "1"}, Epochs: map[string]uint64{"a": 3}, Settle: time.Hour, tuning: tuning{foldAt: 500}}
			s, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 1500 { // several batches of an import
				raise(t, s, tokenstore.Mark{Key: tokenstore.Key(fmt.Sprintf("k%04d", i)), Token: tokenstore.Token{Epoch: uint64(i % 2), Major: uint64(i), Minor: 1}, Clear: i%3 == 0, Holder: strings.Repeat("h", i%5)})
			}
			raise(t, s, mark("k0008", 90), mark("k1400", 9000), mark("a", 1), mark("z", 1))
			closed(t, s, clean)

			b := exported(t, from)
			all := recordsOf(t, b)
			if len(all) != 1502 {
				t.Errorf("%d keys", len(all))
			}
			if h := reader(t, b).Header; h.Clean != clean || h.Unordered || !clean && h.Settle != time.Hour || h.Rules["a"] != "1" || h.Epochs["a"] != 3 {
				t.Errorf("header %+v", h)
			}
			if !reflect.DeepEqual(recordsOf(t, exported(t, from)), all) {
				t.Error("a second export is another one")
			}
			if done := imported(t, to, b); done.Keys != 1502 || done.Raised != 1502 || done.Clean != clean {
				t.Errorf("done %+v", done)
			}
			if r, err := Verify(to); err != nil || !r.Sound() || r.Keys != 1502 || r.Clean != clean {
				t.Errorf("Verify %+v, %v", r, err)
			}
			got := recordsOf(t, exported(t, to))
			for key, rec := range all {
				rec.Clear = rec.Clear && clean // else the quarantine would let the holder pass
				if g := got[key]; !g.RaisedAt.Equal(rec.RaisedAt) || g.Highest != rec.Highest || g.Clear != rec.Clear || g.Holder != rec.Holder {
					t.Fatalf("key %s: %+v, want %+v", key, g, rec)
				}
			}
			for _, s := range []string{from, to} {
				var epoch *tokenstore.EpochError
				var changed *tokenstore.ChangedRulesError
				if _, err := Open(Options{Path: s, Epochs: map[string]uint64{"a": 2}}); !errors.As(err, &epoch) {
					t.Errorf("a lower epoch: %v", err)
				}
				if _, err := Open(Options{Path: s, Rules: tokenstore.Rules{"a": "2"}}); !errors.As(err, &changed) {
					t.Errorf("changed rules: %v", err)
				}
			}
			next := open(t, to)
			if next.Recovered() == clean || next.Unordered() || !clean && next.Settle() != time.Hour {
				t.Errorf("the next start: recovered %v, unordered %v, settle %v", next.Recovered(), next.Unordered(), next.Settle())
			}
		})
	}
}

// TestImportOver: a store that has records already keeps the higher ones, and
// neither side's Clear counts where the other may have left writes on their way.
func TestImportOver(t *testing.T) {
	for _, c := range []struct{ cleanFrom, cleanTo bool }{{true, true}, {true, false}, {false, true}, {false, false}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			from, to := t.TempDir(), t.TempDir()
			s := open(t, from)
			raise(t, s, mark("lower", 1), mark("equal", 5), mark("higher", 9), tokenstore.Mark{Key: "new", Token: tokenstore.Token{Major: 2}, Clear: true}, tokenstore.Mark{Key: "held", Token: tokenstore.Token{Major: 5}, Holder: "x"})
			closed(t, s, c.cleanFrom)
			s = open(t, to)
			clear := func(key tokenstore.Key) tokenstore.Mark {
				return tokenstore.Mark{Key: key, Token: tokenstore.Token{Major: 5}, Clear: true, Holder: "y"}
			}
			raise(t, s, clear("lower"), clear("equal"), clear("higher"), clear("held"))
			closed(t, s, c.cleanTo)

			both := c.cleanFrom && c.cleanTo
			if done := imported(t, to, exported(t, from)); done.Keys != 5 || done.Raised != 2 || done.Clean != both {
				t.Errorf("done %+v", done)
			}
			got := recordsOf(t, exported(t, to))
			if got["lower"].Highest.Major != 5 || got["equal"].Highest.Major != 5 || got["higher"].Highest.Major != 9 || got["new"].Highest.Major != 2 || got["held"].Holder != "y" {
				t.Errorf("%v", got)
			}
			if got["new"].Clear != both {
				t.Errorf("new is clear: %v", got["new"].Clear)
			}
			next := open(t, to)
			if next.Recovered() == both {
				t.Errorf("recovered: %v", next.Recovered())
			}
			// "lower" says Clear of its own writes only.
			if next.Unordered() == c.cleanFrom {
				t.Errorf("a write of the other store may be on its way, and holders pass: unordered is %v", next.Unordered())
			}
		})
	}
}

func TestExportUnordered(t *testing.T) {
	for name, o := range map[string][2]Options{
		"writes without a token": {{Unordered: true}, {}},
		"changed rules":          {{Rules: tokenstore.Rules{"a": "1"}}, {Rules: tokenstore.Rules{"a": "2"}, AcceptChanged: []string{"a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := t.TempDir(), t.TempDir()
			for _, o := range o {
				o.Path, o.Create = from, true
				s, err := Open(o)
				if err != nil {
					t.Fatal(err)
				}
				closed(t, s, false)
			}
			b := exported(t, from)
			if h := reader(t, b).Header; h.Clean || !h.Unordered {
				t.Errorf("header %+v", h)
			}
			imported(t, to, b)
			if s := open(t, to); !s.Recovered() || !s.Unordered() {
				t.Error("keys without a record are not quarantined")
			}
		})
	}
}

// TestExportRefuses: a store without one of its keys is not moved.
func TestExportRefuses(t *testing.T) {
	export := func(dir string) error { return Export(dir, time.Second, dump.NewWriter(io.Discard)) }
	if err := export(t.TempDir()); !errors.Is(err, tokenstore.ErrMissing) {
		t.Errorf("no store: %v", err)
	}
	dir := t.TempDir()
	s := open(t, dir)
	if err := export(dir); !errors.Is(err, tokenstore.ErrLocked) {
		t.Errorf("in use: %v", err)
	}
	raise(t, s, mark("a", 1), mark("b", 2))
	closed(t, s, true)
	damage := func(change func(keys *bolt.Bucket) error) string {
		to := copyStore(t, dir)
		db, err := bolt.Open(to+"/"+storeFile, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Update(func(tx *bolt.Tx) error { return change(tx.Bucket(keysBucket)) }), db.Close()); err != nil {
			t.Fatal(err)
		}
		return to
	}
	var damaged *tokenstore.DamagedError
	if err := export(damage(func(keys *bolt.Bucket) error { return keys.Put([]byte("a"), []byte("x")) })); !errors.As(err, &damaged) || damaged.Key != "a" {
		t.Errorf("a damaged record: %v", err)
	}
	if err := export(damage(func(keys *bolt.Bucket) error { return keys.Delete([]byte("a")) })); !errors.Is(err, ErrDamaged) {
		t.Errorf("a lost key: %v", err)
	}
}

// TestImportEpochs: the higher epoch of both is remembered, and rules that made
// other keys there are no reason to guess.
func TestImportEpochs(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for dir, o := range map[string]Options{
		from: {Epochs: map[string]uint64{"a": 1, "b": 5}, Rules: tokenstore.Rules{"a": "1"}},
		to:   {Epochs: map[string]uint64{"a": 2, "b": 4}, Rules: tokenstore.Rules{"a": "1"}},
	} {
		o.Path, o.Create = dir, true
		s, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		closed(t, s, true)
	}
	imported(t, to, exported(t, from))
	if h := reader(t, exported(t, to)).Header; h.Epochs["a"] != 2 || h.Epochs["b"] != 5 || !h.Clean {
		t.Errorf("header %+v", h)
	}
	s, err := Open(Options{Path: from, Rules: tokenstore.Rules{"a": "2"}, AcceptChanged: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	closed(t, s, true)
	var changed *tokenstore.ChangedRulesError
	if _, err := Import(Options{Path: to}, reader(t, exported(t, from))); !errors.As(err, &changed) {
		t.Errorf("changed rules: %v", err)
	}
	if r, err := Verify(to); err != nil || !r.Sound() || !r.Clean {
		t.Errorf("the refusal changed something: %+v, %v", r, err)
	}
}
