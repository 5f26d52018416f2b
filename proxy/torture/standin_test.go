package torture

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// fault is one way to get the fence wrong.
type fault int

const (
	sound        fault = iota
	noRecord           // marks are gone after a crash (A)
	noQuarantine       // after a crash nothing is waited for (E, Q)
	noUnsettled        // what failed is forgotten (D)
	cancels            // the client's leaving ends the write, and it is forgotten (I)
	lies               // says 200 without having sent
	denies             // says not forwarded after a reset
	guesses            // calls a token stale against a mark that nobody presented
	hangs              // an overtaken writer gets no answer
)

// standin is a small proxy in this process, right or wrong as its fault says.
// It only has to be good enough to show that the judges tell the two apart.
type standin struct {
	fault    fault
	upstream string
	settle   time.Duration
	response time.Duration
	disk     map[string]uint64 // survives crash

	ln   net.Listener
	srv  *http.Server
	ctx  context.Context
	stop context.CancelFunc

	mu   sync.Mutex
	cond *sync.Cond
	keys map[string]*standinKey
	boot time.Time
}

type standinKey struct {
	high       uint64
	quarantine bool
	open       map[*int]uint64 // token of everything in flight or unsettled
}

func startStandin(addr, upstream string, f fault, settle, response time.Duration, disk map[string]uint64) (*standin, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &standin{fault: f, upstream: upstream, settle: settle, response: response, disk: disk, ln: ln, keys: map[string]*standinKey{}, boot: time.Now()}
	s.cond = sync.NewCond(&s.mu)
	s.ctx, s.stop = context.WithCancel(context.Background())
	for k, high := range disk {
		s.keys[k] = &standinKey{high: high, open: map[*int]uint64{}, quarantine: f != noQuarantine}
	}
	time.AfterFunc(settle, func() {
		s.mu.Lock()
		for _, k := range s.keys {
			k.quarantine = false
		}
		s.mu.Unlock()
		s.cond.Broadcast()
	})
	s.srv = &http.Server{Handler: s}
	go s.srv.Serve(ln)
	return s, nil
}

// crash ends everything at once and returns what was on the disk.
func (s *standin) crash() map[string]uint64 {
	s.mu.Lock()
	s.stop()
	disk := map[string]uint64{}
	if s.fault != noRecord {
		for k, v := range s.keys {
			disk[k] = v.high
		}
	}
	s.mu.Unlock()
	s.cond.Broadcast()
	s.srv.Close()
	return disk
}

func (s *standin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	token, _ := strconv.ParseUint(r.Header.Get("X-Fencing-Token"), 10, 64)
	key := r.URL.Path
	defer context.AfterFunc(r.Context(), s.cond.Broadcast)()

	s.mu.Lock()
	k := s.keys[key]
	if k == nil {
		k = &standinKey{open: map[*int]uint64{}}
		s.keys[key] = k
	}
	if s.fault == guesses && token%5 == 0 {
		s.mu.Unlock()
		s.stale(w, key, token, token+1000)
		return
	}
	if token < k.high {
		defer s.stale(w, key, token, k.high)
		s.mu.Unlock()
		return
	}
	k.high = token
	s.cond.Broadcast()
	for k.high == token && (k.quarantine || k.older(token)) && s.ctx.Err() == nil && r.Context().Err() == nil {
		s.cond.Wait()
	}
	switch {
	case s.ctx.Err() != nil || r.Context().Err() != nil:
		s.mu.Unlock()
		panic(http.ErrAbortHandler) // a plain return would answer 200
	case k.high != token:
		high := k.high
		s.mu.Unlock()
		if s.fault == hangs {
			<-r.Context().Done()
			return
		}
		s.stale(w, key, token, high)
		return
	}
	ticket := new(int)
	k.open[ticket] = token
	s.mu.Unlock()

	settled := s.forward(w, r, body)
	forget := func() {
		s.mu.Lock()
		delete(k.open, ticket)
		s.mu.Unlock()
		s.cond.Broadcast()
	}
	if settled || s.fault == noUnsettled {
		forget()
	} else {
		time.AfterFunc(s.settle, forget)
	}
}

func (k *standinKey) older(token uint64) bool {
	for _, t := range k.open {
		if t < token {
			return true
		}
	}
	return false
}

// forward sends the write and reports whether it is settled.
func (s *standin) forward(w http.ResponseWriter, r *http.Request, body []byte) bool {
	if s.fault == lies && len(body)%7 == 0 {
		w.Header().Set("Fencing-Result", "admitted")
		w.WriteHeader(http.StatusOK)
		return true
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.response)
	defer cancel()
	if s.fault == cancels {
		ctx, cancel = context.WithTimeout(r.Context(), s.response)
		defer cancel()
	}
	resp, answer, err := s.once(ctx, r, body)
	if s.ctx.Err() != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Fencing-Result", "admitted")
	if err != nil {
		forwarded := "unknown"
		if s.fault == denies {
			forwarded = "no"
		}
		s.problem(w, http.StatusBadGateway, "outcome-unknown", forwarded, r.URL.Path, 0, 0)
		return s.fault == cancels && r.Context().Err() != nil
	}
	w.Header().Set("Fencing-Forwarded", "yes")
	w.WriteHeader(resp.StatusCode)
	w.Write(answer)
	return resp.StatusCode != 202 && resp.StatusCode != 502 && resp.StatusCode != 504
}

func (s *standin) once(ctx context.Context, r *http.Request, body []byte) (*http.Response, []byte, error) {
	tr := &http.Transport{DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(ctx, r.Method, s.upstream+r.URL.Path, strings.NewReader(string(body)))
	if err != nil {
		return nil, nil, err
	}
	req.GetBody = nil
	req.Header = r.Header.Clone()
	req.Header.Del("Expect")
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp, answer, err
}

func (s *standin) stale(w http.ResponseWriter, key string, token, highest uint64) {
	w.Header().Set("Fencing-Result", "rejected;reason=stale-token")
	s.problem(w, http.StatusConflict, staleToken, "no", key, token, highest)
}

func (s *standin) problem(w http.ResponseWriter, status int, name, forwarded, key string, token, highest uint64) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Fencing-Forwarded", forwarded)
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"type":"urn:fenceproxy:problem:%s","key":%q,"token":"%d","highest":"%d","forwarded":%q}`, name, key, token, highest, forwarded)
}
