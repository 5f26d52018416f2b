package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// issuer speaks with the lease servers.
type issuer struct {
	servers []string // without a slash at the end
	bearer  func() (string, error)
	web     *http.Client
	clock   func() time.Duration
	last    atomic.Int32 // the server that answered last is asked first
}

func newIssuer(o *LeaseOptions) (*issuer, error) {
	i := &issuer{bearer: o.Bearer, clock: o.clock}
	if i.clock == nil {
		i.clock = boottime
	}
	for _, s := range o.Servers {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("%q is no URL of a lease server like http://127.0.0.1:9902", s)
		}
		i.servers = append(i.servers, strings.TrimRight(s, "/"))
	}
	if len(i.servers) == 0 {
		return nil, errors.New("no lease server is named: set LeaseOptions.Servers")
	}
	web := http.Client{Transport: direct}
	if o.HTTPClient != nil {
		web = *o.HTTPClient
	}
	// A redirect would take the bearer token, or a POST that became a GET,
	// somewhere else.
	web.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	i.web = &web
	return i, nil
}

// direct goes to the servers without a proxy that the environment may name.
var direct = &http.Transport{
	DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
	TLSHandshakeTimeout: 5 * time.Second,
	MaxIdleConnsPerHost: 8,
	IdleConnTimeout:     90 * time.Second,
}

// pathOf is the key in the lease API's path, percent-encoded once. Dots alone
// would be taken for dot segments.
func pathOf(key string) string {
	if key == "." || key == ".." {
		return wire.LeasesPath + strings.ReplaceAll(key, ".", "%2E")
	}
	return wire.LeasesPath + url.PathEscape(key)
}

// round asks one server after the other until one decides. what is called anew
// for each, and limit says how long that one may take. sent is when the request
// that was answered left, by the clock.
func (i *issuer) round(ctx context.Context, method, key string, what func() wire.LeaseRequest, limit func() time.Duration) (l wire.Lease, sent time.Duration, err error) {
	var errs []error
	first := int(i.last.Load())
	for n := range i.servers {
		at := (first + n) % len(i.servers)
		call, cancel := context.WithTimeoutCause(ctx, limit(), errors.New("no answer in time"))
		attended, done := call, func() {}
		if method == http.MethodPost {
			attended, done = i.attend(call, i.servers[at])
		}
		sent = i.clock() // before it is sent: the server counts from later
		l, err = i.call(attended, i.servers[at], method, key, what())
		done()
		cancel()
		if err == nil || !again(err) {
			i.last.Store(int32(at))
			return l, sent, err
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return l, sent, errors.Join(errs...)
}

// grant asks for a lease until one server decides.
func (i *issuer) grant(ctx context.Context, key string, what func() wire.LeaseRequest, limit func() time.Duration) (l wire.Lease, sent time.Duration, err error) {
	l, sent, err = i.round(ctx, http.MethodPost, key, what, limit)
	ttl := time.Duration(l.ExpiresIn)
	if err != nil || i.clock()-sent < ttl/3 {
		return l, sent, err
	}
	// The wait and the drain lie between the question and the grant, and nobody
	// here knows when that was. A renewal is counted from when it is sent.
	renewed, sent, err := i.renew(ctx, key, l.ID, func() time.Duration { return max(ttl/2, shortest) })
	if err != nil {
		i.abandon(ctx, key, l.ID)
		return l, sent, fmt.Errorf("granted, and gone again: %w", err)
	}
	l.ExpiresIn = renewed.ExpiresIn
	return l, sent, nil
}

// renew asks for one renewal.
func (i *issuer) renew(ctx context.Context, key, id string, limit func() time.Duration) (wire.Lease, time.Duration, error) {
	return i.round(ctx, http.MethodPut, key, func() wire.LeaseRequest { return wire.LeaseRequest{ID: id} }, limit)
}

// abandon tells the servers, once, that nobody will use a lease.
func (i *issuer) abandon(ctx context.Context, key, id string) {
	_, _, _ = i.round(context.WithoutCancel(ctx), http.MethodDelete, key,
		func() wire.LeaseRequest { return wire.LeaseRequest{ID: id} }, func() time.Duration { return time.Second })
}
