package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// FuzzDamage changes up to four bytes that lie together, which a checksum always
// finds, anywhere in the files of a store that was killed. It is not opened then,
// or each key has its own record or fails closed. What no single read can see is
// found by Verify at least: in the file, whose pages have no checksum, a key out of
// order hides others, and a fold may put a second record of one beside the first.
func FuzzDamage(f *testing.F) {
	files, want := killedStore(f)
	var names []string
	for name := range files {
		if name != lockFile {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) < 2 {
		f.Fatalf("%d files: there is no log", len(names))
	}
	for i, name := range names {
		for n := range 4 {
			f.Add(uint8(i), uint32(n*len(files[name])/4+n), []byte{1, 0xff, 0x80}[:min(n, 3)])
		}
	}
	// The last frame of the log, damaged, cannot be told from one that a power cut
	// has torn, and that nobody was told of. Nor can the last two, where the damage
	// reaches from one into the other: behind a torn frame anything may stand.
	torn := func(name string, from, to int, key tokenstore.Key) bool {
		switch key {
		case "account:09", "new:9":
			return name != storeFile
		case "account:08", "new:8":
			last := lastFrame(files[name])
			return name != storeFile && from < last && last < to
		}
		return false
	}
	f.Fuzz(func(t *testing.T, which uint8, at uint32, flip []byte) {
		dir := t.TempDir()
		name := names[int(which)%len(names)]
		for n, text := range files {
			text := append([]byte(nil), text...)
			for i, x := range flip[:min(4, len(flip))] {
				if place := int(at)%len(files[name]) + i; n == name && place < len(text) {
					text[place] ^= x
				}
			}
			if err := os.WriteFile(filepath.Join(dir, n), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		report, verr := Verify(dir)
		s, err := Open(Options{Path: dir})
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, tokenstore.ErrForeign) {
				t.Fatalf("%s, byte %d: %v", name, int(at)%len(files[name]), err)
			}
			return
		}
		defer s.Close(false)
		for key, rec := range want {
			if from := int(at) % len(files[name]); torn(name, from, from+min(4, len(flip)), key) {
				continue
			}
			switch got, ok, err := s.Load(t.Context(), key); {
			case err != nil: // it fails closed
			case ok && got.Highest == rec.Highest && got.Holder == rec.Holder && got.Clear == rec.Clear:
			case ok && name != storeFile:
				t.Fatalf("%s, byte %d: key %s has %+v, and had %+v", name, int(at)%len(files[name]), key, got, rec)
			case verr == nil && report.Sound():
				t.Fatalf("%s, byte %d: key %s has %+v (%v), had %+v, and Verify says that all is well", name, int(at)%len(files[name]), key, got, ok, rec)
			}
		}
	})
}

// lastFrame is where the last frame of a log begins.
func lastFrame(log []byte) (last int) {
	for at := logHeaderSize; at < len(log); {
		last = at
		at += frameHead + int(binary.BigEndian.Uint32(log[at:]))
	}
	return last
}

// killedStore makes a store of which a part of the keys is in the file and a part
// in the log, and returns its files, and its records.
func killedStore(f *testing.F) (files map[string][]byte, want map[tokenstore.Key]tokenstore.Record) {
	f.Helper()
	dir := f.TempDir()
	s := open(f, dir)
	for i := range 100 {
		acquire(f, s, tokenstore.Mark{Key: tokenstore.Key(fmt.Sprintf("account:%02d", i)), Token: tokenstore.Token{Major: 5}, Holder: "h", Clear: i%2 == 0})
	}
	if err := s.Close(true); err != nil {
		f.Fatal(err)
	}
	s = open(f, dir)
	for i := range 10 {
		acquire(f, s, mark(tokenstore.Key(fmt.Sprintf("account:%02d", i)), 9), mark(tokenstore.Key(fmt.Sprintf("new:%d", i)), 1))
	}
	want = map[tokenstore.Key]tokenstore.Record{}
	for _, format := range []string{"account:%02d", "new:%d"} {
		for i := range 100 {
			key := tokenstore.Key(fmt.Sprintf(format, i))
			rec, ok, err := s.Load(f.Context(), key)
			if err != nil {
				f.Fatal(err)
			}
			if ok {
				want[key] = rec
			}
		}
	}
	if err := s.Close(false); err != nil {
		f.Fatal(err)
	}
	files = map[string][]byte{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			f.Fatal(err)
		}
	}
	if len(want) < 110 {
		f.Fatalf("%d keys", len(want))
	}
	return files, want
}
