package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// always answers every request in one way.
type always struct {
	status int
	header http.Header
	body   []byte
}

func (a always) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body))}, nil
}

// FuzzAnswer lets a proxy, an upstream or a lease server answer with any bytes.
// Nothing panics; the answer can be read as it came; only what the proxy says of
// itself, in two places, makes a write be sent again; and a grant counts only for
// the key that was asked for, with a number for a token, and a time to live.
func FuzzAnswer(f *testing.F) {
	const problem = "application/problem+json"
	for _, seed := range []struct {
		status       int
		kind, header string
		body         string
	}{
		{409, problem, "no", `{"type":"urn:fenceproxy:problem:stale-token","status":409,"key":"k","token":"7","highest":"8","forwarded":"no","retryable":false}`},
		{503, problem, "no", `{"type":"urn:fenceproxy:problem:drain-timeout","status":503,"forwarded":"no","retryable":true}`},
		{503, problem, "", `{"type":"urn:fenceproxy:problem:drain-timeout","status":503,"forwarded":"no","retryable":true}`},
		{409, problem + "; charset=utf-8", "", `{"type":"urn:fenceproxy:problem:lease-held","status":409,"holder":"h"}`},
		{201, "application/json", "", `{"key":"k","id":"x","token":"7","expires_in":"30s"}`},
		{201, "application/json", "", `{"key":"k","id":"x","token":"7.1","expires_in":"30s"}`},
		{201, "application/json", "", `{"key":"other","id":"x","token":"7","expires_in":"30s"}`},
		{201, "application/json", "", `{"key":"k","id":"","token":"7","expires_in":"30s"}`},
		{200, "application/json", "", `{"key":"k","expires_in":"0s"}`},
		{204, "", "", ``}, {302, "text/html", "unknown", `<`},
	} {
		f.Add(seed.status, seed.kind, seed.header, []byte(seed.body))
	}
	f.Fuzz(func(t *testing.T, status int, kind, forwarded string, body []byte) {
		web := always{status, http.Header{"Content-Type": {kind}, wire.HeaderForwarded: {forwarded}, "Retry-After": {forwarded}}, body}
		resp, _ := web.RoundTrip(nil)
		p := problemOf(resp)
		if text, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(text, body) {
			t.Fatalf("the body %q can be read as %q (%v)", body, text, err)
		}
		if p != nil {
			pause, again := repeatable(resp, p)
			if again && (forwarded != "no" || p.Forwarded != wire.ForwardedNo || !p.Retryable || pause <= 0) {
				t.Fatalf("%+v is sent again, and the header says %q", p, forwarded)
			}
			_ = stale(p, nil).Error()
		}
		i := &issuer{web: &http.Client{Transport: web}}
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
			l, err := i.call(context.Background(), "http://127.0.0.1:1", method, "k", wire.LeaseRequest{})
			switch server := (*ServerError)(nil); {
			case err != nil:
				if errors.As(err, &server) && server.RetryAfter < 0 {
					t.Fatalf("%s: %+v", method, server)
				}
			case method == http.MethodDelete:
				if status != http.StatusNoContent {
					t.Fatalf("%d ends a lease", status)
				}
			default:
				if _, nerr := strconv.ParseUint(l.Token, 10, 64); l.Key != "k" || time.Duration(l.ExpiresIn) <= 0 || method == http.MethodPost && (nerr != nil || l.ID == "" || status != http.StatusCreated) {
					t.Fatalf("%s: %d %q is the lease %+v", method, status, body, l)
				}
			}
		}
		_ = refusalOf(&http.Response{Status: kind, StatusCode: status, Body: io.NopCloser(bytes.NewReader(body))}).Error()
	})
}
