package main

import (
	"crypto/sha256"
	"os"
	"time"
)

// lookEvery is how often the configuration file is looked at.
const lookEvery = 500 * time.Millisecond

// watch tells when the file has changed and then stayed as it is for one more
// look: an editor that writes in pieces must not have a half of it put into
// force. It looks at what the name leads to, so that a link that is turned to
// another file or directory (as Kubernetes does it) is a change, on every file
// system; notices of the kernel's miss some of these.
type watch struct{ last, told sight }

// changed looks at the file, as it has to every lookEvery. A file that was told of
// before has changed too where another one was loaded since, by SIGHUP: that one
// came and went between two looks, and would stay in force without a file.
func (w *watch) changed(file string, loaded sight) bool {
	now := look(file)
	settled := now.same(w.last)
	w.last = now
	if !settled || now.pipe() || now.same(w.told) && now.same(loaded) {
		return false
	}
	w.told = now
	return true
}

// sight is a file as it was seen; without info it could not be.
type sight struct{ info os.FileInfo }

// pipe reports whether it is a pipe, which a shell makes of <(…): it is read once,
// at the start, and whoever writes into it changes it.
func (s sight) pipe() bool { return s.info != nil && s.info.Mode()&os.ModeNamedPipe != 0 }

func look(file string) sight {
	info, _ := os.Stat(file)
	return sight{info}
}

func (s sight) same(o sight) bool {
	if s.info == nil || o.info == nil {
		return s.info == nil && o.info == nil
	}
	return os.SameFile(s.info, o.info) && s.info.Size() == o.info.Size() && s.info.ModTime().Equal(o.info.ModTime())
}

// edition is a file as it was seen and read. Two changes within one tick of the
// file system's clock look the same, and only the content tells.
type edition struct {
	sight
	read bool
	sum  [sha256.Size]byte
}

// editionOf is not read where the file cannot be, or is none to read twice.
func editionOf(file string) edition {
	e := edition{sight: look(file)}
	if e.info == nil || !e.info.Mode().IsRegular() {
		return e
	}
	if b, err := os.ReadFile(file); err == nil {
		e.read, e.sum = true, sha256.Sum256(b)
	}
	return e
}

// same reports whether nothing was done to the file; of one that could not be
// read nobody can say that.
func (e edition) same(o edition) bool {
	return e.read && o.read && e.sight.same(o.sight) && e.sum == o.sum
}
