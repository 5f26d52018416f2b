//go:build amd64 || arm64

package embedded

import (
	"bytes"
	"math/rand/v2"
)

const (
	diskPage   = 4096 // what a disk and a kernel write at once, or not at all
	diskSector = 512  // unless the power fails in the middle
)

// whim decides what becomes of that which was written and not synced when the
// power fails.
type whim interface {
	// change says whether a change of the directory, or of a file's length, is
	// on the disk.
	change() bool
	// page returns which part of n bytes in one page of a file is.
	page(n int) (from, to int)
	// size returns the length of a file: what is synced has the length least,
	// and all that was written has the length most.
	size(least, now, most int) int
	// fill fills what nobody wrote, or what did not come to the disk, in a file
	// that has grown over it.
	fill(b []byte)
}

// keepAll is no power cut: the process alone is killed.
type keepAll struct{}

func (keepAll) change() bool           { return true }
func (keepAll) page(n int) (int, int)  { return 0, n }
func (keepAll) size(_, now, _ int) int { return now }
func (keepAll) fill(b []byte)          { clear(b) }

// dropAll leaves what is synced alone.
type dropAll struct{}

func (dropAll) change() bool             { return false }
func (dropAll) page(int) (int, int)      { return 0, 0 }
func (dropAll) size(least, _, _ int) int { return least }
func (dropAll) fill(b []byte)            { clear(b) }

// keepSome keeps, drops and tears by chance: later writes without earlier ones
// too, a length without its content, and content that stood there before.
type keepSome struct {
	rng   *rand.Rand
	stale []byte // of an earlier use of the disk
}

func (w keepSome) change() bool { return w.rng.IntN(2) == 0 }

func (w keepSome) page(n int) (from, to int) {
	switch w.rng.IntN(4) {
	case 0:
		return 0, 0
	case 1:
		return 0, min(n, w.rng.IntN(diskPage/diskSector+1)*diskSector)
	case 2:
		return min(n, w.rng.IntN(diskPage/diskSector+1)*diskSector), n
	}
	return 0, n
}

func (w keepSome) size(least, now, most int) int {
	return []int{least, now, most}[w.rng.IntN(3)]
}

func (w keepSome) fill(b []byte) {
	if clear(b); w.rng.IntN(2) == 0 {
		copy(b, w.stale[w.rng.IntN(len(w.stale)):])
	}
}

// tear leaves half of each page.
type tear struct{ keepAll }

func (tear) page(n int) (from, to int) { return 0, n / 2 }

// dropFirst keeps all but the first page.
type dropFirst struct {
	keepAll
	dropped bool
}

func (w *dropFirst) page(n int) (from, to int) {
	if !w.dropped {
		w.dropped = true
		return 0, 0
	}
	return 0, n
}

// dropChange keeps all but one change.
type dropChange struct {
	keepAll
	n int // that comes after so many which are kept
}

func (w *dropChange) change() bool {
	w.n--
	return w.n != -1
}

// looseChanges is how many changes a power cut may undo.
func (r *recording) looseChanges(step int) (n int) {
	for _, o := range r.ops {
		if o.began <= step && (o.changesDirectory() || o.kind == opTruncate) && !o.durable(step) {
			n++
		}
	}
	return n
}

func (o *op) changesDirectory() bool {
	return o.kind == opCreate || o.kind == opRename || o.kind == opRemove
}

// durable reports whether a sync that began after o had ended before a step.
func (o *op) durable(step int) bool { return o.synced > 0 && o.synced <= step }

// image returns what may be on the disk when the power fails in a step: what
// was synced before, and of the rest what w wants. A call that has begun and
// not ended counts with the rest.
func (r *recording) image(step int, w whim) map[string][]byte {
	names := map[string]int{}
	for name, file := range r.first {
		names[name] = file
	}
	files := map[int]*diskFile{}
	at := func(file int) *diskFile {
		if files[file] == nil {
			files[file] = &diskFile{b: bytes.Clone(r.base[file]), least: len(r.base[file]), most: len(r.base[file])}
		}
		return files[file]
	}
	for _, o := range r.ops {
		if o.began > step {
			break
		}
		switch durable := o.durable(step); {
		case o.changesDirectory():
			if durable || w.change() {
				o.enter(names)
			}
		case o.kind == opWrite:
			at(o.file).write(o, durable, w)
		case o.kind == opTruncate:
			at(o.file).truncate(int(o.off), durable, w)
		}
	}
	image := map[string][]byte{}
	for name, file := range names {
		image[name] = at(file).end(w)
	}
	return image
}

// enter makes a change of the directory. Where what it changes did not come to
// the disk, it changes nothing.
func (o *op) enter(names map[string]int) {
	switch file, there := names[o.name]; {
	case o.kind == opCreate:
		names[o.name] = int(o.off)
	case o.kind == opRemove:
		delete(names, o.name)
	case there:
		names[o.to] = file
		delete(names, o.name)
	}
}

// diskFile is a file as it may be on the disk.
type diskFile struct {
	b     []byte
	least int  // its length by what is synced
	most  int  // and by all that was asked for
	loose bool // there is something that was not synced
}

func (f *diskFile) grow(n int, w whim) {
	if old := len(f.b); n > old {
		f.b = append(f.b, make([]byte, n-old)...)
		w.fill(f.b[old:])
	}
}

func (f *diskFile) write(o *op, durable bool, w whim) {
	off, end := int(o.off), int(o.off)+len(o.data)
	f.most = max(f.most, end)
	if durable {
		f.least = max(f.least, end)
		f.grow(off, keepAll{})
		f.grow(end, keepAll{})
		copy(f.b[off:], o.data)
		return
	}
	f.loose = true
	for off < end {
		n := min(end-off, diskPage-off%diskPage)
		if from, to := w.page(n); from < to {
			f.grow(off+to, w)
			copy(f.b[off+from:off+to], o.data[off-int(o.off)+from:])
		}
		off += n
	}
}

func (f *diskFile) truncate(n int, durable bool, w whim) {
	f.most = n
	switch {
	case durable:
		f.least, w = n, keepAll{}
	case w.change():
		f.loose, f.least = true, min(f.least, n)
	default:
		f.loose = true
		return
	}
	f.grow(n, w)
	f.b = f.b[:n]
}

func (f *diskFile) end(w whim) []byte {
	if f.loose {
		n := w.size(f.least, len(f.b), f.most)
		f.grow(n, w)
		f.b = f.b[:n]
	}
	return f.b
}
