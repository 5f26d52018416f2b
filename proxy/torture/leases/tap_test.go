package leases

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// leaseKey is how the lease API has a key of the backend's.
func leaseKey(key string) string { return "thing:" + key }

// ledger notes what passes at all taps. A lease is known by its ID there, and
// by its key and token in the history.
type ledger struct {
	h *torture.History

	mu     sync.Mutex
	leases map[string]torture.Event // by ID: holder, key and token
}

// tap stands before the lease listener of one server, and hands everything on.
// The way to a server that is down ends in a broken connection.
type tap struct {
	*ledger
	front *httptest.Server
}

func (l *ledger) tap(address string) *tap {
	t := &tap{ledger: l}
	hop := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: address})
		},
		Transport:      &http.Transport{DisableKeepAlives: true}, // nothing is sent twice
		ModifyResponse: t.answered,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:       log.New(io.Discard, "", 0),
	}
	t.front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if t.asked(r) {
			hop.ServeHTTP(w, r)
		}
	}))
	return t
}

// question is one request on its way, as its answer finds it in the context of
// the request.
type question struct {
	torture.Event
	sent time.Duration
}

type questionKey struct{}

// asked notes a request before the server has it. It is false for one that
// broke off.
func (t *tap) asked(r *http.Request) bool {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	var body wire.LeaseRequest
	_ = json.Unmarshal(text, &body) // else the server says so
	q := question{Event: torture.Event{Name: body.Holder, Key: strings.TrimPrefix(r.URL.Path, wire.LeasesPath+leaseKey("")), Bare: body.Fence != nil && !*body.Fence}}
	if body.ID != "" {
		t.mu.Lock()
		q.Event = t.leases[body.ID]
		t.mu.Unlock()
	}
	switch e := q.Event; r.Method {
	case http.MethodPost:
		e.Kind = torture.Ask
		q.sent = t.h.Add(e)
	case http.MethodDelete:
		e.Kind = torture.Release
		q.sent = t.h.Add(e)
	default:
		q.sent = t.h.Now()
	}
	*r = *r.WithContext(context.WithValue(r.Context(), questionKey{}, q))
	return true
}

// answered notes an answer before its client has it. What the holder may
// believe in is counted from when the request passed, which is no earlier than
// the holder's own count.
func (t *tap) answered(resp *http.Response) error {
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return err
	}
	resp.Body = io.NopCloser(bytes.NewReader(text))
	q := resp.Request.Context().Value(questionKey{}).(question)
	e := q.Event
	e.Status = uint16(resp.StatusCode)
	var lease wire.Lease
	switch {
	case resp.StatusCode == http.StatusNoContent:
		return nil
	case resp.StatusCode < 300:
		if err := json.Unmarshal(text, &lease); err != nil {
			return err
		}
		if e.Token, err = strconv.ParseUint(lease.Token, 10, 64); err != nil {
			return err
		}
		e.Kind, e.Until = torture.Renewed, q.sent+time.Duration(lease.ExpiresIn)
		if resp.StatusCode == http.StatusCreated {
			e.Kind = torture.Grant
			t.mu.Lock()
			t.leases[lease.ID] = torture.Event{Name: e.Name, Key: e.Key, Token: e.Token, Bare: e.Bare}
			t.mu.Unlock()
		}
	default:
		var p torture.Problem
		_ = json.Unmarshal(text, &p)
		e.Kind, e.Result = torture.Refused, p.Name()
	}
	t.h.Add(e)
	return nil
}
