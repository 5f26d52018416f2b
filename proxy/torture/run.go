package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Run is a storm of writes over a few keys, while blow after blow is done to
// the proxy.
type Run struct {
	Seed    uint64
	Clients int
	Keys    int
	Writes  int // how many are sent in all, about
	Blows   int // spread over the first nine tenths of the writes
	// Strike does the i-th blow and has the proxy running again.
	Strike func(i int) error
	// Draw makes the writes; its Rand is set for each client.
	Draw Draw
	// Addr is the proxy's.
	Addr string
	// Relay, where there is one, is on the way of every other client.
	Relay *Relay
	// Streams above 0: three clients in four share so many HTTP/2 connections.
	Streams int
	H       *History
}

// storm is what the clients of a run share.
type storm struct {
	*Run
	ctx  context.Context
	sent atomic.Int64
	next atomic.Uint32   // the last ID
	top  []atomic.Uint64 // the highest token handed out, per key

	shared []*http.Transport // HTTP/2 connections, every other one through the relay
}

// Do runs until all writes are sent, then tries on every key once more that a
// stale token is refused. Its error is one of Strike, or tells that the run did
// not come to its end before ctx did; what the history says is for the judges.
func (r *Run) Do(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &storm{Run: r, ctx: ctx, top: make([]atomic.Uint64, r.Keys)}
	for i := range s.top {
		s.top[i].Store(10)
	}
	for i := range r.Streams {
		var dial func() (net.Conn, error)
		if r.Relay != nil && i%2 == 0 {
			dial = r.Relay.Dial
		}
		s.shared = append(s.shared, NewStreams(dial))
		defer s.shared[i].CloseIdleConnections()
	}
	var wg sync.WaitGroup
	for i := range r.Clients {
		wg.Go(func() { s.client(uint64(i)) })
	}
	blows := make(chan struct{})
	go func() {
		defer close(blows)
		if err := s.blows(); err != nil {
			cancel(err)
		}
	}()
	wg.Wait()
	<-blows
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("after %d writes: %w", s.sent.Load(), err)
	}
	return s.sweep()
}

// blows does the blows at random moments, whenever enough was sent since the
// last one. None comes at the end: the last process has seen enough then to
// show what it leaves behind.
func (s *storm) blows() error {
	rng := rand.New(rand.NewPCG(s.Seed, 1<<32))
	for i := range s.Blows {
		due := int64(s.Writes) * 9 * int64(i+1) / int64(10*s.Blows)
		for s.sent.Load() < due && s.ctx.Err() == nil {
			pause(s.ctx, 5*time.Millisecond)
		}
		if !pause(s.ctx, time.Duration(rng.Int64N(int64(50*time.Millisecond)))) {
			return nil
		}
		if err := s.Strike(i); err != nil {
			return fmt.Errorf("blow %d: %w", i, err)
		}
	}
	return nil
}

// client sends one write after the other. One in four uses its connection
// again.
func (s *storm) client(n uint64) {
	rng := rand.New(rand.NewPCG(s.Seed, n))
	draw := s.Draw
	draw.Rand = rng
	c := Client{Addr: s.Addr, H: s.H, Keep: n/2%4 == 0}
	if s.Relay != nil && n%2 == 0 {
		c.Dial = s.Relay.Dial
	}
	if len(s.shared) > 0 && n%4 != 0 {
		c.Streams = s.shared[n/4%uint64(len(s.shared))]
	}
	defer c.Close()
	var last *Write // to be tried again with the same token
	for s.ctx.Err() == nil && s.sent.Load() < int64(s.Writes) {
		w := Write{}
		if last != nil && rng.IntN(2) == 0 {
			w.Key, w.Token = last.Key, last.Token
		} else {
			key := rng.IntN(s.Keys)
			w.Key, w.Token = keyName(key), s.token(rng, key)
		}
		draw.Write(&w)
		w.ID = s.next.Add(1)
		r := c.Do(w)
		last = nil
		switch {
		case errors.Is(r.Err, ErrNotSent): // nobody is there
			pause(s.ctx, time.Duration(2+rng.IntN(20))*time.Millisecond)
			continue
		case r.Status == 503: // says nothing of the fence, and is quick where the disk is full
			last = &w
			pause(s.ctx, time.Duration(10+rng.IntN(60))*time.Millisecond)
			continue
		case r.Status == 0 || r.Status >= 500:
			last = &w
			pause(s.ctx, time.Duration(rng.IntN(10))*time.Millisecond)
		}
		s.sent.Add(1)
	}
}

// token draws around the key's highest: mostly equal to it, some lower, some
// higher.
func (s *storm) token(rng *rand.Rand, key int) uint64 {
	top := &s.top[key]
	switch n := rng.IntN(100); {
	case n < 8:
		return top.Add(1 + rng.Uint64N(3))
	case n < 26:
		return top.Load() - 1 - rng.Uint64N(5)
	default:
		return top.Load()
	}
}

// sweep sends, on every key that has a mark, a token below it.
func (s *storm) sweep() error {
	highest := map[string]uint64{}
	for _, e := range s.H.Events() {
		if e.Kind == Arrive {
			highest[e.Key] = max(highest[e.Key], e.Token)
		}
	}
	c := Client{Addr: s.Addr, H: s.H}
	for key, t := range highest {
		r := c.Do(Write{ID: s.next.Add(1), Key: key, Token: t - 1})
		if r.Problem.Name() != staleToken {
			return fmt.Errorf("key %s: at the end token %d got status %d, %q (%v), though %d had been admitted", key, t-1, r.Status, r.Problem.Name(), r.Err, t)
		}
	}
	return nil
}

func keyName(i int) string { return fmt.Sprintf("k%d", i) }

// pause waits for d or ctx, and reports whether d is over.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
