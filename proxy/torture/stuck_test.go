package torture

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// One key whose write never ends, with as many writes waiting on it as may, is
// of no concern to the others.

// stuck is a proxy with an API behind it that answers at once, but a write to
// /things/stuck only when it is released.
type stuck struct {
	testing.TB
	proxy   *Proxy
	arrived chan struct{} // gets one for each write to /things/stuck
	release chan struct{} // takes one for each
	jammed  sync.WaitGroup
}

// jamWaiters is max_waiting_per_key by default.
const jamWaiters = 64

func newStuck(t testing.TB) *stuck {
	t.Helper()
	s := &stuck{TB: t, arrived: make(chan struct{}, 1+jamWaiters), release: make(chan struct{})}
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	api := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/things/stuck" {
			s.arrived <- struct{}{}
			<-s.release
		}
		_, _ = io.Copy(io.Discard, r.Body)
	})}
	go func() { _ = api.Serve(l) }()
	t.Cleanup(func() { _ = api.Close() })
	if s.proxy, err = NewProxy(NewHistory(), binary, t.TempDir(), Settings{
		Upstream: "http://" + l.Addr().String(), Drain: time.Hour, Response: time.Hour, Settle: time.Hour,
	}); err == nil {
		err = s.proxy.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.proxy.Kill)
	return s
}

// jam sends a write that does not end, and waiters behind it with a newer
// token, until there is no room for more of them.
func (s *stuck) jam(token int) {
	s.Helper()
	send := func(token int) {
		s.jammed.Go(func() {
			w := newWriter(s.proxy.Addr)
			defer w.close()
			if status, err := w.put("stuck", token); err != nil || status != http.StatusOK {
				s.Errorf("on the stuck key: %d, %v", status, err)
			}
		})
	}
	send(token)
	<-s.arrived
	for range jamWaiters {
		send(token + 1)
	}
	for end := time.Now().Add(startPatience); ; time.Sleep(time.Millisecond) {
		resp, err := s.proxy.web.Get(s.proxy.Admin + "/v1/keys/thing:stuck")
		if err != nil {
			s.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if strings.Contains(string(text), fmt.Sprintf(`"waiting":%d}`, jamWaiters)) {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("not all wait: %s", text)
		}
	}
}

// unjam lets all of them go.
func (s *stuck) unjam() {
	for range 1 + jamWaiters {
		s.release <- struct{}{}
	}
	s.jammed.Wait()
	for len(s.arrived) > 0 {
		<-s.arrived
	}
}

// others writes once to each of n other keys and returns how long each took.
func (s *stuck) others(n int) []time.Duration {
	s.Helper()
	const writers = 8
	took := make([]time.Duration, n)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			c := newWriter(s.proxy.Addr)
			defer c.close()
			for i := w; i < len(took); i += writers {
				begin := time.Now()
				if status, err := c.put(fmt.Sprint(i), 1); err != nil || status != http.StatusOK {
					s.Errorf("key %d: %d, %v", i, status, err)
					return
				}
				took[i] = time.Since(begin)
			}
		})
	}
	wg.Wait()
	slices.Sort(took)
	return took
}

// writer is a client with one connection.
type writer struct {
	c  net.Conn
	br *bufio.Reader
}

func newWriter(addr string) *writer {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return &writer{}
	}
	return &writer{c, bufio.NewReader(c)}
}

func (w *writer) put(thing string, token int) (status int, err error) {
	if w.c == nil {
		return 0, errors.New("no connection")
	}
	fmt.Fprintf(w.c, "PUT /things/%s HTTP/1.1\r\nHost: a\r\nX-Fencing-Token: %d\r\nContent-Length: 1\r\n\r\nx", thing, token)
	res, err := http.ReadResponse(w.br, nil)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

func (w *writer) close() {
	if w.c != nil {
		_ = w.c.Close()
	}
}

// The others are answered while the one key is stuck; one more on it is
// refused, and does not wait either.
func TestStuckKeyHoldsNobody(t *testing.T) {
	s := newStuck(t)
	s.jam(1)
	if took := s.others(1000); took[len(took)-1] > startPatience {
		t.Errorf("the slowest of the others took %v", took[len(took)-1])
	}
	w := newWriter(s.proxy.Addr)
	defer w.close()
	if status, err := w.put("stuck", 2); err != nil || status != http.StatusServiceUnavailable {
		t.Errorf("one more on the stuck key: %d, %v, want 503", status, err)
	}
	s.unjam()
}

// BenchmarkStuckKey compares the latency of the others with the stuck key and
// without it, taking turns, so that what else goes on meets both alike.
func BenchmarkStuckKey(b *testing.B) {
	const turns, keys = 5, 10_000
	s := newStuck(b)
	s.others(keys) // raises all of them, and warms up
	p99 := func(took []time.Duration) float64 { return float64(took[len(took)*99/100]) }
	var free, with, ratio []float64
	token := 1
	for b.Loop() {
		for range turns {
			alone := p99(s.others(keys))
			s.jam(token)
			beside := p99(s.others(keys))
			s.unjam()
			token += 2
			free, with, ratio = append(free, alone), append(with, beside), append(ratio, beside/alone)
		}
	}
	for _, f := range [][]float64{free, with, ratio} {
		slices.Sort(f)
	}
	b.ReportMetric(free[len(free)/2]/1e3, "p99-without-µs")
	b.ReportMetric(with[len(with)/2]/1e3, "p99-with-µs")
	b.ReportMetric(ratio[len(ratio)/2], "ratio")
}
