package etcd

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// A record is a byte for the version of this form, the token, the length of
// the holder in two bytes, the holder, the time of the raise in nanoseconds
// since 1970, and a checksum over the key and all that. etcd compares values
// byte by byte, and that is the order of the tokens.
const (
	recordVersion = 1
	lengthAt      = 1 + tokenstore.TokenSize
	holderAt      = lengthAt + 2
	timeSize      = 8
	sealSize      = 4
	recordMin     = holderAt + timeSize + sealSize
	// maxHolder keeps the byte behind a token below 0xff, which sameAs needs.
	maxHolder = 1<<15 - 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	errSeal   = errors.New("its checksum is wrong")
	errRecord = errors.New("it is no record of this version")
	errHolder = errors.New("the name of the holder is longer than 32,767 bytes")
)

// encodeRecord returns the value of mark/KEY.
func encodeRecord(key tokenstore.Key, rec tokenstore.Record) string {
	b := make([]byte, 0, recordMin+len(rec.Holder))
	b = appendHead(b, rec.Highest)
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(rec.Holder))), rec.Holder...)
	b = binary.BigEndian.AppendUint64(b, uint64(max(rec.RaisedAt.UnixNano(), 0)))
	return string(binary.BigEndian.AppendUint32(b, checksum(key, b)))
}

func appendHead(b []byte, t tokenstore.Token) []byte {
	b, _ = t.AppendBinary(append(b, recordVersion)) // never fails
	return b
}

func checksum(key tokenstore.Key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(key), castagnoli), castagnoli, value)
}

// encodeCall is the value of call/N: a token that is on record, and its key.
func encodeCall(key tokenstore.Key, t tokenstore.Token) string {
	b, _ := t.AppendBinary(make([]byte, 0, tokenstore.TokenSize+len(key))) // never fails
	return string(append(b, key...))
}

func decodeCall(b []byte) (m tokenstore.Mark, err error) {
	if len(b) <= tokenstore.TokenSize {
		return m, errRecord
	}
	m.Key = tokenstore.Key(b[tokenstore.TokenSize:])
	return m, m.Token.UnmarshalBinary(b[:tokenstore.TokenSize])
}

// decodeRecord reads what encodeRecord wrote. Its error is a
// *tokenstore.DamagedError.
func decodeRecord(key tokenstore.Key, b []byte) (rec tokenstore.Record, err error) {
	damaged := func(why error) (tokenstore.Record, error) {
		return tokenstore.Record{}, &tokenstore.DamagedError{Key: key, Why: why.Error()}
	}
	if len(b) < recordMin || b[0] != recordVersion {
		return damaged(errRecord)
	}
	n := len(b) - sealSize
	if checksum(key, b[:n]) != binary.BigEndian.Uint32(b[n:]) {
		return damaged(errSeal)
	}
	at := n - timeSize
	if int(binary.BigEndian.Uint16(b[lengthAt:])) != at-holderAt {
		return damaged(errRecord)
	}
	if err := rec.Highest.UnmarshalBinary(b[1:lengthAt]); err != nil {
		return damaged(err)
	}
	rec.Holder = string(b[holderAt:at])
	rec.RaisedAt = time.Unix(0, int64(binary.BigEndian.Uint64(b[at:])))
	return rec, nil
}

// missing holds where there is nothing at key.
func missing(key string) []clientv3.Cmp {
	return []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)}
}

// notBelow holds where the record at mark has the token t or a higher one, and
// where there is something else that is above it. It does not hold where there
// is nothing: etcd has no comparison of a value that is true of that.
func notBelow(mark string, t tokenstore.Token) []clientv3.Cmp {
	return []clientv3.Cmp{clientv3.Compare(clientv3.Value(mark), ">", string(appendHead(nil, t)))}
}

// noRecord holds where there is something at mark that is below all records.
func noRecord(mark string) []clientv3.Cmp {
	return []clientv3.Cmp{clientv3.Compare(clientv3.Value(mark), "<", string(appendHead(nil, tokenstore.Token{})))}
}

// sameAs holds where the record at mark has the token t, and the holder where
// one is named.
func sameAs(mark string, t tokenstore.Token, holder string) []clientv3.Cmp {
	b := appendHead(nil, t)
	if holder != "" {
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(holder))), holder...)
	}
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.Value(mark), ">", string(b)),
		clientv3.Compare(clientv3.Value(mark), "<", string(append(b, 0xff))), // of a length or a time the first byte is lower
	}
}
