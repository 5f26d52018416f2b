package embedded

import (
	"encoding/binary"
	"fmt"
	"io"
)

// The layout of bbolt's pages, as far as its references go.
const (
	pageHead    = 16
	elementSize = 16
	maxDepth    = 64

	branchPage   = 0x01
	leafPage     = 0x02
	freelistPage = 0x10
	bucketEntry  = 0x01
	noFreelist   = ^uint64(0)
)

// pageWalk follows every reference of a store's file and checks that it stays
// inside, before bbolt's own check runs: that one follows them blindly, in a
// goroutine whose memory faults nobody can catch.
type pageWalk struct {
	file  io.ReaderAt
	pages uint64
	seen  []uint64 // one bit a page
}

// walkPages returns the first reference that is wrong.
func walkPages(file io.ReaderAt, h header) error {
	w := &pageWalk{file: file, pages: h.pages, seen: make([]uint64, h.pages/64+1)}
	if h.freelist != noFreelist {
		if err := w.freelist(h.freelist); err != nil {
			return err
		}
	}
	return w.tree(h.root, 0)
}

// read returns a page with all its overflow pages, which nobody has read yet.
func (w *pageWalk) read(id uint64) ([]byte, error) {
	if id < 2 || id >= w.pages {
		return nil, fmt.Errorf("page %d is referred to, and there are %d", id, w.pages)
	}
	if w.seen[id/64]&(1<<(id%64)) != 0 {
		return nil, fmt.Errorf("page %d is referred to twice", id)
	}
	w.seen[id/64] |= 1 << (id % 64)
	page := make([]byte, pageSize)
	if _, err := w.file.ReadAt(page, int64(id)*pageSize); err != nil {
		return nil, fmt.Errorf("page %d cannot be read: %w", id, err)
	}
	order := binary.NativeEndian
	if got := order.Uint64(page); got != id {
		return nil, fmt.Errorf("page %d says that it is page %d", id, got)
	}
	overflow := uint64(order.Uint32(page[12:]))
	if overflow == 0 {
		return page, nil
	}
	if id+overflow >= w.pages {
		return nil, fmt.Errorf("page %d reaches over the end of the file", id)
	}
	page = make([]byte, (overflow+1)*pageSize)
	if _, err := w.file.ReadAt(page, int64(id)*pageSize); err != nil {
		return nil, fmt.Errorf("page %d cannot be read: %w", id, err)
	}
	return page, nil
}

func (w *pageWalk) freelist(id uint64) error {
	page, err := w.read(id)
	if err != nil {
		return err
	}
	order := binary.NativeEndian
	if flags := order.Uint16(page[8:]); flags != freelistPage {
		return fmt.Errorf("page %d is no list of free pages", id)
	}
	count, at := uint64(order.Uint16(page[10:])), uint64(pageHead)
	if count == 0xFFFF { // the true count comes first
		count, at = order.Uint64(page[at:]), at+8
	}
	if count > (uint64(len(page))-at)/8 {
		return fmt.Errorf("page %d lists %d free pages, which is more than it can hold", id, count)
	}
	for i := range count {
		if free := order.Uint64(page[at+8*i:]); free < 2 || free >= w.pages {
			return fmt.Errorf("page %d lists page %d as free, and there are %d", id, free, w.pages)
		}
	}
	return nil
}

// tree checks the page of a tree and all below it.
func (w *pageWalk) tree(id uint64, depth int) error {
	page, err := w.read(id)
	if err != nil {
		return err
	}
	if depth > maxDepth {
		return fmt.Errorf("page %d lies too deep", id)
	}
	if err := w.elements(page, depth); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// elements checks what stands on one page of a tree.
func (w *pageWalk) elements(page []byte, depth int) error {
	order := binary.NativeEndian
	flags, count := order.Uint16(page[8:]), int(order.Uint16(page[10:]))
	if flags != branchPage && flags != leafPage {
		return fmt.Errorf("it is of no known kind (%#x)", flags)
	}
	if pageHead+count*elementSize > len(page) {
		return fmt.Errorf("it has %d entries, which is more than it can hold", count)
	}
	for i := range count {
		at := pageHead + i*elementSize
		e := page[at : at+elementSize]
		if flags == branchPage {
			if uint64(at)+uint64(order.Uint32(e))+uint64(order.Uint32(e[4:])) > uint64(len(page)) {
				return fmt.Errorf("entry %d reaches over its end", i)
			}
			if err := w.tree(order.Uint64(e[8:]), depth+1); err != nil {
				return err
			}
			continue
		}
		value := uint64(at) + uint64(order.Uint32(e[4:])) + uint64(order.Uint32(e[8:]))
		end := value + uint64(order.Uint32(e[12:]))
		if end > uint64(len(page)) {
			return fmt.Errorf("entry %d reaches over its end", i)
		}
		if order.Uint32(e)&bucketEntry != 0 {
			if err := w.bucket(page[value:end], depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// bucket checks a bucket, whose page is its own or stands inside the entry.
func (w *pageWalk) bucket(value []byte, depth int) error {
	if len(value) < 16 {
		return fmt.Errorf("a bucket of %d bytes", len(value))
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return w.tree(root, depth+1)
	}
	if len(value) < 16+pageHead {
		return fmt.Errorf("a bucket of %d bytes", len(value))
	}
	return w.elements(value[16:], depth+1)
}
