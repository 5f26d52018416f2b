package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestH2Orders plays requests of all kinds against an upstream that answers,
// resets, stops reading and ends connections whenever it likes, over connections
// whose writes are told of late, in many orders: each seed is one, in virtual
// time. Whatever the order, every request is over soon after its connections are,
// nothing stays behind, and its outcome is true.
func TestH2Orders(t *testing.T) {
	seeds := uint64(600)
	if testing.Short() {
		seeds = 50
	}
	for seed := range seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playH2Order(t, seed) })
		})
	}
}

// order is one play.
type order struct {
	t     *testing.T
	began time.Time

	mu    sync.Mutex
	dice  *rand.Rand
	came  map[string]int  // of each request, heads that came, less those that were refused
	whole map[string]bool // its end came
	said  map[string]bool // all of its answer was said
	told  []told

	leave time.Duration // when clients leave who send no more; 0: never
}

func (o *order) roll(n int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dice.IntN(n)
}

// one reports true once in n times.
func (o *order) one(n int) bool { return o.roll(n) == 0 }

// pause takes up to n milliseconds, and often no time at all.
func (o *order) pause(n int) {
	if !o.one(3) {
		time.Sleep(time.Duration(o.roll(n+1)) * time.Millisecond)
	}
}

const (
	// No connection of a play is made later than ordersDial, nor lives for longer
	// than ordersLife.
	ordersDial = time.Second
	ordersLife = 400 * time.Millisecond
	// ordersEnd is when all has to be over: a connection whose writes failed is
	// read for another second.
	ordersEnd = ordersDial + ordersLife + h2Goodbye + time.Second
)

func newOrder(t *testing.T, seed uint64) *order {
	return &order{
		t: t, began: time.Now(), dice: rand.New(rand.NewPCG(seed, 7)),
		came: map[string]int{}, whole: map[string]bool{}, said: map[string]bool{},
	}
}

// play sends some requests and waits until they, and what is on its way, are over.
func (o *order) play(u *Upstream) {
	var requests sync.WaitGroup
	for n := range 2 + o.roll(8) {
		requests.Go(func() { o.request(u, strconv.Itoa(n)) })
	}
	requests.Wait()
	if took := time.Since(o.began); took > ordersEnd {
		o.t.Errorf("a request was over after %v", took)
	}
	time.Sleep(10 * ordersLife)
}

func playH2Order(t *testing.T, seed uint64) {
	o := newOrder(t, seed)
	u := newH2(t, "127.0.0.1:1")
	u.dial = o.dialH2
	switch o.roll(6) {
	case 0:
		u.pool.ttl = time.Duration(o.roll(3)) * 10 * time.Millisecond
	case 1:
		time.AfterFunc(time.Duration(o.roll(300))*time.Millisecond, u.Close)
	case 2:
		u.h2.stuck, u.h2.passOver = time.Millisecond, time.Millisecond
	}
	o.play(u)
	u.h2.mu.Lock()
	conns := slices.Clone(u.h2.conns)
	u.h2.mu.Unlock()
	for _, c := range conns {
		o.checkIdle(c)
	}
	u.Close()
	time.Sleep(ordersEnd) // goodbyes; who is left behind then makes a deadlock of this bubble
	for _, w := range o.told {
		o.check(w)
		if w.answer != nil {
			conns = append(conns, w.answer.h2.c)
		}
	}
	for _, c := range conns {
		o.checkEnded(c)
	}
	u.h2.mu.Lock()
	defer u.h2.mu.Unlock()
	if n := len(u.h2.conns); n != 0 {
		t.Errorf("%d connections are left in the pool", n)
	}
}

// checkIdle looks at what a connection that is kept has left for others.
func (o *order) checkIdle(c *h2conn) {
	window := c.nc.(*unsteady).far.window()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && c.open == 0 && c.window != window {
		o.t.Errorf("an idle connection has a window of %d bytes, and the upstream gave it %d", c.window, window)
	}
}

func (o *order) checkEnded(c *h2conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open != 0 || c.uploads != 0 || len(c.streams) != 0 || c.err == nil {
		o.t.Errorf("a connection that ended (%v) has %d streams open, %d known, %d uploads", c.err, c.open, len(c.streams), c.uploads)
	}
}

// request sends one request, and notes what is told of it.
func (o *order) request(u *Upstream, name string) {
	r := put()
	r.Header.Set("X-Name", name)
	r.Timeout, r.Follow, r.Settles = 0, o.one(2), o.one(3)
	if r.Follow {
		r.Timeout = time.Hour // no end that is waited for may come of it
	}
	if o.one(6) {
		r.Header.Set("Content-Type", "application/grpc")
	}
	o.body(r)
	if leave := o.roll(20); o.one(8) {
		var asked atomic.Int32
		r.MaySend = func() bool { return int(asked.Add(1)) <= leave }
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cut := make(chan struct{})
	r.Cut = cut
	gone := time.AfterFunc(time.Duration(o.roll(300))*time.Millisecond, func() {
		if o.one(3) {
			cancel()
		} else if o.one(3) {
			close(cut)
		}
	})
	defer gone.Stop()
	if body, ok := r.Body.(io.Closer); ok {
		defer body.Close() // who fills it may wait still
		if o.leave > 0 {
			defer time.AfterFunc(o.leave, func() { body.Close() }).Stop()
		}
	}
	o.pause(100)
	a, err := u.Send(ctx, r)
	var outcome Outcome
	var failed *Error
	switch {
	case errors.As(err, &failed):
		outcome = failed.Outcome
	case err != nil:
		o.t.Errorf("Send returned %T %v", err, err)
	default:
		o.pause(10)
		if !o.one(6) {
			_, err = io.Copy(io.Discard, a)
			if err == nil && !o.one(4) {
				<-a.UploadDone()
			}
			o.pause(10)
		}
		a.Close()
		outcome = a.Outcome()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told = append(o.told, told{name, outcome, a})
}

// told is what the sender of a request is told in the end.
type told struct {
	name    string
	outcome Outcome
	answer  *Answer
}

// check compares that with what the upstream knows.
func (o *order) check(w told) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.came[w.name] > 1:
		o.t.Errorf("%s came %d times", w.name, o.came[w.name])
	case w.outcome.Fate == NotSent && (w.answer != nil || o.came[w.name] > 0):
		o.t.Errorf("%s: %v, and it came", w.name, w.outcome)
	case w.outcome.Fate == Settled && (w.answer == nil || !o.said[w.name]):
		o.t.Errorf("%s: settled without an answer in full", w.name)
	case w.outcome.Fate == Settled && (w.answer.Status == 202 || w.answer.Status < 400 && !o.whole[w.name]):
		o.t.Errorf("%s: settled by a %d; all of it came: %v", w.name, w.answer.Status, o.whole[w.name])
	}
}

func (o *order) count(name string, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.came[name] += n
}

func (o *order) note(what map[string]bool, name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	what[name] = true
}

// body gives r one of the bodies that there are.
func (o *order) body(r *Request) {
	size := []int{1, 1000, maxJoined - 1, 3 * maxJoined}[o.roll(4)]
	whole := bytes.NewReader(make([]byte, size))
	switch o.roll(6) {
	case 0:
		r.Method, r.Body, r.Length = "GET", nil, 0
	case 1, 2:
		r.Body, r.Length = whole, int64(size)
	case 3:
		r.Body, r.Length, r.Interrupt = io.MultiReader(whole), int64(size), func() {}
	case 4:
		stalled(r)
	case 5:
		r.Body, r.Length, r.Interrupt = io.MultiReader(whole), -1, func() {}
		r.Trailer = func() http.Header { return http.Header{"X-Sum": {"1"}} }
	}
}
