package lease

import (
	"errors"
	"fmt"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Why there is no lease, beside a *HeldError, a *KeyError, a *RequestError, a
// *TokenError, a *tokenstore.TokensUsedUpError, what the fence says (gate's errors), and
// errors that wrap tokenstore.ErrUnavailable.
var (
	// ErrLost: the lease ran out, was released, or never was the caller's.
	ErrLost = errors.New("this lease is not held any more")
	// ErrFree: nobody holds the lease.
	ErrFree = errors.New("nobody holds the lease")
	// ErrLeft: the client left while it waited. It holds nothing.
	ErrLeft = errors.New("the client left before it had the lease")
	// ErrStopping: the proxy grants nothing any more. What is held stays held.
	ErrStopping = errors.New("the proxy is stopping")
	// ErrOverloaded: too many wait, for the key or in all.
	ErrOverloaded = errors.New("too many clients wait for leases")
	// ErrFull: as many leases are held as may be.
	ErrFull = errors.New("too many leases are held")
	// ErrRaced: others changed the lease, or raised its key, faster than this
	// one could be granted.
	ErrRaced = errors.New("the lease was changed by others again and again")
)

// HeldError says that another holder has the lease.
type HeldError struct {
	Key     tokenstore.Key
	Current tokenstore.Lease // zero where others are just being asked about
	Left    time.Duration    // until it runs out, if it is not renewed
}

func (e *HeldError) Error() string {
	if !e.Current.Held() {
		return fmt.Sprintf("key %s: others were there before", e.Key)
	}
	return fmt.Sprintf("key %s: the lease is held by %q with token %s", e.Key, e.Current.Holder, e.Current.Token)
}

// KeyError says why no lease can be granted on a key.
type KeyError struct{ Why string }

func (e *KeyError) Error() string { return e.Why }

// RequestError says what is wrong with a request.
type RequestError struct{ Why string }

func (e *RequestError) Error() string { return e.Why }

// TokenError says why the next token is of no use.
type TokenError struct{ Why string }

func (e *TokenError) Error() string { return e.Why }
