// Package clienttest is a lease server in memory, for tests of what uses
// package client. It keeps the forms and the order of the real one, and none of
// its promises: it fences nothing and remembers nothing.
package clienttest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// Server is a lease server. The zero Server is ready.
type Server struct {
	// Bearer, where it is set, must come with every request.
	Bearer string

	mu     sync.Mutex
	token  uint64
	leases map[string]*held
	asked  map[string]int // requests by their method
	refuse int            // the status to answer with
}

// held is a lease. free is closed when it is over, by its end or otherwise.
type held struct {
	wire.Lease
	end  *time.Timer
	free chan struct{}
}

// Lose takes the lease of a key away, as an operator or a store that was rolled
// back would.
func (s *Server) Lose(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.leases[key]; h != nil {
		s.drop(key, h)
	}
}

// Refuse answers every request with a status from now on, 0 to stop that.
func (s *Server) Refuse(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = status
}

// Held is the lease of a key, with its secret; zero where nobody holds it.
func (s *Server) Held(key string) wire.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.leases[key]; h != nil {
		return h.Lease
	}
	return wire.Lease{}
}

// Asked is how many requests with a method have come.
func (s *Server) Asked(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[method]
}

// drop ends a lease. The lock is held.
func (s *Server) drop(key string, h *held) {
	if s.leases[key] == h {
		delete(s.leases, key)
		h.end.Stop()
		close(h.free)
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	escaped, ok := strings.CutPrefix(r.URL.EscapedPath(), wire.LeasesPath)
	key, err := url.PathUnescape(escaped)
	var ask wire.LeaseRequest
	if r.Method != http.MethodGet && err == nil {
		err = json.NewDecoder(r.Body).Decode(&ask)
	}
	s.mu.Lock()
	if s.asked == nil {
		s.asked, s.leases = map[string]int{}, map[string]*held{}
	}
	s.asked[r.Method]++
	refuse := s.refuse
	s.mu.Unlock()
	switch {
	case refuse != 0:
		refuseWith(w, refuse)
	case s.Bearer != "" && r.Header.Get("Authorization") != "Bearer "+s.Bearer:
		problem(w, wire.Unauthorized, "send the token of leases.token_file")
	case !ok || err != nil || key == "":
		problem(w, wire.LeaseMalformed, fmt.Sprint("no lease request: ", err))
	case r.Method == http.MethodPost:
		s.acquire(w, r, key, ask)
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.change(w, r.Method, key, ask)
	}
}

// acquire waits in no order: tests have one waiter.
func (s *Server) acquire(w http.ResponseWriter, r *http.Request, key string, ask wire.LeaseRequest) {
	over := time.NewTimer(time.Duration(ask.Wait))
	defer over.Stop()
	for {
		s.mu.Lock()
		h := s.leases[key]
		if h == nil && r.Context().Err() == nil {
			answer(w, http.StatusCreated, s.grant(key, ask))
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		select {
		case <-h.free:
			continue
		default:
		}
		select {
		case <-h.free:
		case <-r.Context().Done():
			return
		case <-over.C:
			p := wire.NewProblem(wire.LeaseHeld, fmt.Sprintf("%q holds it with token %s", h.Holder, h.Token))
			p.Holder, p.RetryAfter = h.Holder, time.Duration(h.ExpiresIn)
			p.Write(w)
			return
		}
	}
}

// grant makes a lease. The lock is held.
func (s *Server) grant(key string, ask wire.LeaseRequest) wire.Lease {
	s.token++
	if ask.TTL == 0 {
		ask.TTL = wire.Duration(30 * time.Second)
	}
	h := &held{free: make(chan struct{})}
	h.Lease = wire.Lease{Key: key, Holder: ask.Holder, ID: fmt.Sprint("id-", s.token), Token: fmt.Sprint(s.token), ExpiresIn: ask.TTL}
	h.end = time.AfterFunc(time.Duration(ask.TTL), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(key, h)
	})
	s.leases[key] = h
	return h.Lease
}

// change renews, releases or shows. The lock is held.
func (s *Server) change(w http.ResponseWriter, method, key string, ask wire.LeaseRequest) {
	h := s.leases[key]
	switch {
	case method == http.MethodGet && h == nil:
		problem(w, wire.LeaseFree, "nobody holds it")
	case method == http.MethodGet:
		shown := h.Lease
		shown.ID = ""
		answer(w, http.StatusOK, shown)
	case h == nil || h.ID != ask.ID:
		problem(w, wire.LeaseLost, "it is not yours any more: stop, and take it again")
	case method == http.MethodDelete:
		s.drop(key, h)
		w.WriteHeader(http.StatusNoContent)
	case method == http.MethodPut:
		h.end.Reset(time.Duration(h.ExpiresIn))
		answer(w, http.StatusOK, h.Lease)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func answer(w http.ResponseWriter, status int, l wire.Lease) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(l)
}

func problem(w http.ResponseWriter, name wire.Name, detail string) {
	wire.NewProblem(name, detail).Write(w)
}

// refuseWith answers with any status.
func refuseWith(w http.ResponseWriter, status int) {
	p := wire.NewProblem(wire.StoreUnavailable, "refused as the test says")
	p.Status = status
	p.Write(w)
}
