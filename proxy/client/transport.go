package client

import (
	"fmt"
	"net/http"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// Header is the proxy's default for the header that carries the fencing token.
const Header = "X-Fencing-Token"

// Transport is an http.RoundTripper that sends requests with a fencing token,
// and fails with a *StaleTokenError (find it by errors.As) where the proxy
// refuses that as stale. The token comes from the request's context (WithToken,
// Lease.Context), else from Token, else from Lease; a request for which there is
// none is sent as it is. It is safe for concurrent use.
//
// A write that carries a token is sent at most once. http.Transport alone sends
// a request that has an Idempotency-Key header a second time when a connection
// breaks under it, although the first copy may still be on its way to the
// upstream.
type Transport struct {
	// Base sends the requests; nil for http.DefaultTransport.
	Base http.RoundTripper
	// Header carries the token; empty for X-Fencing-Token.
	Header string
	// Token returns the token of a request; an empty one is none.
	Token func(*http.Request) (string, error)
	// Lease is the lease whose token is sent. Its requests fail with ErrLost
	// once it is lost, and are not sent.
	Lease *Lease
	// RetryFor is how long a request is tried again that the proxy could not
	// take now and did not forward, as its answer says (retryable, forwarded:
	// no), and whose body can be had again (http.Request.GetBody). 0: never.
	RetryFor time.Duration
}

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip implements http.RoundTripper. It leaves the request as it is, and
// like every RoundTripper it closes its body, also where nothing is sent.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	token, lease, err := t.source(req)
	if err != nil {
		closeBody(req)
		return nil, fmt.Errorf("the fencing token: %w", err)
	}
	giveUp := time.Now().Add(t.RetryFor)
	for out := t.prepared(req, token); ; {
		if lease != nil {
			// The last moment: whoever waited, or was suspended, may have lost it.
			if err := lease.Err(); err != nil {
				closeBody(out)
				return nil, fmt.Errorf("not sent: %w", err)
			}
		}
		resp, err := t.base().RoundTrip(out)
		if err != nil || token == "" {
			return resp, err
		}
		p := problemOf(resp)
		if p == nil || resp.Header.Get(wire.HeaderForwarded) == string(wire.ForwardedYes) {
			return resp, nil // the upstream's own, or what it passes on of another fence
		}
		if nameOf(*p) == wire.StaleToken {
			_ = resp.Body.Close()
			return nil, stale(p, lease)
		}
		wait, ok := repeatable(resp, p)
		if !ok || req.Body != nil && req.Body != http.NoBody && req.GetBody == nil || time.Now().Add(wait).After(giveUp) {
			return resp, nil
		}
		_ = resp.Body.Close()
		if !pause(req.Context(), wait) {
			return nil, req.Context().Err()
		}
		out = t.prepared(req, token)
		if req.GetBody != nil {
			if out.Body, err = req.GetBody(); err != nil {
				return nil, fmt.Errorf("the body, to send it again: %w", err)
			}
		}
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

// source finds the token of a request, and its lease where it is one's.
func (t *Transport) source(req *http.Request) (token string, lease *Lease, err error) {
	if s, ok := req.Context().Value(sourceKey{}).(source); ok {
		token, lease = s.take()
		return token, lease, nil
	}
	if t.Token != nil {
		if token, err = t.Token(req); err != nil || token != "" {
			return token, nil, err
		}
	}
	if t.Lease != nil {
		token, lease = t.Lease.take()
	}
	return token, lease, nil
}

// prepared is a copy of the request with the token. Only the header is copied:
// the trailers are the caller's to fill in while the body is read.
func (t *Transport) prepared(req *http.Request, token string) *http.Request {
	out := req.WithContext(req.Context())
	if token == "" {
		return out
	}
	out.Header = req.Header.Clone()
	if out.Header == nil {
		out.Header = http.Header{}
	}
	name := t.Header
	if name == "" {
		name = Header
	}
	out.Header.Set(name, token)
	// http.Transport replays what it finds these two in, under their canonical
	// names. Servers read them in lower case just as well.
	for canonical, lower := range map[string]string{"Idempotency-Key": "idempotency-key", "X-Idempotency-Key": "x-idempotency-key"} {
		if values, ok := out.Header[canonical]; ok {
			delete(out.Header, canonical)
			out.Header[lower] = values
		}
	}
	return out
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}
