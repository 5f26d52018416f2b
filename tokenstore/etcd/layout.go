package etcd

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// layout names the keys of a store by its prefix.
type layout string

func (l layout) format() string                   { return string(l) + "format" }
func (l layout) opened() string                   { return string(l) + "opened" }
func (l layout) about() string                    { return string(l) + "about" }
func (l layout) calls() string                    { return string(l) + "call/" }
func (l layout) sess() string                     { return string(l) + "sess/" }
func (l layout) alive() string                    { return string(l) + "alive/" }
func (l layout) marks() string                    { return string(l) + "mark/" }
func (l layout) open() string                     { return string(l) + "open/" }
func (l layout) sessOf(s session.ID) string       { return l.sess() + s.String() }
func (l layout) aliveOf(s session.ID) string      { return l.alive() + s.String() }
func (l layout) own(s session.ID) string          { return string(l) + "own/" + s.String() + "/" }
func (l layout) markOf(key tokenstore.Key) string { return l.marks() + string(key) }

// callOf is one of a few names, since the watch alone needs what is put there.
func (l layout) callOf(n int) string { return l.calls() + strconv.Itoa(n) }

// marksEnd is behind the last of alive/, call/ and mark/, between which there is
// nothing else that changes often: one watch looks at all of them.
func (l layout) marksEnd() string { return string(l) + "mark0" }

// Behind the key of an entry there is a zero byte and suffixSize bytes more.
// Keys that are made from templates have no such byte. One that has could
// make entries of another stand among those of a key (they are left out), but
// the bytes never are those of another entry.
const suffixSize = tokenstore.TokenSize + len(session.ID{}) + 8

// openOf is where an entry stands among those of its key.
func (l layout) openOf(e *session.Entry) string {
	b := make([]byte, 0, len(l)+len("open/")+len(e.Key)+1+suffixSize)
	b = append(append(append(b, l.open()...), e.Key...), 0)
	b, _ = e.Token.AppendBinary(b) // never fails
	b = append(b, e.Session[:]...)
	return string(binary.BigEndian.AppendUint64(b, e.Nonce))
}

// ownOf is where an entry stands among those of its session.
func (l layout) ownOf(e *session.Entry) string {
	own := l.own(e.Session)
	b := make([]byte, 0, len(own)+tokenstore.TokenSize+8+len(e.Key))
	b, _ = e.Token.AppendBinary(append(b, own...)) // never fails
	b = binary.BigEndian.AppendUint64(b, e.Nonce)
	return string(append(b, e.Key...))
}

// openRange is where all entries of key are, and some that are not.
func (l layout) openRange(key tokenstore.Key) (from, end string) {
	from = l.open() + string(key)
	return from + "\x00", from + "\x01"
}

// olderRange is where the entries of key below t are. Unordered ones stand with
// those of the lowest token; for that one it has both.
func (l layout) olderRange(key tokenstore.Key, t tokenstore.Token) (from, end string) {
	if t == (tokenstore.Token{}) {
		t.Minor = 1
	}
	from, _ = l.openRange(key)
	b, _ := t.AppendBinary([]byte(from)) // never fails
	return from, string(b)
}

var errNotEntry = errors.New("it was not written by fenceproxy; remove it")

// readOpen is the entry that openOf has named path.
func (l layout) readOpen(path []byte) (e session.Entry, err error) {
	at := len(path) - suffixSize
	if at-1 <= len(l.open()) || path[at-1] != 0 {
		return e, fmt.Errorf("the key %q of etcd is no entry: %w", path, errNotEntry)
	}
	e.Key = tokenstore.Key(path[len(l.open()) : at-1])
	b := path[at:]
	err = e.Token.UnmarshalBinary(b[:tokenstore.TokenSize])
	b = b[tokenstore.TokenSize:]
	e.Nonce = binary.BigEndian.Uint64(b[copy(e.Session[:], b):])
	return e, err
}

// readOwn is the entry of s that ownOf has named path.
func (l layout) readOwn(s session.ID, path []byte) (e session.Entry, err error) {
	const fixed = tokenstore.TokenSize + 8
	b := path[min(len(path), len(l.own(s))):]
	if len(b) <= fixed {
		return e, fmt.Errorf("the key %q of etcd is no entry: %w", path, errNotEntry)
	}
	e.Session, e.Key = s, tokenstore.Key(b[fixed:])
	e.Nonce = binary.BigEndian.Uint64(b[tokenstore.TokenSize:])
	return e, e.Token.UnmarshalBinary(b[:tokenstore.TokenSize])
}

// readSession is the session that sessOf or aliveOf has named path, under dir.
func readSession(dir string, path []byte) (s session.ID, err error) {
	name := path[min(len(path), len(dir)):]
	if len(name) != hex.EncodedLen(len(s)) {
		return s, fmt.Errorf("the key %q of etcd is no session: %w", path, errNotEntry)
	}
	if _, err := hex.Decode(s[:], name); err != nil {
		return s, fmt.Errorf("the key %q of etcd is no session: %w", path, errNotEntry)
	}
	return s, nil
}
