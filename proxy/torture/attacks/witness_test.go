package attacks

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// api is a legacy API that takes every write, and keeps the order of tokens of
// each resource. It answers GET /open/large with very much, and holds a write to
// /things/slow back for a second, and one to /things/stuck for as long as it is to.
type api struct {
	addr  string
	stuck chan struct{} // closed when a write to /things/stuck may go on

	larges  atomic.Int64 // GET /open/large that are served now
	mu      sync.Mutex
	writes  int
	applied map[string][]string // the tokens of each target, as they came
}

const large = 64 << 20

func newAPI(t *testing.T) *api {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := &api{addr: l.Addr().String(), applied: map[string][]string{}}
	srv := &http.Server{Handler: a}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	return a
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
	switch {
	case r.URL.Path == "/open/large":
		a.larges.Add(1)
		defer a.larges.Add(-1)
		w.Header().Set("Content-Length", fmt.Sprint(large))
		for piece := make([]byte, 64<<10); ; {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	case strings.HasPrefix(r.URL.Path, "/things/slow"):
		time.Sleep(time.Second)
	case r.URL.Path == "/things/stuck":
		<-a.stuck
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Method == http.MethodPut {
		a.writes++
	}
	if token := r.Header.Get("X-Fencing-Token"); token != "" {
		a.applied[r.URL.Path] = append(a.applied[r.URL.Path], token)
	}
}

// count is how many writes were applied.
func (a *api) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.writes
}

// served is how many writes of a target were applied.
func (a *api) served(target string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.applied[target])
}

// witness writes with growing tokens while others attack: each write has to be
// served, and soon.
type witness struct {
	t       *testing.T
	p       *proxy
	a       *api
	stop    chan struct{}
	wg      sync.WaitGroup
	written int
	longest time.Duration
	memory  memory
	url     string
}

// soon is how long the witness may wait on a machine that is busy with an
// attack, its own proxy and the race detector.
const soon = 10 * time.Second

// watch begins to write, and to look at the memory of the process.
func watch(t *testing.T, p *proxy, a *api, secure bool) *witness {
	w := &witness{t: t, p: p, a: a, stop: make(chan struct{}), url: "http://" + p.Addr}
	if secure {
		w.url = "https://" + p.Addr
	}
	w.memory.look(p)
	w.memory.before = w.memory.most
	w.wg.Go(func() {
		for n := 1; w.goesOn(); n++ {
			w.write(n)
			time.Sleep(20 * time.Millisecond)
		}
	})
	w.wg.Go(func() {
		for w.goesOn() {
			w.memory.look(p)
			time.Sleep(100 * time.Millisecond)
		}
	})
	// One write that is in flight all the time: it must not be lost.
	w.wg.Go(func() {
		for n := 1; w.goesOn(); n++ {
			w.put("slow", n)
		}
	})
	return w
}

func (w *witness) goesOn() bool {
	select {
	case <-w.stop:
		return false
	default:
		return true
	}
}

func (w *witness) write(n int) {
	start := time.Now()
	w.put("witness", n)
	w.longest = max(w.longest, time.Since(start))
	w.written++
}

// put is a write on a connection of its own.
func (w *witness) put(name string, token int) {
	req, err := http.NewRequest(http.MethodPut, w.url+"/things/"+name, strings.NewReader("x"))
	if err != nil {
		w.t.Error(err)
		return
	}
	req.Header.Set("X-Fencing-Token", fmt.Sprint(token))
	res, err := web.Do(req)
	if err != nil {
		w.t.Errorf("the witness's write to %s with token %d: %v", name, token, err)
		return
	}
	body, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		w.t.Errorf("the witness's write to %s with token %d: %s %s", name, token, res.Status, body)
	}
}

// end ends the watch, and judges: all writes came, in their order, none waited
// for long, memory did not grow by more than growth, and nothing stays behind.
func (w *witness) end(growth float64) {
	w.t.Helper()
	close(w.stop)
	w.wg.Wait()
	w.a.mu.Lock()
	applied := w.a.applied["/things/witness"]
	w.a.mu.Unlock()
	if len(applied) != w.written || w.written < 10 {
		w.t.Errorf("%d writes of the witness were applied, of %d", len(applied), w.written)
	}
	for i, token := range applied {
		if token != fmt.Sprint(i+1) {
			w.t.Errorf("token %s was applied as number %d", token, i+1)
			break
		}
	}
	if w.longest > soon {
		w.t.Errorf("a write of the witness took %v", w.longest)
	}
	w.p.quiet()
	grown := w.memory.most - w.memory.before
	w.t.Logf("the witness wrote %d times, the longest took %v; memory grew by %.0f MB at the most", w.written, w.longest.Round(time.Millisecond), grown/megabyte)
	if grown > growth {
		w.t.Errorf("memory grew by %.0f MB, at most %.0f were expected", grown/megabyte, growth/megabyte)
	}
}

const megabyte = 1 << 20

// memory is what the process has taken from the system and not given back, as it
// says itself: the race detector's own is not in it.
type memory struct {
	mu           sync.Mutex
	before, most float64
}

func (m *memory) look(p *proxy) {
	v := p.metrics("go_memstats_sys_bytes", "go_memstats_heap_released_bytes")
	m.mu.Lock()
	defer m.mu.Unlock()
	m.most = max(m.most, v[0]-v[1])
}

// now is the most that was seen so far.
func (m *memory) now() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.most
}
