package leases

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
)

// setting reads a variable of the long form.
func setting[T any](t testing.TB, name string, read func(string) (T, error), otherwise T) T {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	v, err := read(s)
	if err != nil {
		t.Fatalf("%s=%s: %v", name, s, err)
	}
	return v
}

// storm is workers that take leases, one after the other, and what is done to
// them and to the servers.
type storm struct {
	*site
	dir     string // of what they say
	seed    uint64
	workers int
	keys    int
	lim     limits

	end    chan struct{} // closed when it is over
	over   atomic.Bool
	mu     sync.Mutex // guards errs
	errs   []error
	faults [4]atomic.Int64 // kills, stops, pauses of servers; kills of the store
}

// TestTortureLeases is what leases promise, all at once. The long form is set
// by FENCEPROXY_TORTURE_SEED and _TIME, for each store; one seed draws the same
// lives of the same workers, though not the same interleaving.
func TestTortureLeases(t *testing.T) {
	seed := setting(t, "FENCEPROXY_TORTURE_SEED", strconv.Atoi, 1)
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			length := setting(t, "FENCEPROXY_TORTURE_TIME", time.ParseDuration, k.length)
			s := &storm{site: newSite(t, k.start, k.servers), dir: t.TempDir(), seed: uint64(seed), end: make(chan struct{}), workers: 32, keys: 4,
				lim: limits{ttl: time.Second, several: k.servers > 1}}
			s.run(length)
			s.judge(length)
		})
	}
}

// quiet reports whether too little has happened so far.
func (s *storm) quiet() bool {
	return s.faults[0].Load() == 0 || s.engine != nil && s.faults[3].Load() == 0 || len(count(s.h.Events()).quiet()) > 0
}

func (s *storm) fault(format, holder string, a ...any) {
	s.h.Add(torture.Event{Kind: torture.Fault, Name: fmt.Sprintf(format, a...), Result: holder})
}

func (s *storm) fail(err error) {
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.errs = append(s.errs, err)
		s.over.Store(true)
	}
}

func (s *storm) run(length time.Duration) {
	var workers, disturbers sync.WaitGroup
	first, begun := s.paused(0)
	workers.Go(func() {
		s.fail(first.run())
		first.begun()
		for n := 1; !s.over.Load(); n++ { // on a busy machine it may come to nothing
			again, _ := s.paused(n)
			again.end = s.end
			s.fail(again.run())
		}
	})
	<-begun
	for i := range s.workers {
		workers.Go(func() {
			rng := rand.New(rand.NewPCG(s.seed, uint64(i)))
			for n := 0; !s.over.Load(); n++ {
				s.fail(s.draw(rng, i, n).run())
			}
		})
	}
	for i, m := range s.servers {
		disturbers.Go(func() { s.disturb(rand.New(rand.NewPCG(s.seed, 1<<32+uint64(i))), m) })
	}
	if s.engine != nil {
		disturbers.Go(func() { s.disturbStore(rand.New(rand.NewPCG(s.seed, 1<<33))) })
	}
	// A busy machine may need longer until there is something to judge.
	begin := time.Now()
	for at := time.Duration(0); !s.over.Load() && (at < length || at < length+time.Minute && s.quiet()); at = time.Since(begin) {
		time.Sleep(100 * time.Millisecond)
	}
	s.over.Store(true)
	close(s.end)
	disturbers.Wait()
	workers.Wait()
	if err := errors.Join(s.errs...); err != nil {
		s.Error(err)
	}
}

// judge tries that the next holder comes to every key, and holds everything
// against the judges.
func (s *storm) judge(length time.Duration) {
	s.Helper()
	for i := range s.keys {
		v := &visit{storm: s, holder: "last-" + strconv.Itoa(i), key: fmt.Sprintf("k%d", i), ttl: 5 * time.Second, wait: 30 * time.Second, fence: true, harm: nothing,
			orders: orders{Proxies: s.proxies(), Key: fmt.Sprintf("k%d", i), First: 1<<30 | uint32(i), Writes: 1, Pause: time.Millisecond, Seed: s.seed}}
		if err := v.run(); err != nil {
			s.Error(err)
		}
	}
	for _, m := range s.servers {
		m.Kill()
	}
	s.back.Close()
	h := s.h.Events()
	for _, breach := range verdict(h, s.lim) {
		s.Error(breach)
	}
	for _, breach := range sameAsLogged(h, s.granted(), s.lim) {
		s.Error(breach)
	}
	c := count(h)
	s.Logf("seed %d, %v, %d servers: %+v; servers killed %d, stopped %d, paused %d; store killed %d",
		s.seed, length, len(s.servers), c, s.faults[0].Load(), s.faults[1].Load(), s.faults[2].Load(), s.faults[3].Load())
	for _, quiet := range c.quiet() {
		s.Error(quiet)
	}
	if s.faults[0].Load() == 0 {
		s.Error("no server was killed")
	}
	if s.Failed() {
		s.h.Keep(s)
	}
}

// disturb ends a server, or makes it stand still, again and again.
func (s *storm) disturb(rng *rand.Rand, m *server) {
	sleep := func(low, high time.Duration) { time.Sleep(low + time.Duration(rng.Int64N(int64(high-low)))) }
	often := time.Duration(1+len(s.servers)) * time.Second
	for n := 0; ; n++ {
		sleep(often*3/4, often*7/4)
		if s.over.Load() {
			return
		}
		var err error
		switch n % 3 {
		case 0:
			s.faults[0].Add(1)
			m.Kill()
			sleep(0, 500*time.Millisecond)
			err = m.start()
		case 1:
			s.faults[1].Add(1)
			m.Terminate()
			var code int
			if code, err = m.Wait(15 * time.Second); err == nil && code != 0 && code != 3 {
				err = fmt.Errorf("a server that was told to end did so with %d", code)
			}
			s.fail(err)
			err = m.start()
		case 2:
			s.faults[2].Add(1)
			s.fault("a server stopped", "")
			m.Pause()
			sleep(0, maxPause)
			m.Resume()
		}
		s.fail(err)
	}
}

// disturbStore ends the store and starts it again.
func (s *storm) disturbStore(rng *rand.Rand) {
	for {
		time.Sleep(3*time.Second + time.Duration(rng.Int64N(int64(9*time.Second))))
		if s.over.Load() {
			return
		}
		s.faults[3].Add(1)
		s.fault("the store ended", "")
		s.engine.Kill()
		time.Sleep(time.Duration(rng.Int64N(int64(500 * time.Millisecond))))
		s.fail(s.engine.Start())
	}
}
