package client

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// How a lease ends. The cause of Lease.Context wraps one of them.
var (
	// ErrLost says that the lease is not, or may not be, the holder's any more:
	// it was not renewed in time, or somebody else has a higher token.
	ErrLost = errors.New("the lease is lost")
	// ErrReleased says that Release was called.
	ErrReleased = errors.New("the lease was released")
)

// ErrUnreachable says that no server gave an answer that decides. A lease that
// was asked for may be granted all the same; then it runs out by itself.
var ErrUnreachable = errors.New("no lease server answers")

// HeldError says that somebody else holds the lease of a key.
type HeldError struct {
	Key        string
	Holder     string        // where the server tells it
	RetryAfter time.Duration // until the lease runs out, unless it is renewed
	Detail     string        // the server's own words
}

func (e *HeldError) Error() string {
	switch {
	case e.Detail != "":
		return e.Detail // Acquire has put the key in front
	case e.Holder != "":
		return fmt.Sprintf("the lease of %s is held by %q", e.Key, e.Holder)
	}
	return "the lease of " + e.Key + " is held by another"
}

// ServerError is an answer of a lease server that is none of the others: what
// was asked for is wrong (a status below 500), or cannot be done now.
type ServerError struct {
	Server     string
	Status     int
	Name       wire.Name // of the problem; empty where the answer is none
	Detail     string
	RetryAfter time.Duration
}

func (e *ServerError) Error() string {
	what := fmt.Sprintf("%s answers %d", e.Server, e.Status)
	switch e.Name {
	case "":
		return what + ": that is no answer of a lease server; is this the address of leases.address?"
	case wire.WriteNotCovered, wire.TokenRequired, wire.PathAlias, wire.PathNotCanonical: // the fence's, never the issuer's
		return fmt.Sprintf("%s %s: that is the proxy's port for writes; is this the address of leases.address?", what, e.Name)
	}
	return fmt.Sprintf("%s %s: %s", what, e.Name, e.Detail)
}

// temporary reports whether another server, or the same one a little later,
// may answer otherwise. A drain that took too long is not over there either.
func (e *ServerError) temporary() bool {
	switch e.Status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return e.Name != wire.DrainTimeout
	}
	return false
}

// unreachableError is a server that gave no answer.
type unreachableError struct {
	server string
	err    error
}

func (e *unreachableError) Error() string        { return fmt.Sprintf("%s: %v", e.server, e.err) }
func (e *unreachableError) Unwrap() error        { return e.err }
func (e *unreachableError) Is(target error) bool { return target == ErrUnreachable }

// again reports whether it is worth to ask once more, or another server.
func again(err error) bool {
	if refused := (*ServerError)(nil); errors.As(err, &refused) {
		return refused.temporary()
	}
	return errors.Is(err, ErrUnreachable)
}
