package embedded

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// scanLog reads the log of a generation, of size bytes, and calls visit for
// each record in the order in which they were raised. It returns where the
// last whole frame ends.
//
// What lies behind that end is the one frame whose sync may have been under
// way at a crash: nobody was told of it. A frame is only ever written when the
// one before it is on the disk, so where a whole frame follows anywhere behind
// a bad one, the bad one was told once and the log is damaged: scanLog then
// fails. It fails with errLogHeader where not even the header can be read, and
// with any error of visit.
func scanLog(r io.ReaderAt, size int64, generation uint64, visit func(e entry) error) (end int64, err error) {
	head := make([]byte, min(size, int64(logHeaderSize)))
	if _, err := r.ReadAt(head, 0); err != nil && !(errors.Is(err, io.EOF) && len(head) == 0) {
		return 0, err
	}
	f, err := parseLogHeader(head, generation)
	if err != nil {
		return 0, err
	}
	end = int64(logHeaderSize)
	in := bufio.NewReaderSize(io.NewSectionReader(r, end, size-end), 1<<18)
	var payload []byte
	for end < size {
		payload, err = f.readFrame(in, end, size, payload)
		if errors.Is(err, errFrame) {
			return end, f.nothingBehind(r, end, size)
		}
		if err != nil {
			return end, err
		}
		if err := eachEntry(payload, visit); err != nil {
			return end, fmt.Errorf("the frame at byte %d: %w", end, err)
		}
		end += frameHead + int64(len(payload))
	}
	return end, nil
}

// readFrame reads the frame at offset and returns its payload, in the memory
// of buf where that is large enough. Its error is errFrame where no whole
// frame stands there.
func (f framer) readFrame(in io.Reader, offset, size int64, buf []byte) ([]byte, error) {
	if size-offset < frameHead {
		return buf, errFrame
	}
	var head [frameHead]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return buf, err
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	if n == 0 || n > maxPayload || n > size-offset-frameHead {
		return buf, errFrame
	}
	if int64(cap(buf)) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	if _, err := io.ReadFull(in, buf); err != nil {
		return buf, err
	}
	if binary.BigEndian.Uint32(head[4:]) != f.checksum(offset, buf) {
		return buf, errFrame
	}
	return buf, nil
}

// nothingBehind fails where a whole frame begins anywhere behind the bad one
// at offset bad.
func (f framer) nothingBehind(r io.ReaderAt, bad, size int64) error {
	tail := make([]byte, size-bad)
	if _, err := r.ReadAt(tail, bad); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for at := 1; at+frameHead < len(tail); at++ {
		n := int64(binary.BigEndian.Uint32(tail[at:]))
		payload := tail[at+frameHead:]
		if n == 0 || n > int64(len(payload)) {
			continue
		}
		payload = payload[:n]
		// Its lengths are looked at first: adding up every sequence of bytes
		// that begins like a frame would take long.
		if eachEntry(payload, func(entry) error { return nil }) != nil {
			continue
		}
		if binary.BigEndian.Uint32(tail[at+4:]) == f.checksum(bad+int64(at), payload) {
			return fmt.Errorf("the frame at byte %d is damaged, and a whole one follows at byte %d", bad, bad+int64(at))
		}
	}
	return nil
}

// eachEntry calls visit for each entry of a payload; it fails where the
// payload is not made of entries.
func eachEntry(payload []byte, visit func(e entry) error) error {
	for len(payload) > 0 {
		e, rest, ok := nextEntry(payload)
		if !ok {
			return errEntries
		}
		if err := visit(e); err != nil {
			return err
		}
		payload = rest
	}
	return nil
}

// record unseals an entry; that of a key that was forgotten is empty.
func (e entry) record() (rec tokenstore.Record, err error) {
	if e.gone {
		var rest []byte
		if rest, err = unseal(e.key, e.sealed); err == nil && len(rest) > 0 {
			err = errRecord
		}
	} else {
		rec, err = decodeRecord(e.key, e.sealed)
	}
	if err != nil {
		return rec, &tokenstore.DamagedError{Key: tokenstore.Key(e.key), Why: err.Error()}
	}
	return rec, nil
}
