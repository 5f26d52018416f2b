package redis

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// Entries are kept twice. In the set of their key a member is
//
//	token (24 bytes), session (16), nonce (8)
//
// and in the set of their session
//
//	nonce (8), token (24), key
//
// so that Redis, which compares bytes, has them in the order of tokens.
const (
	idSize     = len(session.ID{})
	nonceSize  = 8
	memberSize = tokenstore.TokenSize + idSize + nonceSize
	whenSize   = 16 // decimal digits: microseconds since 1970
)

func encodeToken(t tokenstore.Token) string {
	b, _ := t.AppendBinary(make([]byte, 0, tokenstore.TokenSize)) // never fails
	return string(b)
}

func encodeNonce(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)) }

func encodeID(s session.ID) string { return string(s[:]) }

func decodeToken(s string) (t tokenstore.Token, err error) {
	err = t.UnmarshalBinary([]byte(s))
	return t, err
}

func decodeID(text string) (s session.ID, err error) {
	if copy(s[:], text) != len(text) || len(text) != idSize {
		return s, errShape
	}
	return s, nil
}

func encodeMember(e *session.Entry) string {
	return encodeToken(e.Token) + encodeID(e.Session) + encodeNonce(e.Nonce)
}

func decodeMember(key, m string) (e session.Entry, err error) {
	if len(m) != memberSize {
		return e, errShape
	}
	e.Key, e.Nonce = tokenstore.Key(key), binary.BigEndian.Uint64([]byte(m[memberSize-nonceSize:]))
	copy(e.Session[:], m[tokenstore.TokenSize:])
	e.Token, err = decodeToken(m[:tokenstore.TokenSize])
	return e, err
}

func decodeOwn(s session.ID, own string) (e session.Entry, err error) {
	const head = nonceSize + tokenstore.TokenSize
	if len(own) <= head {
		return e, errShape
	}
	e.Session, e.Key, e.Nonce = s, tokenstore.Key(own[head:]), binary.BigEndian.Uint64([]byte(own))
	e.Token, err = decodeToken(own[nonceSize:head])
	return e, err
}

// decodeRecord reads a record as the scripts tell of it: nothing where there is
// none. Its errors are *tokenstore.DamagedError.
func decodeRecord(key tokenstore.Key, raw string) (rec tokenstore.Record, ok bool, err error) {
	const head = tokenstore.TokenSize + whenSize
	if raw == "" {
		return rec, false, nil
	}
	if len(raw) < head {
		return rec, true, &tokenstore.DamagedError{Key: key, Why: "what Redis has there is not a record of ours"}
	}
	when, err := strconv.ParseUint(raw[tokenstore.TokenSize:head], 10, 63) // digits alone, as the scripts write them
	if err != nil {
		return rec, true, &tokenstore.DamagedError{Key: key, Why: fmt.Sprintf("the time of the raise is %q", raw[tokenstore.TokenSize:head])}
	}
	rec.RaisedAt, rec.Holder = time.UnixMicro(int64(when)), raw[head:]
	rec.Highest, err = decodeToken(raw[:tokenstore.TokenSize])
	return rec, true, err
}

// encodeWhen is what the scripts write as now.
func encodeWhen(t time.Time) string { return fmt.Sprintf("%0*d", whenSize, max(0, t.UnixMicro())) }

// microseconds rounds up: a session must not end before its time, nor by the
// part of a microsecond that Redis' clock does not tell.
func microseconds(d time.Duration) int64 { return int64(d/time.Microsecond) + 2 }
