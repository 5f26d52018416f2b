package tokenstore

import (
	"errors"
	"fmt"
	"strings"
)

// While the store is used.
var (
	// ErrUnavailable is wrapped by every error after which the caller does not
	// know what is recorded. Nothing may be forwarded on it (fail closed).
	ErrUnavailable = errors.New("the token store does not answer")
)

// Unavailable wraps err, where there is one, into ErrUnavailable.
func Unavailable(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// When the store is opened.
var (
	// ErrLocked: another process has the store open.
	ErrLocked = errors.New("another process uses this store")
	// ErrMissing: there is no store yet and none may be made.
	ErrMissing = errors.New("there is no store here")
	// ErrForeign: the file is not a store, or of a version not known here.
	ErrForeign = errors.New("this is not a fenceproxy store")
)

// StaleError refuses a token that is lower than the highest on record. It is
// returned only when that record is durable.
type StaleError struct {
	Key     Key
	Token   Token // as it was asked for
	Highest Token // on record, higher than Token
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("key %s: token %s is stale, the highest is %s", e.Key, e.Token, e.Highest)
}

// CollisionError refuses a token that is equal to the highest on record but
// comes from another holder.
type CollisionError struct {
	Key     Key
	Token   Token
	Holder  string // who asked
	Current string // who holds the token
}

func (e *CollisionError) Error() string {
	return fmt.Sprintf("key %s: token %s is held by %q, not by %q", e.Key, e.Token, e.Current, e.Holder)
}

// DamagedError tells of a record that does not pass its checksum. Its key
// fails closed; other keys do not suffer.
type DamagedError struct {
	Key Key
	Why string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the record of key %s is damaged: %s", e.Key, e.Why)
}

// Unwrap makes a damaged record count as a store that does not answer.
func (e *DamagedError) Unwrap() error { return ErrUnavailable }

// ChangedRulesError refuses to open a store whose rules made other keys than
// they do now: the marks of the old keys would silently be forgotten.
type ChangedRulesError struct {
	Rules []string // the names of the rules whose fingerprint is another
}

func (e *ChangedRulesError) Error() string {
	return fmt.Sprintf("the keys of rule %s may be made otherwise than when this store was last used, and marks that its other keys have would be forgotten; "+
		"name it in store.accept_changed_rules if that is meant, or restore its path, key and path_policy", strings.Join(e.Rules, ", "))
}

// EpochError refuses to open a store whose rule had a higher epoch: its tokens
// would all be stale, or, had the store been moved, all be believed.
type EpochError struct {
	Rule    string
	Epoch   uint64 // as it is now
	Highest uint64 // that the rule has had
}

func (e *EpochError) Error() string {
	return fmt.Sprintf("the epoch of rule %s is %d and was %d already; an epoch only grows: set it to %d or above", e.Rule, e.Epoch, e.Highest, e.Highest)
}
