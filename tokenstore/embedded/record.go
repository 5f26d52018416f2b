package embedded

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// A record on disk is the token, one byte of flags, the time of the raise in
// nanoseconds since 1970, and the holder: sealed together with its key.
const (
	flagsAt   = tokenstore.TokenSize
	timeAt    = flagsAt + 1
	holderAt  = timeAt + 8
	sealSize  = 4
	clearFlag = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	errSeal   = errors.New("its checksum is wrong")
	errRecord = errors.New("its checksum is right but it is no record")
	errLease  = errors.New("its checksum is right but it is no lease")
)

// seal appends to value the checksum over key and value. The key counts, so
// that a value that comes to stand under another key is found too.
func seal(key, value []byte) []byte {
	return binary.BigEndian.AppendUint32(value, checksum(key, value))
}

// unseal returns the value that seal was given, or errSeal.
func unseal(key, sealed []byte) ([]byte, error) {
	n := len(sealed) - sealSize
	if n < 0 || binary.BigEndian.Uint32(sealed[n:]) != checksum(key, sealed[:n]) {
		return nil, errSeal
	}
	return sealed[:n], nil
}

func checksum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

// encodeRecord returns the sealed bytes of rec under key.
func encodeRecord(key []byte, rec tokenstore.Record) []byte {
	return seal(key, appendRecord(make([]byte, 0, holderAt+len(rec.Holder)+sealSize), rec))
}

// appendRecord appends the bytes of rec, without the seal.
func appendRecord(b []byte, rec tokenstore.Record) []byte {
	b, _ = rec.Highest.AppendBinary(b) // never fails
	var flags byte
	if rec.Clear {
		flags |= clearFlag
	}
	b = append(b, flags)
	b = binary.BigEndian.AppendUint64(b, uint64(rec.RaisedAt.UnixNano()))
	return append(b, rec.Holder...)
}

// decodeRecord reads what encodeRecord wrote; its result keeps nothing of b.
// Flags that are not known here fail closed: they may say something that this
// program would ignore.
func decodeRecord(key, b []byte) (tokenstore.Record, error) {
	b, err := unseal(key, b)
	if err != nil {
		return tokenstore.Record{}, err
	}
	if len(b) < holderAt || b[flagsAt]&^clearFlag != 0 {
		return tokenstore.Record{}, errRecord
	}
	var rec tokenstore.Record
	if err := rec.Highest.UnmarshalBinary(b[:flagsAt]); err != nil {
		return tokenstore.Record{}, errRecord
	}
	rec.Clear = b[flagsAt]&clearFlag != 0
	rec.RaisedAt = time.Unix(0, int64(binary.BigEndian.Uint64(b[timeAt:])))
	rec.Holder = string(b[holderAt:])
	return rec, nil
}
