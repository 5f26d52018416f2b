package dump

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"
	"unicode/utf8"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// ErrBroken is wrapped by the errors about a dump that is none, or not whole.
var ErrBroken = errors.New("this is no whole dump of a token store")

// Reader reads one dump.
type Reader struct {
	Header Header

	in    *bufio.Reader
	sum   hash.Hash
	lines int64
	keys  int64
	last  tokenstore.Key
	done  bool

	leases []tokenstore.KeyLease
}

// NewReader reads the header of a dump.
func NewReader(in io.Reader) (*Reader, error) {
	r := &Reader{in: bufio.NewReaderSize(in, 1<<16), sum: sha256.New()}
	b, err := r.line()
	if err != nil {
		return nil, err
	}
	// Its kind and version first: another version may have other fields.
	var of struct {
		Kind    string `json:"fenceproxy"`
		Version int    `json:"version"`
	}
	switch err := json.Unmarshal(b, &of); {
	case err != nil || of.Kind != kind:
		return nil, r.broken("it does not begin with the header of `fenceproxy store export`")
	case of.Version < 1 || of.Version > version:
		return nil, r.broken("it is of version %d, and this program knows those up to %d: import it with the version that wrote it", of.Version, version)
	}
	var h headLine
	if err := r.decode(b, &h); err != nil {
		return nil, err
	}
	if err := checkTime(h.ExportedAt); err != nil {
		return nil, r.broken("%v", err)
	}
	r.sum.Write(b)
	r.Header = Header{Clean: h.Clean, Unordered: h.Unordered, Settle: time.Duration(h.Settle), ExportedAt: h.ExportedAt, Rules: h.Rules, Epochs: h.Epochs, Granted: h.Granted}
	return r, nil
}

// Next returns the next record, and io.EOF when the dump has ended as it
// should. Any other error means that it is not whole, or cannot be read.
func (r *Reader) Next() (Record, error) {
	if r.done {
		return Record{}, io.EOF
	}
	b, err := r.line()
	for err == nil && bytes.HasPrefix(b, leasePrefix) {
		if err = r.lease(b); err == nil {
			b, err = r.line()
		}
	}
	if err != nil {
		return Record{}, err
	}
	if bytes.HasPrefix(b, []byte(`{"keys":`)) {
		return Record{}, r.end(b)
	}
	var l recordLine
	if err := r.decode(b, &l); err != nil {
		return Record{}, err
	}
	rec := Record{tokenstore.Key(l.Key), tokenstore.Record{Highest: tokenstore.Token(l.Highest), Clear: l.Clear, Holder: string(l.Holder), RaisedAt: l.RaisedAt}}
	if err := rec.check(); err != nil {
		return Record{}, r.broken("%v", err)
	}
	if len(r.leases) > 0 {
		return Record{}, r.broken("the record of key %q comes behind a lease", rec.Key)
	}
	if r.keys > 0 && rec.Key <= r.last {
		return Record{}, r.broken("key %q comes behind key %q: the keys are not in order", rec.Key, r.last)
	}
	r.sum.Write(b)
	r.keys, r.last = r.keys+1, rec.Key
	return rec, nil
}

// end judges the last line, and returns io.EOF where all is well.
func (r *Reader) end(b []byte) error {
	var l lastLine
	if err := r.decode(b, &l); err != nil {
		return err
	}
	switch {
	case l.Keys == nil || *l.Keys != r.keys:
		return r.broken("there are %d keys, and the last line says otherwise: lines are missing", r.keys)
	case l.Leases != int64(len(r.leases)):
		return r.broken("there are %d leases, and the last line says otherwise: lines are missing", len(r.leases))
	case l.SHA256 != hex.EncodeToString(r.sum.Sum(nil)):
		return r.broken("its checksum is wrong: it was damaged or changed since it was exported")
	}
	if _, err := r.in.ReadByte(); err == nil {
		r.lines++
		return r.broken("something follows behind its end")
	} else if !errors.Is(err, io.EOF) {
		return fmt.Errorf("the dump cannot be read: %w", err)
	}
	r.done = true
	return io.EOF
}

// line returns the next line with its end.
func (r *Reader) line() ([]byte, error) {
	r.lines++
	var line []byte
	for {
		part, err := r.in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, r.broken("the line is longer than any of a dump")
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			return nil, r.broken("it was cut off: its last line, which counts the keys, is missing; export the store again")
		case err != nil:
			return nil, fmt.Errorf("the dump cannot be read: %w", err)
		}
		return line, nil
	}
}

// decode reads a line strictly: a field that is not known here may say
// something that this program would ignore, and bytes that are not UTF-8 would
// silently become other ones.
func (r *Reader) decode(b []byte, v any) error {
	if !utf8.Valid(b) {
		return r.broken("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return r.broken("%v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return r.broken("more than one value stands there")
	}
	return nil
}

func (r *Reader) broken(format string, args ...any) error {
	return fmt.Errorf("%w: line %d: %s", ErrBroken, r.lines, fmt.Sprintf(format, args...))
}
