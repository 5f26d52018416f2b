package embedded

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// logged makes a store whose log has one frame for each key, unfolded, and
// returns where each frame ends.
func logged(t *testing.T, keys ...tokenstore.Key) (dir string, content []byte, ends []int) {
	t.Helper()
	dir = t.TempDir()
	s := open(t, dir)
	ends = append(ends, logHeaderSize)
	for i, key := range keys {
		acquire(t, s, mark(key, uint64(i+1)))
		ends = append(ends, int(s.log.end))
	}
	if err := s.Close(false); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, logName(1)))
	if err != nil || len(content) != ends[len(keys)] {
		t.Fatal(len(content), ends, err)
	}
	return dir, content, ends
}

// TestTornFrame: the last frame may be torn at any byte, and what is behind may
// be anything that is no frame. It was not told of; the others are there.
func TestTornFrame(t *testing.T) {
	dir, content, ends := logged(t, "a", "b", "c")
	whole, last := content[:ends[2]], content[ends[2]:]
	tails := map[string][]byte{"zeros": make([]byte, len(last)), "more zeros": make([]byte, 10_000),
		"noise": bytes.Repeat([]byte{0, 0, 0, 9, 1}, 99), "the frame before, again": content[ends[1]:ends[2]], "the frame before, twice": bytes.Repeat(content[ends[1]:ends[2]], 2)}
	for n := range last {
		tails[string(rune('0'+n))+" bytes"] = last[:n]
		flipped := bytes.Clone(last)
		flipped[n] ^= 1
		tails[string(rune('0'+n))+" flipped"] = flipped
	}
	for name, tail := range tails {
		t.Run(name, func(t *testing.T) {
			dir := copyStore(t, dir)
			log := filepath.Join(dir, logName(1))
			if err := os.WriteFile(log, slices.Concat(whole, tail), 0o600); err != nil {
				t.Fatal(err)
			}
			if r, err := Verify(dir); err != nil || !r.Sound() || r.Keys != 2 {
				t.Errorf("Verify = %+v, %v", r, err)
			}
			h, due, release := holdFold(t)
			s := openWith(t, dir, tuning{}, h)
			t.Cleanup(release)
			<-due
			if now, err := os.ReadFile(log); err != nil || !bytes.Equal(now, whole) {
				t.Errorf("the log was not cut where its last whole frame ends (%v)", err)
			}
			wantHighest(t, s, "a", 1)
			wantHighest(t, s, "b", 2)
			if _, ok, err := s.Load(t.Context(), "c"); ok || err != nil || s.Keys() != 2 {
				t.Errorf("Load of what was torn = %v, %v; %d keys", ok, err, s.Keys())
			}
			acquire(t, s, mark("c", 9))
			// Once more, unfolded: the cut log is whole now.
			wantHighest(t, open(t, copyStore(t, dir)), "c", 9)
		})
	}
}

// TestFlippedByte: where a frame is bad and a later one is whole, marks that
// were told of are lost, and the store is not opened.
func TestFlippedByte(t *testing.T) {
	dir, content, ends := logged(t, "a", "b", "c")
	log := filepath.Join(dir, logName(1))
	for at := range ends[2] {
		bad := bytes.Clone(content)
		bad[at] ^= 0x10
		if err := os.WriteFile(log, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := Open(Options{Path: dir}); !errors.Is(err, ErrDamaged) {
			if err == nil {
				_ = s.Close(false)
			}
			t.Fatalf("byte %d flipped: Open: %v, want ErrDamaged", at, err)
		}
		if _, err := Verify(dir); !errors.Is(err, ErrDamaged) {
			t.Fatalf("byte %d flipped: Verify: %v, want ErrDamaged", at, err)
		}
		if now, err := os.ReadFile(log); err != nil || !bytes.Equal(now, bad) {
			t.Fatalf("the log was changed (%v)", err)
		}
	}
}

// TestDamagedLogs: whatever no crash leaves behind is refused, with the files
// as they are.
func TestDamagedLogs(t *testing.T) {
	frames := func(t *testing.T, dir string, generation uint64, marks ...tokenstore.Mark) {
		l, err := newLog(dir, generation)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range marks {
			l.buf = appendEntry(beginFrame(l.buf), m.Key, tokenstore.Record{Highest: m.Token, Clear: m.Clear, Holder: m.Holder}, m.Key == "new")
			if err := l.append(nil); err != nil {
				t.Fatal(err)
			}
		}
		_ = l.close()
	}
	change := func(t *testing.T, dir string, generation uint64, to func(b []byte) []byte) {
		path := filepath.Join(dir, logName(generation))
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, to(b), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	remove := func(t *testing.T, path string) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name  string
		spoil func(t *testing.T, dir string)
		want  error
		says  string
	}{
		{"the log is gone", func(t *testing.T, dir string) { remove(t, filepath.Join(dir, logName(1))) }, ErrDamaged, "this log is missing"},
		{"one of two is gone", func(t *testing.T, dir string) { frames(t, dir, 2); remove(t, filepath.Join(dir, logName(1))) }, ErrDamaged, "this log is missing"},
		{"one between is gone", func(t *testing.T, dir string) { frames(t, dir, 3) }, ErrDamaged, "this log is missing"},
		{"the file is gone", func(t *testing.T, dir string) { remove(t, filepath.Join(dir, storeFile)) }, ErrDamaged, "its logs are there"},
		{"a log is cut, and a later one was begun", func(t *testing.T, dir string) {
			frames(t, dir, 2)
			change(t, dir, 1, func(b []byte) []byte { return b[:len(b)-1] })
		}, ErrDamaged, "a later log was begun"},
		{"the header of a log is cut, and a later one was begun", func(t *testing.T, dir string) {
			frames(t, dir, 2)
			change(t, dir, 1, func(b []byte) []byte { return b[:logHeaderSize-1] })
		}, ErrDamaged, "header"},
		{"the header of a log in use is cut", func(t *testing.T, dir string) {
			change(t, dir, 1, func(b []byte) []byte { return b[:logHeaderSize-1] })
		}, ErrDamaged, "header"},
		{"the header of a log with raises is damaged", func(t *testing.T, dir string) {
			frames(t, dir, 2, mark("k", 9))
			change(t, dir, 2, func(b []byte) []byte { b[logHeaderSize-1] ^= 1; return b })
		}, ErrDamaged, "header"},
		{"another generation's", func(t *testing.T, dir string) {
			if err := os.Rename(filepath.Join(dir, logName(1)), filepath.Join(dir, logName(2))); err != nil {
				t.Fatal(err)
			}
			frames(t, dir, 1)
		}, ErrDamaged, "generation 1, and its name says 2"},
		{"a later version's", func(t *testing.T, dir string) {
			b := framer{generation: 2}.header()[:logHeaderSize-4]
			b[len(logMagic)+3] = logVersion + 1
			if err := os.WriteFile(filepath.Join(dir, logName(2)), seal(nil, b), 0o600); err != nil {
				t.Fatal(err)
			}
		}, tokenstore.ErrForeign, "of a version not known here"},
		{"a record goes back", func(t *testing.T, dir string) { frames(t, dir, 2, mark("k", 4)) }, ErrDamaged, "from token 5 to 4"},
		{"a record loses its holder", func(t *testing.T, dir string) {
			frames(t, dir, 2, tokenstore.Mark{Key: "k", Token: tokenstore.Token{Major: 6}, Holder: "h"}, mark("k", 6))
		}, ErrDamaged, "goes back"},
		{"a record loses its clear", func(t *testing.T, dir string) {
			frames(t, dir, 2, tokenstore.Mark{Key: "k", Token: tokenstore.Token{Major: 6}, Clear: true}, mark("k", 6))
		}, ErrDamaged, "goes back"},
		{"a key is new twice", func(t *testing.T, dir string) { frames(t, dir, 2, mark("new", 1), mark("new", 2)) }, ErrDamaged, "new twice"},
		{"a record with a wrong checksum", func(t *testing.T, dir string) {
			l, err := newLog(dir, 2)
			if err != nil {
				t.Fatal(err)
			}
			l.buf = appendEntry(beginFrame(nil), "k", tokenstore.Record{}, false)
			l.buf[len(l.buf)-1] ^= 1
			if err := errors.Join(l.append(nil), l.close()); err != nil {
				t.Fatal(err)
			}
		}, ErrDamaged, "the record of key k is damaged"},
		{"a frame of no records", func(t *testing.T, dir string) {
			l, err := newLog(dir, 2)
			if err != nil {
				t.Fatal(err)
			}
			l.buf = append(beginFrame(nil), "hello"...)
			if err := errors.Join(l.append(nil), l.close()); err != nil {
				t.Fatal(err)
			}
		}, ErrDamaged, "holds no records"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			acquire(t, s, mark("k", 5))
			if err := s.Close(false); err != nil {
				t.Fatal(err)
			}
			tc.spoil(t, dir)
			before := listing(t, dir)
			s, err := Open(Options{Path: dir, Create: true})
			if err == nil {
				_ = s.Close(false)
				t.Fatal("it was opened")
			}
			if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error = %v, want %v that says %q", err, tc.want, tc.says)
			}
			if _, err := Verify(dir); !errors.Is(err, tc.want) && !errors.Is(err, tokenstore.ErrMissing) {
				t.Errorf("Verify: %v, want %v", err, tc.want)
			}
			if after := listing(t, dir); after != before {
				t.Errorf("the files were changed from\n%s\nto\n%s", before, after)
			}
		})
	}
}

// TestRaisesAfterCleanStop: a clean stop leaves no raise in a log, so what is
// there is not of this store.
func TestRaisesAfterCleanStop(t *testing.T) {
	for name, content := range map[string]func(l *raiseLog) []byte{
		"a raise": func(l *raiseLog) []byte {
			l.buf = appendEntry(beginFrame(nil), "k", tokenstore.Record{}, true)
			l.seal(l.buf, l.end)
			return l.buf
		},
		"a torn frame": func(*raiseLog) []byte { return []byte{0} },
		"nothing":      func(*raiseLog) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := filled(t)
			l, err := newLog(dir, 2)
			if err != nil {
				t.Fatal(err)
			}
			_, err = l.file.WriteAt(content(l), l.end)
			if err := errors.Join(err, l.close()); err != nil {
				t.Fatal(err)
			}
			s, err := Open(Options{Path: dir})
			if err == nil {
				defer func() { _ = s.Close(false) }()
			}
			if name == "nothing" {
				// Of a start that ended before its life began.
				if err != nil || s.Recovered() {
					t.Errorf("Open: %v", err)
				}
			} else if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "stopped cleanly") {
				t.Errorf("Open: %v, want ErrDamaged", err)
			}
		})
	}
}

// listing is the names and the content of all files of a store.
func listing(t *testing.T, dir string) string {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if f.Name() != lockFile {
			all.WriteString(f.Name() + " " + string(b) + "\n")
		}
	}
	return all.String()
}

// FuzzLog: a log reads as it was written whatever comes behind it. Where a byte of
// it is changed, it is refused, or cut where its last frame begins if that was it.
func FuzzLog(f *testing.F) {
	frames := newFramer(7, [saltSize]byte{1, 2, 3})
	log, last := frames.header(), 0 // where the last frame begins
	for _, key := range []tokenstore.Key{"a", "b"} {
		frame := appendEntry(beginFrame(nil), key, tokenstore.Record{Highest: tokenstore.Token{Major: 5}, Holder: "h"}, true)
		frame = appendEntry(frame, key+"2", tokenstore.Record{Clear: true}, false)
		frames.seal(frame, int64(len(log)))
		last = len(log)
		log = append(log, frame...)
	}
	read := func(b []byte) (seen []string, end int64, err error) {
		end, err = scanLog(bytes.NewReader(b), int64(len(b)), 7, func(e entry) error {
			seen = append(seen, string(e.key))
			_, err := e.record()
			return err
		})
		return seen, end, err
	}
	want := []string{"a", "a2", "b", "b2"}
	f.Add([]byte{}, uint16(0), byte(0))
	for n := range len(log) {
		f.Add(log[:n], uint16(n), byte(1))
	}
	f.Add(log[logHeaderSize:], uint16(40), byte(1))
	f.Add(bytes.Repeat([]byte{0, 0, 0, 1}, 20), uint16(logHeaderSize), byte(0x80))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1}, uint16(len(log)-1), byte(0xff))
	f.Fuzz(func(t *testing.T, tail []byte, at uint16, flip byte) {
		_, _, _ = read(tail)
		if seen, end, err := read(slices.Concat(log, tail)); err != nil || end != int64(len(log)) || !slices.Equal(seen, want) {
			t.Errorf("with %x behind it the log reads as %q up to %d, %v", tail, seen, end, err)
		}
		bad := slices.Concat(log, tail)
		if int(at) >= len(log) || flip == 0 {
			return
		}
		bad[at] ^= flip
		switch seen, end, err := read(bad); {
		case int(at) < last && err == nil: // of what was told, something is lost
			t.Errorf("with byte %d changed the log reads as %q up to %d", at, seen, end)
		case int(at) >= last && (err != nil || end != int64(last) || !slices.Equal(seen, want[:2])):
			t.Errorf("with byte %d of the last frame changed the log reads as %q up to %d, %v", at, seen, end, err)
		}
	})
}
