package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// A log begins with a header: the magic, the version, the generation, a salt
// of random bytes, and a checksum over all of that. All numbers are big-endian.
const (
	logMagic      = "fencelog"
	logVersion    = 2
	logHeaderSize = len(logMagic) + 4 + 8 + saltSize + 4
	saltSize      = 8
)

// Then come frames, one for each batch of raises: the length of the payload,
// a checksum, and the payload. The payload holds, for each record that has
// changed, one byte of flags, the lengths of the key and of the sealed record
// (record.go), the key, and the sealed record.
const (
	frameHead = 4 + 4
	entryHead = 1 + 2 + 4
	// maxPayload is the longest payload, in bytes.
	maxPayload = 1 << 30
	// addedFlag marks a key that had no record before, so that the keys of a
	// store can be counted without looking for each.
	addedFlag = 1
	// goneFlag marks a key that was forgotten: it had a record before, and a
	// sealed nothing stands here in its place.
	goneFlag = 2
	// leaseFlag marks a lease (leaserecord.go) in the place of a record. Logs of
	// version 1 have none.
	leaseFlag = 4
)

var (
	errLogHeader  = errors.New("the header of the log is incomplete or its checksum is wrong")
	errLogVersion = errors.New("the log is of a version not known here")
	errFrame      = errors.New("the frame is incomplete or its checksum is wrong")
	errEntries    = errors.New("a frame has the right checksum but holds no records")
)

// framer seals the frames of one log. The salt and the generation count in
// every checksum, and so does the place of the frame: bytes of an earlier use
// of the disk, or of another place, never pass. Keys come from clients; not
// even one that knows the place of its bytes can make a frame of them, because
// it does not know the salt.
type framer struct {
	generation uint64
	salt       [saltSize]byte
	seed       uint32
}

func newFramer(generation uint64, salt [saltSize]byte) framer {
	b := binary.BigEndian.AppendUint64(nil, generation)
	return framer{generation, salt, crc32.Checksum(append(b, salt[:]...), castagnoli)}
}

// header returns the header of the log.
func (f framer) header() []byte {
	b := binary.BigEndian.AppendUint32([]byte(logMagic), logVersion)
	b = binary.BigEndian.AppendUint64(b, f.generation)
	b = append(b, f.salt[:]...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// parseLogHeader reads the header of the log of a generation.
func parseLogHeader(b []byte, generation uint64) (framer, error) {
	if len(b) < logHeaderSize {
		return framer{}, errLogHeader
	}
	n := logHeaderSize - 4
	if string(b[:len(logMagic)]) != logMagic || binary.BigEndian.Uint32(b[n:]) != crc32.Checksum(b[:n], castagnoli) {
		return framer{}, errLogHeader
	}
	b = b[len(logMagic):]
	if v := binary.BigEndian.Uint32(b); v == 0 || v > logVersion {
		return framer{}, fmt.Errorf("%w: %w (%d); open it with the version that wrote it", tokenstore.ErrForeign, errLogVersion, v)
	}
	if g := binary.BigEndian.Uint64(b[4:]); g != generation {
		return framer{}, fmt.Errorf("it is the log of generation %d, and its name says %d", g, generation)
	}
	return newFramer(generation, [saltSize]byte(b[12:])), nil
}

// checksum is that of a frame at an offset of the log.
func (f framer) checksum(offset int64, payload []byte) uint32 {
	var at [12]byte
	binary.BigEndian.PutUint64(at[:], uint64(offset))
	binary.BigEndian.PutUint32(at[8:], uint32(len(payload)))
	return crc32.Update(crc32.Update(f.seed, castagnoli, at[:]), castagnoli, payload)
}

// seal fills in the head of a frame that beginFrame began and appendEntry
// filled, and that is to stand at offset.
func (f framer) seal(frame []byte, offset int64) {
	payload := frame[frameHead:]
	binary.BigEndian.PutUint32(frame, uint32(len(payload)))
	binary.BigEndian.PutUint32(frame[4:], f.checksum(offset, payload))
}

// beginFrame empties b for a new frame.
func beginFrame(b []byte) []byte { return append(b[:0], make([]byte, frameHead)...) }

// appendEntry appends a record to a frame.
func appendEntry(frame []byte, key tokenstore.Key, rec tokenstore.Record, added bool) []byte {
	var flags byte
	if added {
		flags = addedFlag
	}
	return appendSealed(frame, flags, key, func(b []byte) []byte { return appendRecord(b, rec) })
}

// appendGone appends to a frame that key was forgotten.
func appendGone(frame []byte, key tokenstore.Key) []byte {
	return appendSealed(frame, goneFlag, key, func(b []byte) []byte { return b })
}

func appendSealed(frame []byte, flags byte, key tokenstore.Key, value func([]byte) []byte) []byte {
	frame = append(frame, flags)
	frame = binary.BigEndian.AppendUint16(frame, uint16(len(key)))
	lengthAt := len(frame)
	frame = append(frame, 0, 0, 0, 0)
	frame = append(frame, key...)
	keyAt := len(frame) - len(key)
	recordAt := len(frame)
	frame = value(frame)
	sum := checksum(frame[keyAt:recordAt], frame[recordAt:])
	frame = binary.BigEndian.AppendUint32(frame, sum)
	binary.BigEndian.PutUint32(frame[lengthAt:], uint32(len(frame)-recordAt))
	return frame
}

// appendLease appends a lease, or its end, to a frame.
func appendLease(frame []byte, key tokenstore.Key, l tokenstore.Lease) []byte {
	sealed := encodeLease([]byte(key), l)
	frame = append(frame, leaseFlag)
	frame = binary.BigEndian.AppendUint16(frame, uint16(len(key)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(sealed)))
	return append(append(frame, key...), sealed...)
}

// entry is one record or lease of a payload, not yet unsealed. It shares the payload's
// memory.
type entry struct {
	key    []byte
	sealed []byte
	added  bool
	lease  bool
	gone   bool
}

// nextEntry takes the first entry off a payload; ok is false where its lengths
// make no sense.
func nextEntry(payload []byte) (e entry, rest []byte, ok bool) {
	if len(payload) < entryHead {
		return e, nil, false
	}
	switch payload[0] {
	case 0, addedFlag, goneFlag, leaseFlag:
		e.added, e.gone, e.lease = payload[0] == addedFlag, payload[0] == goneFlag, payload[0] == leaseFlag
	default:
		return e, nil, false
	}
	n, m := int(binary.BigEndian.Uint16(payload[1:])), int64(binary.BigEndian.Uint32(payload[3:]))
	rest = payload[entryHead:]
	if n == 0 || n > tokenstore.MaxKey || int64(n)+m > int64(len(rest)) {
		return e, nil, false
	}
	e.key, e.sealed = rest[:n], rest[n:n+int(m)]
	return e, rest[n+int(m):], true
}
