package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A file is the same only where nothing was done to it: a touch, and another file
// with the same content, are reasons to look at what it refers to.
func TestEdition(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.yaml")
	at := time.Now().Add(-time.Hour).Truncate(time.Second)
	write := func(text string, when time.Time) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, when, when); err != nil {
			t.Fatal(err)
		}
	}
	if e := editionOf(file); e.same(e) {
		t.Error("no file is the same as none")
	}
	write("a: 1", at)
	before := editionOf(file)
	if !before.same(editionOf(file)) {
		t.Error("it has changed by itself")
	}
	write("a: 2", at)
	if before.same(editionOf(file)) {
		t.Error("another content at the same time was not seen")
	}
	write("a: 1", at.Add(time.Second))
	if before.same(editionOf(file)) {
		t.Error("a touch was not seen")
	}
	if err := os.Rename(file, file+".old"); err != nil {
		t.Fatal(err)
	}
	write("a: 1", at)
	if before.same(editionOf(file)) {
		t.Error("another file was not seen")
	}
}
