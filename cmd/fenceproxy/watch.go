package main

import (
	"context"
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
// system; notices of the kernel's miss some of these. It ends with ctx.
func watch(ctx context.Context, src source, changed chan<- struct{}) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	last, told := src.seen, src.seen
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := look(src.file)
		if now.same(last) && !now.same(told) && !now.pipe() {
			told = now
			select {
			case changed <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
		last = now
	}
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
	sum [sha256.Size]byte
}

// editionOf is zero where the file cannot be read.
func editionOf(file string) edition {
	seen := look(file)
	if seen.info == nil || !seen.info.Mode().IsRegular() {
		return edition{}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return edition{}
	}
	return edition{seen, sha256.Sum256(b)}
}

// same reports whether nothing was done to the file; of one that could not be
// read nobody can say that.
func (e edition) same(o edition) bool {
	return e.info != nil && e.sight.same(o.sight) && e.sum == o.sum
}
