package gate

import (
	"errors"
	"fmt"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Why a write is not admitted, beside a *StaleError, an *ImplausibleError, a
// *DrainTimeoutError, a *tokenstore.CollisionError, and errors that wrap tokenstore.ErrUnavailable.
// In every case nothing was sent.
var (
	// ErrOverloaded: too many writes wait, on the key or in all. The token was
	// not raised.
	ErrOverloaded = errors.New("too many writes are waiting")
	// ErrTooManyKeys: the write would make a record of a new key, and the store
	// has as many as it may. The token was not raised.
	ErrTooManyKeys = errors.New("the token store has as many keys as it may")
	// ErrStopping: the proxy admits nothing any more (rule 12).
	ErrStopping = errors.New("the proxy is stopping")
	// ErrLeft: the client left while its write waited; it is never sent.
	ErrLeft = errors.New("the client left before its write was admitted")
)

// StaleError refuses a write because a higher token is on the disk.
type StaleError struct {
	Key     tokenstore.Key
	Token   tokenstore.Token
	Highest tokenstore.Token
	// Overtaken says that the token was good when the write came and that a
	// higher one passed it while it waited.
	Overtaken bool
}

func (e *StaleError) Error() string {
	if e.Overtaken {
		return fmt.Sprintf("key %s: token %s was overtaken by %s while it waited", e.Key, e.Token, e.Highest)
	}
	return fmt.Sprintf("key %s: token %s is stale, the highest is %s", e.Key, e.Token, e.Highest)
}

// ImplausibleError refuses a token that is too far above the highest on disk.
type ImplausibleError struct {
	Key     tokenstore.Key
	Token   tokenstore.Token
	Highest tokenstore.Token
}

func (e *ImplausibleError) Error() string {
	return fmt.Sprintf("key %s: token %s is implausible, the highest is %s", e.Key, e.Token, e.Highest)
}

// DrainTimeoutError ends the wait for older writes (rule 7). The token counts
// already.
type DrainTimeoutError struct {
	Key tokenstore.Key
	// RetryAfter is the time until the last of them is settled, above 0, or 0
	// where that is not known because one is still in flight.
	RetryAfter time.Duration
	// Quarantined says that a quarantine holds one of the keys, after a crash.
	Quarantined bool
}

func (e *DrainTimeoutError) Error() string {
	return fmt.Sprintf("key %s: older writes are still running, unsettled or quarantined", e.Key)
}
