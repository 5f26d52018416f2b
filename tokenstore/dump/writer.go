package dump

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Writer writes one dump. Where it is given up, what it has written has no
// last line, and is no dump.
type Writer struct {
	out  *bufio.Writer
	sum  hash.Hash
	keys int64
	last tokenstore.Key

	granted uint64 // of the header
	clean   bool   // the same
	leases  int64
}

// NewWriter returns a Writer to out. Begin comes first, then Add in the order
// of the keys, then AddLease likewise, then End.
func NewWriter(out io.Writer) *Writer {
	return &Writer{out: bufio.NewWriterSize(out, 1<<16), sum: sha256.New()}
}

// Begin writes the header.
func (w *Writer) Begin(h Header) error {
	v := version
	if h.Granted == 0 {
		v = 1
	}
	w.granted, w.clean = h.Granted, h.Clean
	return w.line(headLine{Kind: kind, Version: v, Granted: h.Granted, Clean: h.Clean, Unordered: h.Unordered, Settle: span(h.Settle),
		ExportedAt: h.ExportedAt.UTC(), Rules: h.Rules, Epochs: h.Epochs})
}

// Add writes one key, which comes behind all before it.
func (w *Writer) Add(r Record) error {
	if err := r.check(); err != nil {
		return err
	}
	if w.leases > 0 {
		return fmt.Errorf("the record of key %q comes behind a lease", r.Key)
	}
	if w.keys > 0 && r.Key <= w.last {
		return fmt.Errorf("key %q comes behind key %q: the keys are not in order", r.Key, w.last)
	}
	w.keys, w.last = w.keys+1, r.Key
	return w.line(recordLine{Key: text(r.Key), Highest: mark(r.Highest), Clear: r.Clear, Holder: text(r.Holder), RaisedAt: r.RaisedAt.UTC()})
}

// End writes the last line. Only then the dump is one.
func (w *Writer) End() error {
	if err := w.line(lastLine{Keys: &w.keys, Leases: w.leases, SHA256: hex.EncodeToString(w.sum.Sum(nil))}); err != nil {
		return err
	}
	return w.out.Flush()
}

// Keys is how many were added.
func (w *Writer) Keys() int64 { return w.keys }

// Clean is what the header says of the last stop.
func (w *Writer) Clean() bool { return w.clean }

func (w *Writer) line(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if len(b) > maxLine {
		return fmt.Errorf("a line of %d bytes, which no Reader takes (at most %d)", len(b), maxLine)
	}
	w.sum.Write(b) // never fails
	_, err = w.out.Write(b)
	return err
}
