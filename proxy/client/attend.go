package client

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// errSilent is a server that was given up: see attend.
var errSilent = errors.New("it takes requests and answers none")

// attend returns a context for a request that may take long: for another
// holder, and for a drain whose bound is known to the server alone. So a server
// is not given up by the time that one answer takes, but once it leaves another
// question open too that it need not think about. The context ends then, with
// errSilent. The function that is returned ends it all.
func (i *issuer) attend(ctx context.Context, server string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for pause(ctx, patience/2) {
			if !i.alive(ctx, server) {
				cancel(errSilent)
				return
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-ended
	}
}

// alive reports whether a server answers anything in time. One that cannot be
// reached for a moment is asked again: the request that is attended may have
// waited for an hour, and would lose its place.
func (i *issuer) alive(ctx context.Context, server string) bool {
	ctx, cancel := context.WithTimeout(ctx, patience/2)
	defer cancel()
	for !i.answers(ctx, server) {
		if !pause(ctx, jitter(retryPause)) {
			return false
		}
	}
	return true
}

// answers asks for the lease of no key, which any answer is good enough for: it
// needs no store, and stands in no queue.
func (i *issuer) answers(ctx context.Context, server string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+wire.LeasesPath, nil)
	if err != nil {
		return false
	}
	if i.bearer != nil { // without it any answer would do as well, and its log would tell of somebody who was kept out
		if token, err := i.bearer(); err == nil {
			req.Header.Set("Authorization", "Bearer "+token)
		}
	}
	resp, err := i.web.Do(req)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer)) // the connection can be used again
	_ = resp.Body.Close()
	return true
}
