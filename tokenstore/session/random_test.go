package session_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
	"github.com/fenceproxy/fenceproxy/tokenstore/session/sessiontest"
)

// The random test: proxies come and go, are paused, cut off, and lose calls
// and answers, while writes with random tokens go through them to an upstream
// that takes its time. Whatever happens, the tokens that it applies per key
// never decrease.

const (
	rSettle = 4 * time.Second
	rMargin = 2 * time.Second
	rTTL    = 6 * time.Second
	rPause  = rMargin / 2 // linger is settle: (linger + margin − settle) / 2
	rFor    = 4 * time.Minute
	rKeys   = 3
)

// world is one run.
type world struct {
	t      *testing.T
	engine *sessiontest.Engine
	begun  time.Time

	mu   sync.Mutex // guards what follows
	rng  *rand.Rand
	next [rKeys]uint64                       // about where the tokens of a key are
	last map[tokenstore.Key]tokenstore.Token // applied
	ask  map[tokenstore.Mark]time.Time       // when a token was first asked for
	bad  []string

	wg    sync.WaitGroup
	tally tally
}

// tally is what a run must have seen to show anything.
type tally struct{ sent, stale, refused, cut, crashed, notSent, applied, waited, unordered, observed atomic.Int64 }

func (w *world) n(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.n(int(d))) }

func TestRandom(t *testing.T) {
	seeds := 12
	if testing.Short() {
		seeds = 3
	}
	var total tally
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t, seed, &total) })
		})
	}
	for name, n := range map[string]*atomic.Int64{"sent": &total.sent, "stale": &total.stale, "refused": &total.refused, "cut": &total.cut,
		"crashed": &total.crashed, "not sent": &total.notSent, "applied": &total.applied, "waited": &total.waited,
		"unordered": &total.unordered, "only looked on": &total.observed} {
		t.Logf("%s: %d", name, n.Load())
		if n.Load() == 0 {
			t.Errorf("nothing was %s: these runs show nothing", name)
		}
	}
}

func play(t *testing.T, seed uint64, total *tally) {
	w := &world{t: t, engine: sessiontest.NewEngine(), begun: time.Now(), rng: rand.New(rand.NewPCG(seed, 5)), last: map[tokenstore.Key]tokenstore.Token{}, ask: map[tokenstore.Mark]time.Time{}}
	for range 2 + seed%2 {
		w.wg.Go(w.site)
	}
	w.wg.Wait()
	w.lives()
	for _, bad := range w.bad {
		t.Error(bad)
	}
	for _, pair := range [][2]*atomic.Int64{{&total.sent, &w.tally.sent}, {&total.stale, &w.tally.stale}, {&total.refused, &w.tally.refused}, {&total.cut, &w.tally.cut},
		{&total.crashed, &w.tally.crashed}, {&total.notSent, &w.tally.notSent}, {&total.applied, &w.tally.applied}, {&total.waited, &w.tally.waited},
		{&total.unordered, &w.tally.unordered}, {&total.observed, &w.tally.observed}} {
		pair[0].Add(pair[1].Load())
	}
}

// lives makes sure that nothing is left for which a new holder would wait for
// longer than what the last ones had in flight may take.
func (w *world) lives() {
	s, err := session.Open(context.Background(), w.engine.Port(), session.Options{TTL: rTTL, Margin: rMargin, Linger: rSettle, Clock: func() time.Duration { return time.Since(w.begun) }})
	if err != nil {
		w.t.Fatal(err)
	}
	defer closeStore(w.t, s, true)
	ctx, cancel := context.WithTimeout(context.Background(), rTTL+rSettle+5*time.Second)
	defer cancel()
	for k := range rKeys {
		g, err := s.Acquire(ctx, []tokenstore.Mark{{Key: tokenstore.Key(fmt.Sprint("k", k)), Token: tok(1 << 40)}})
		if err == nil {
			err = g.Drained(ctx)
			g.Release()
		}
		if err != nil {
			w.t.Errorf("k%d: nobody runs any more, and a new holder is not admitted: %v", k, err)
		}
	}
}

func (w *world) over() bool { return time.Since(w.begun) > rFor }

// site is one proxy and those that are started in its place when it crashes.
func (w *world) site() {
	for !w.over() {
		s := &site{world: w, port: w.engine.Port(), crash: make(chan struct{})}
		s.port.Fates(s.fate)
		clock := time.Now()
		var err error
		s.store, err = session.Open(context.Background(), s.port, session.Options{TTL: rTTL, Margin: rMargin, Linger: rSettle,
			IdleAfter: 10 * time.Second, ReconcileEvery: 5 * time.Second, Clock: func() time.Duration { return time.Since(clock) },
			Observe: session.Observer{RemoteWait: func(time.Duration) { w.tally.waited.Add(1) }}})
		if err != nil {
			time.Sleep(time.Second) // the store did not answer
			continue
		}
		s.run()
	}
}

// site is one life of a proxy.
type site struct {
	*world
	port  *sessiontest.Port
	store *session.Store
	crash chan struct{}
	wg    sync.WaitGroup

	pausing sync.Mutex // held during a pause; guards paused
	paused  time.Time  // when the last one ended
}

// fate makes some calls slow, and some of unknown result.
func (s *site) fate(op session.Op) (f sessiontest.Fate) {
	f.Travel = s.upTo(20 * time.Millisecond)
	switch s.n(100) {
	case 0:
		f.Lost = true
	case 1:
		f.Never = true
	case 2:
		f.Late = s.upTo(8 * time.Second)
	case 3:
		f.Travel = s.upTo(2 * time.Second)
	case 4:
		f.Fail = errors.New("the store is busy")
	}
	return f
}

// run lets writes through until the proxy crashes or is stopped.
func (s *site) run() {
	s.wg.Go(func() {
		for range s.store.Raised() {
		}
	})
	dies := time.NewTimer(s.upTo(2 * time.Minute))
	stop := make(chan struct{})
	for range 6 {
		s.wg.Go(func() { s.clients(stop) })
	}
	s.wg.Go(func() { s.trouble(stop) })
	<-dies.C
	close(stop)
	if s.n(2) == 0 {
		s.tally.crashed.Add(1)
		s.port.Cut(true)
		close(s.crash)
	}
	s.port.Resume()
	time.Sleep(2 * rSettle)
	_ = s.store.Close(false)
	s.port.Resume()
	s.wg.Wait()
}

// trouble pauses the proxy, for no longer than is allowed, and cuts it off.
func (s *site) trouble(stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(2*rPause + s.upTo(10*time.Second)):
		}
		switch s.n(4) {
		case 0:
			s.port.Cut(true)
			time.Sleep(s.upTo(2 * rTTL))
			s.port.Cut(false)
		case 1:
			s.port.Deafen(true)
			time.Sleep(s.upTo(2 * rTTL))
			s.port.Deafen(false)
		default:
			s.pause()
		}
		select {
		case <-s.crash: // it stays cut off
			s.port.Cut(true)
			return
		default:
		}
	}
}

// pause stops the proxy for no longer than it may, unless it was stopped a
// moment ago: two pauses in a row would be a longer one.
func (s *site) pause() {
	if !s.pausing.TryLock() {
		return
	}
	defer s.pausing.Unlock()
	if time.Since(s.paused) < 2*rPause {
		return
	}
	s.port.Pause()
	time.Sleep(s.upTo(rPause))
	s.port.Resume()
	s.paused = time.Now()
}

// clients send writes, one after the other.
func (s *site) clients(stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(s.upTo(300 * time.Millisecond)):
			s.write()
		}
	}
}

// marks draws one or two keys with tokens around the newest, or without one.
func (s *site) marks() (marks []tokenstore.Mark) {
	first, observed := s.n(rKeys), s.n(8) == 0
	for i := range 1 + s.n(4)/3 {
		k := (first + i) % rKeys
		key := tokenstore.Key(fmt.Sprint("k", k))
		if s.n(4) == 0 {
			marks = append(marks, tokenstore.Mark{Key: key, Unordered: true})
			continue
		}
		s.mu.Lock()
		if s.rng.IntN(20) == 0 {
			s.next[k]++
		}
		n := s.next[k] - min(s.next[k], uint64(s.rng.IntN(2)))
		m := tokenstore.Mark{Key: key, Token: tok(n)}
		if _, ok := s.ask[m]; !ok {
			s.ask[m] = time.Now()
		}
		s.mu.Unlock()
		m.Observed = observed
		marks = append(marks, m)
	}
	return marks
}

// admit asks for a grant, or takes one that is held.
func (s *site) admit(ctx context.Context, marks []tokenstore.Mark) (tokenstore.Grant, error) {
	if len(marks) == 1 && s.n(2) == 0 {
		if g, ok := s.store.Held(marks[0]); ok {
			return g, nil
		}
	}
	g, err := s.store.Acquire(ctx, marks)
	if err != nil {
		return nil, err
	}
	if marks[0].Observed {
		return g, nil // it waits for nobody
	}
	if err = g.Drained(ctx); err != nil {
		g.Release()
		return nil, err
	}
	return g, nil
}

// write is the life of one write.
func (s *site) write() {
	marks := s.marks()
	ctx, cancel := context.WithTimeout(context.Background(), s.upTo(20*time.Second))
	defer cancel()
	g, err := s.admit(ctx, marks)
	var stale *tokenstore.StaleError
	switch {
	case errors.As(err, &stale):
		s.tally.stale.Add(1)
		return
	case err != nil:
		s.tally.refused.Add(1)
		return
	}
	admitted := time.Now()
	if s.n(4) == 0 {
		time.Sleep(s.upTo(4 * time.Second)) // it waits for older writes here, or for a client's slow upload
	}
	s.port.Awake()
	if !g.MaySend() {
		s.tally.notSent.Add(1)
		g.Release()
		return
	}
	if s.n(10) == 0 { // between the check and the send
		s.pause()
	}
	s.port.Awake()
	select {
	case <-s.crash:
		return
	default:
	}
	s.send(g, marks, admitted)
}

// send hands the write to the upstream, and follows it to the end.
func (s *site) send(g tokenstore.Grant, marks []tokenstore.Mark, admitted time.Time) {
	s.tally.sent.Add(1)
	takes := s.upTo(time.Second)
	if s.n(8) == 0 {
		takes = s.upTo(20 * time.Second)
	}
	answered, lost := make(chan struct{}), make(chan time.Time, 1)
	s.wg.Go(func() { s.upstream(marks, admitted, takes, lost, answered) })
	select {
	case <-answered:
		s.port.Awake()
	case <-g.Lost():
		s.port.Awake() // the cut is due, and may be late by a pause
		s.tally.cut.Add(1)
		lost <- time.Now()
		time.Sleep(rSettle)
	case <-s.crash: // the kernel closes its connections
		lost <- time.Now()
		return // nobody is left to release the grant
	case <-time.After(15 * time.Second): // response_timeout
		s.port.Awake()
		lost <- time.Now()
		time.Sleep(rSettle)
	}
	g.Release()
}

// upstream applies a write after a while. Once sight of it was lost it does so
// within settle, as late as it likes, or never.
func (s *site) upstream(marks []tokenstore.Mark, admitted time.Time, takes time.Duration, lost chan time.Time, answered chan struct{}) {
	select {
	case <-time.After(takes):
		s.apply(marks, admitted)
		close(answered)
	case <-lost:
		if s.n(3) > 0 {
			time.Sleep(s.upTo(rSettle) / 4)
			time.Sleep(rSettle*3/4 - time.Millisecond)
			s.apply(marks, admitted)
		}
	}
}

// apply holds the promises against a write that the upstream applies: no higher
// token was applied before it, and if it has none, none that was asked for when
// it had been admitted already. Who only looks on keeps to nothing, but others
// wait for his writes as well.
func (s *site) apply(marks []tokenstore.Mark, admitted time.Time) {
	s.tally.applied.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	observed := false
	for _, m := range marks {
		observed = observed || m.Observed
	}
	for _, m := range marks {
		last := s.last[m.Key]
		switch {
		case m.Unordered:
			s.tally.unordered.Add(1)
			if asked, ok := s.ask[tokenstore.Mark{Key: m.Key, Token: last}]; ok && last != (tokenstore.Token{}) && admitted.Before(asked) {
				s.bad = append(s.bad, fmt.Sprintf("%v: a write without a token, admitted %v before token %s was asked for, is applied to %s after that",
					time.Since(s.begun), asked.Sub(admitted), last, m.Key))
			}
			continue
		case m.Token.Less(last):
			s.bad = append(s.bad, fmt.Sprintf("%v: token %s is applied to %s after %s", time.Since(s.begun), m.Token, m.Key, last))
		}
		if observed {
			s.tally.observed.Add(1)
			continue
		}
		s.last[m.Key] = m.Token
	}
}
