package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// maxAnswer is the longest answer of a lease server that is read, in bytes.
const maxAnswer = 64 << 10

// call asks one server.
func (i *issuer) call(ctx context.Context, server, method, key string, what wire.LeaseRequest) (l wire.Lease, err error) {
	body, err := json.Marshal(what)
	if err != nil {
		return l, err
	}
	req, err := http.NewRequestWithContext(ctx, method, server+pathOf(key), bytes.NewReader(body))
	if err != nil {
		return l, err
	}
	req.Header.Set("Content-Type", "application/json")
	if i.bearer != nil {
		token, err := i.bearer()
		if err != nil {
			return l, &unreachableError{server, fmt.Errorf("the bearer token: %w", err)}
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := i.web.Do(req)
	if err != nil {
		if uerr := (*url.Error)(nil); errors.As(err, &uerr) {
			err = uerr.Err // its URL is the server's, with the key once more
		}
		return l, &unreachableError{server, err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return l, &unreachableError{server, fmt.Errorf("its answer broke off: %w", err)}
	}
	switch {
	case method == http.MethodDelete && resp.StatusCode == http.StatusNoContent:
		return l, nil
	case method == http.MethodPost && resp.StatusCode == http.StatusCreated, method == http.MethodPut && resp.StatusCode == http.StatusOK:
		if err := json.Unmarshal(text, &l); err != nil || l.Key != key || l.ExpiresIn <= 0 || method == http.MethodPost && !usable(l) {
			return l, &ServerError{Server: server, Status: resp.StatusCode}
		}
		return l, nil
	}
	return l, refusal(server, key, resp, text)
}

// usable reports whether a grant is one that a holder can work with.
func usable(l wire.Lease) bool {
	_, err := strconv.ParseUint(l.Token, 10, 64)
	return err == nil && l.ID != ""
}

// refusal is the error of an answer that grants nothing.
func refusal(server, key string, resp *http.Response, text []byte) error {
	var p wire.Problem
	e := &ServerError{Server: server, Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header)}
	if isProblem(resp.Header) && json.Unmarshal(text, &p) == nil {
		e.Name, e.Detail = nameOf(p), p.Detail
	}
	switch e.Name {
	case wire.LeaseHeld:
		return &HeldError{Key: key, Holder: p.Holder, RetryAfter: e.RetryAfter, Detail: e.Detail}
	case wire.LeaseLost, wire.LeaseFree:
		return fmt.Errorf("%w: %s says: %s", ErrLost, server, e.Detail)
	}
	return e
}

// maybeSent reports whether a server may have got a request that failed: all
// but those that it was not even connected for.
func maybeSent(err error) bool {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range several.Unwrap() {
			if maybeSent(err) {
				return true
			}
		}
		return false
	}
	op := (*net.OpError)(nil)
	return !errors.As(err, &op) || op.Op != "dial"
}
