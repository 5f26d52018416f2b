package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// ErrDamaged is wrapped by the errors of Open and Verify on a file that was a
// store once. It is not opened: some of its marks may be lost.
var ErrDamaged = errors.New("the store is damaged")

// pageSize of every store. It does not follow the machine, so that a store can
// move between machines of one byte order.
const pageSize = 4096

// A file of bbolt begins with two header pages, of which the transactions
// write one in turn.
const (
	headerAt   = 16 // behind the page's own head
	headerSize = 64
	boltMagic  = 0xED0CDAED
	boltFormat = 2
)

// header is what one header page says.
type header struct {
	pageSize uint32
	root     uint64 // page of the bucket of buckets
	freelist uint64 // page of the list of free pages
	pages    uint64 // the file has at least so many
	txid     uint64
}

var (
	errNoMagic = errors.New("it does not begin like a store")
	errVersion = errors.New("its format is of a version not known here")
)

// parseHeader reads one header page; the checksum is bbolt's.
func parseHeader(page []byte) (header, error) {
	b, order := page[headerAt:headerAt+headerSize], binary.NativeEndian
	if order.Uint32(b) != boltMagic {
		return header{}, errNoMagic
	}
	sum := fnv.New64a()
	sum.Write(b[:headerSize-8])
	if sum.Sum64() != order.Uint64(b[headerSize-8:]) {
		return header{}, errors.New("the checksum of a header page is wrong")
	}
	if v := order.Uint32(b[4:]); v != boltFormat {
		return header{}, fmt.Errorf("%w (%d)", errVersion, v)
	}
	return header{pageSize: order.Uint32(b[8:]), root: order.Uint64(b[16:]), freelist: order.Uint64(b[32:]), pages: order.Uint64(b[40:]), txid: order.Uint64(b[48:])}, nil
}

// readHeaders returns the newest of both header pages. Both must be right: a
// page of 80 bytes is written within one sector and so as a whole, and with
// one of them gone nobody can say whether it held the last raises.
func readHeaders(f io.ReaderAt) (header, error) {
	var newest header
	for n := range int64(2) {
		page := make([]byte, headerAt+headerSize)
		if _, err := f.ReadAt(page, n*pageSize); err != nil {
			return header{}, err
		}
		h, err := parseHeader(page)
		if err != nil {
			return header{}, err
		}
		if h.pageSize != pageSize {
			return header{}, fmt.Errorf("%w: its pages have %d bytes, a store's have %d", errVersion, h.pageSize, pageSize)
		}
		if n == 0 || h.txid > newest.txid {
			newest = h
		}
	}
	return newest, nil
}

// checkFile looks at a file before bbolt does: bbolt makes a new store of an
// empty file, and panics on one that was cut. Its errors wrap ErrForeign or
// ErrDamaged and say what to do.
func checkFile(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	switch size := info.Size(); {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: %s is no regular file; name the directory of the store", tokenstore.ErrForeign, f.Name())
	case size == 0:
		return fmt.Errorf("%w: %s is empty; restore it from a backup, or remove it if no token was ever recorded in it", tokenstore.ErrForeign, f.Name())
	case size < 4*pageSize:
		if first := make([]byte, headerAt+headerSize); size >= int64(len(first)) {
			if _, err := f.ReadAt(first, 0); err == nil {
				if _, err := parseHeader(first); err == nil {
					return damaged(f.Name(), "it was cut short")
				}
			}
		}
		return foreign(f, errNoMagic)
	}
	h, err := readHeaders(f)
	switch {
	case errors.Is(err, errNoMagic):
		// One header page alone tells a damaged store from any other file.
		page := make([]byte, headerAt+headerSize)
		for n := range int64(2) {
			if _, rerr := f.ReadAt(page, n*pageSize); rerr == nil {
				if _, perr := parseHeader(page); perr == nil {
					return damaged(f.Name(), "one of its two header pages is overwritten")
				}
			}
		}
		return foreign(f, err)
	case errors.Is(err, errVersion):
		return foreign(f, err)
	case err != nil:
		return damaged(f.Name(), err.Error())
	case uint64(info.Size()) < h.pages*pageSize:
		return damaged(f.Name(), fmt.Sprintf("it was cut short: %d bytes of %d are left", info.Size(), h.pages*pageSize))
	}
	return nil
}

func foreign(f *os.File, why error) error {
	return fmt.Errorf("%w: %s: %w; name another directory, or move the file away", tokenstore.ErrForeign, f.Name(), why)
}

func damaged(path, why string) error {
	return fmt.Errorf("%w: %s: %s; restore it from a backup that is not older than its last raise, "+
		"or start a new store with a higher epoch for every rule", ErrDamaged, path, why)
}
