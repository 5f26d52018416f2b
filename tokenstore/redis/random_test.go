package redis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// Two proxies share one Redis. One of them is paused now and then: its clock,
// its way to the store and its writes stand still, as after SIGSTOP. Writes
// with random tokens go through both to an upstream that takes its time.
// Whatever happens, the tokens that it applies per key never decrease.

const (
	rTTL    = 4 * time.Second
	rMargin = 2 * time.Second
	rLinger = settle + rMargin
	rPause  = 500 * time.Millisecond // (linger + margin − settle) / 2 is four times that: the machine is slow at times
	rFor    = 10 * time.Second
	rKeys   = 6
)

// upstream applies writes.
type upstream struct {
	t       *testing.T
	mu      sync.Mutex
	last    [rKeys]uint64
	newest  [rKeys]atomic.Uint64
	applied int

	stale, unavailable, cut, unsent atomic.Int64
}

func (u *upstream) apply(k int, n uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.applied++
	if n < u.last[k] {
		u.t.Errorf("token %d is applied to key %d after %d", n, k, u.last[k])
	}
	u.last[k] = n
}

// process is one proxy.
type process struct {
	u     *upstream
	store *session.Store
	relay *relay

	running sync.RWMutex // held for writing while it is paused
	stopped atomic.Int64 // what the clock shows while it is paused, and 0
}

func (p *process) clock() time.Duration {
	if at := p.stopped.Load(); at != 0 {
		return time.Duration(at)
	}
	return session.Boottime()
}

// awake waits while the process is paused.
func (p *process) awake() {
	p.running.RLock()
	defer p.running.RUnlock()
}

func (p *process) pause(d time.Duration) {
	p.running.Lock()
	defer p.running.Unlock()
	p.stopped.Store(int64(session.Boottime()))
	release := p.relay.stall()
	time.Sleep(d)
	p.stopped.Store(0)
	release()
}

// write is the life of one write.
func (p *process) write(ctx context.Context) {
	k := rand.IntN(rKeys)
	n := p.u.newest[k].Load()
	switch rand.IntN(20) {
	case 0:
		n = p.u.newest[k].Add(1)
	case 1, 2:
		n = max(n, 1) - 1
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	g, err := admit(ctx, p.store, mark(tokenstore.Key(fmt.Sprint("k", k)), n))
	p.awake()
	var stale *tokenstore.StaleError
	switch {
	case errors.As(err, &stale):
		p.u.stale.Add(1)
		return
	case err != nil:
		p.u.unavailable.Add(1)
		time.Sleep(rand.N(20 * time.Millisecond))
		return
	}
	if rand.IntN(4) == 0 {
		time.Sleep(rand.N(300 * time.Millisecond)) // a slow upload
		p.awake()
	}
	defer g.Release()
	if !g.MaySend() {
		p.u.unsent.Add(1)
		return
	}
	takes := rand.N(20 * time.Millisecond)
	if rand.IntN(6) == 0 {
		takes = rand.N(2 * time.Second)
	}
	select {
	case <-time.After(takes):
		p.u.apply(k, n)
		p.awake()
	case <-g.Lost():
		p.awake()
		p.u.cut.Add(1)
		time.Sleep(rand.N(settle - 50*time.Millisecond)) // sight is lost; it lands all the same
		p.u.apply(k, n)
	}
}

func TestRandom(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	o := server.store()
	u := &upstream{t: t}
	ctx, stop := context.WithTimeout(t.Context(), rFor)
	defer stop()
	var wg sync.WaitGroup
	var waited atomic.Int64
	for i := range 2 {
		p := &process{u: u, relay: startRelay(t, server.Address())}
		p.store = openStore(t, through(p.relay, o), func(o *session.Options) {
			o.TTL, o.Margin, o.Linger, o.Clock = rTTL, rMargin, rLinger, p.clock
			o.Observe.RemoteWait = func(time.Duration) { waited.Add(1) }
		})
		for range 8 {
			wg.Go(func() {
				for ctx.Err() == nil {
					p.write(context.Background())
				}
			})
		}
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				select {
				case <-ctx.Done():
				case <-time.After(500*time.Millisecond + rand.N(time.Second)):
				}
				switch {
				case i == 0:
					p.pause(rPause/2 + rand.N(rPause/2))
				case n == 1: // cut off from the store until its session is over
					release := p.relay.stall()
					time.Sleep(rTTL)
					release()
				case n%3 == 0:
					p.relay.cut()
				}
			}
		})
	}
	wg.Wait()
	t.Logf("applied %d, waited %d, stale %d, unavailable %d, cut %d, not sent %d", u.applied, waited.Load(), u.stale.Load(), u.unavailable.Load(), u.cut.Load(), u.unsent.Load())
	for what, n := range map[string]int64{"applied": int64(u.applied), "stale": u.stale.Load(), "waited": waited.Load(), "unavailable": u.unavailable.Load()} {
		if n <= 0 {
			t.Errorf("nothing was %s: this has shown nothing", what)
		}
	}
}
