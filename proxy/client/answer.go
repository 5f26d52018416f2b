package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// maxProblem is the longest problem that is looked at, in bytes.
const maxProblem = 64 << 10

// problemOf returns the proxy's problem that an answer is, and nil for every
// other answer. The body of the answer can be read as before.
func problemOf(resp *http.Response) *wire.Problem {
	if resp.StatusCode < 400 || !isProblem(resp.Header) {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	rest := resp.Body
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), rest), rest}
	var p wire.Problem
	if err != nil || json.Unmarshal(text, &p) != nil || nameOf(p) == "" || p.Status != resp.StatusCode {
		return nil
	}
	return &p
}

// stale is the error of a stale token. Where it is the token of a lease, on the
// lease's own key, that is over, whatever its server still believes.
func stale(p *wire.Problem, lease *Lease) error {
	e := &StaleTokenError{
		Rule: p.Rule, Key: p.Key, Token: p.Token, Highest: p.Highest, Epoch: p.Epoch,
		Forwarded: p.Forwarded != wire.ForwardedNo, Detail: p.Detail,
	}
	if lease != nil && lease.Key() == p.Key {
		lease.end(fmt.Errorf("%w: %w", ErrLost, e))
	}
	return e
}

// repeatable reports whether the proxy says that the request may be sent again,
// and how long to wait. Both its problem and its header must say that nothing
// was forwarded: an upstream can write the one, and never the other.
func repeatable(resp *http.Response, p *wire.Problem) (time.Duration, bool) {
	if !p.Retryable || p.Forwarded != wire.ForwardedNo || resp.Header.Get(wire.HeaderForwarded) != string(wire.ForwardedNo) {
		return 0, false
	}
	return max(retryAfter(resp.Header), retryPause), true
}
