package tokenstore

import (
	"errors"
	"fmt"
	"time"
)

// Raise decides what a key's record becomes by one mark, made at now, and
// whether that is a change (rule 6): every store decides like this, under the
// lock or in the transaction that also writes the result. exists says that
// there is a record r. The errors are *StaleError and *CollisionError. An
// unordered mark is never refused and changes nothing.
func (r Record) Raise(exists bool, m Mark, now time.Time) (next Record, changed bool, err error) {
	if m.Unordered {
		return r, false, nil
	}
	c := 1
	if exists {
		c = m.Token.Compare(r.Highest)
	}
	switch {
	case c < 0:
		return r, false, &StaleError{Key: m.Key, Token: m.Token, Highest: r.Highest}
	case c > 0:
		return Record{Highest: m.Token, Clear: m.Clear, RaisedAt: now, Holder: m.Holder}, true, nil
	case m.Holder != "" && r.Holder != "" && m.Holder != r.Holder:
		return r, false, &CollisionError{Key: m.Key, Token: m.Token, Holder: m.Holder, Current: r.Holder}
	}
	next = r
	next.Clear = r.Clear || m.Clear
	if r.Holder == "" {
		next.Holder = m.Holder // else a second holder could share the token
	}
	return next, next != r, nil
}

// CheckMarks refuses what no store can record in one step: no mark, a key of
// a wrong length, a key named twice. Nothing is recorded then, but the error
// wraps ErrUnavailable: callers fail closed on it.
func CheckMarks(marks []Mark) error {
	if len(marks) == 0 {
		return Unavailable(errors.New("no key was named"))
	}
	for _, m := range marks {
		if n := len(m.Key); n == 0 || n > MaxKey {
			return Unavailable(fmt.Errorf("a key of %d bytes (1 to %d are allowed)", n, MaxKey))
		}
	}
	if len(marks) == 1 { // by far the most frequent
		return nil
	}
	named := make(map[Key]struct{}, len(marks))
	for _, m := range marks {
		if _, twice := named[m.Key]; twice {
			return Unavailable(fmt.Errorf("key %s is named twice in one step", m.Key))
		}
		named[m.Key] = struct{}{}
	}
	return nil
}
