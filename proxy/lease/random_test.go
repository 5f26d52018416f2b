package lease

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/memory"
)

// TestRandomIssuers lets several issuers grant the lease of one key over a store
// that is slow, loses answers, and makes changes late that it was asked for. Each
// holder goes to any of them, believes what he is told and no more, and so is
// alone with ever higher tokens.
func TestRandomIssuers(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector of Go 1.26 itself crashes, now and again, on so many timers in a bubble")
	}
	total := 0
	for seed := range uint64(120) {
		synctest.Test(t, func(t *testing.T) {
			d := &dice{rng: rand.New(rand.NewPCG(seed, 1))}
			w := &randomWorld{T: t, dice: d, held: map[int]time.Duration{}}
			w.run(&shakyStore{Store: memory.New(), dice: d, lossy: int(seed % 3), slow: []time.Duration{0, 300 * time.Millisecond, time.Second}[seed/3%3]})
			total += w.grants
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if total < 500 {
		t.Errorf("%d grants show nothing", total)
	}
}

// dice are shared by all goroutines of a world.
type dice struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func (d *dice) upTo(most time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.rng.Int64N(int64(most) + 1))
}

func (d *dice) oneIn(n int) bool { return d.upTo(time.Duration(n-1)) == 0 }

// shakyStore is a store as its proxies reach it.
type shakyStore struct {
	*memory.Store
	*dice
	lossy int           // 0: no call is lost
	slow  time.Duration // the longest that a call takes each way
	late  sync.WaitGroup
}

// shakySeat is it for one proxy.
type shakySeat struct {
	*shakyStore
	changes chan tokenstore.Key
}

func (s shakySeat) LeaseChanges() <-chan tokenstore.Key { return s.changes }

// call has do done: now, later, or never. Of an answer that is lost the caller
// hears when his time is up, or earlier.
func (s *shakyStore) call(ctx context.Context, do func() error) error {
	lost := func() error {
		sleep(ctx, s.upTo(2*storeTimeout))
		return errGone
	}
	switch bad := s.lossy > 0 && s.oneIn(12/s.lossy); {
	case !sleep(ctx, s.upTo(s.slow)):
		return errGone
	case bad && s.oneIn(3):
		return lost()
	case bad && s.oneIn(2):
		s.late.Go(func() {
			time.Sleep(s.upTo(2 * storeTimeout))
			_ = do()
		})
		return lost()
	case bad:
		_ = do()
		return lost()
	}
	err := do()
	if !sleep(ctx, s.upTo(s.slow)) {
		return errGone
	}
	return err
}

func (s *shakyStore) lease(ctx context.Context, do func() (tokenstore.Lease, error)) (tokenstore.Lease, error) {
	made := make(chan tokenstore.Lease, 1)
	err := s.call(ctx, func() error {
		l, err := do()
		made <- l
		return err
	})
	if err != nil {
		return tokenstore.Lease{}, err
	}
	return <-made, nil
}

func (s *shakyStore) Lease(ctx context.Context, k tokenstore.Key) (tokenstore.Lease, error) {
	return s.lease(ctx, func() (tokenstore.Lease, error) { return s.Store.Lease(context.Background(), k) })
}

func (s *shakyStore) GrantLease(ctx context.Context, k tokenstore.Key, was, next tokenstore.Lease, epoch uint64) (tokenstore.Lease, error) {
	return s.lease(ctx, func() (tokenstore.Lease, error) { return s.Store.GrantLease(context.Background(), k, was, next, epoch) })
}

func (s *shakyStore) RenewLease(ctx context.Context, k tokenstore.Key, was tokenstore.Lease, ttl time.Duration) (tokenstore.Lease, error) {
	return s.lease(ctx, func() (tokenstore.Lease, error) { return s.Store.RenewLease(context.Background(), k, was, ttl) })
}

func (s *shakyStore) EndLease(ctx context.Context, k tokenstore.Key, was tokenstore.Lease) error {
	return s.call(ctx, func() error { return s.Store.EndLease(context.Background(), k, was) })
}

// randomWorld is one run.
type randomWorld struct {
	*testing.T
	*dice
	issuers [3]*Issuer

	mu     sync.Mutex            // guards what follows
	held   map[int]time.Duration // until when each holder was told to have the lease
	last   tokenstore.Token
	grants int
}

func (w *randomWorld) run(s *shakyStore) {
	owners := []Owner{{Rule: "accounts", Fence: w.fence}}
	for at := range w.issuers {
		i, err := New(w.Context(), Options{Store: shakySeat{s, make(chan tokenstore.Key)}, Clock: clock, DefaultTTL: 6 * time.Second, MaxTTL: time.Hour,
			Owners: func(tokenstore.Key) []Owner { return owners }})
		if err != nil {
			w.Fatal(err)
		}
		w.issuers[at] = i
	}
	var all sync.WaitGroup
	end := clock() + 5*time.Minute
	for who := range 5 {
		all.Go(func() {
			for clock() < end {
				w.live(who)
			}
		})
	}
	all.Go(func() { // who asks makes an issuer look
		for clock() < end {
			time.Sleep(w.upTo(300 * time.Millisecond))
			_, _ = w.any().Status(context.Background(), key)
		}
	})
	all.Wait()
	for _, i := range w.issuers {
		i.Close()
	}
	s.late.Wait()
}

func (w *randomWorld) any() *Issuer { return w.issuers[w.upTo(time.Duration(len(w.issuers)-1))] }

// fence is a drain that may take longer than the lease lives, and may find that
// somebody was faster.
func (w *randomWorld) fence(ctx context.Context, k tokenstore.Key, token tokenstore.Token) error {
	switch {
	case !sleep(ctx, w.upTo(15*time.Second)):
		return gate.ErrLeft
	case w.oneIn(10):
		return &gate.StaleError{Key: k, Token: token, Highest: tokenstore.Token{Major: token.Major + 1}}
	}
	return nil
}

// live is one holder's way to a lease, with it, and to its end.
func (w *randomWorld) live(who int) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second+w.upTo(2*time.Minute))
	defer cancel()
	h, err := w.any().Acquire(ctx, Request{Key: key, Holder: "x", Wait: w.upTo(time.Minute), Fence: !w.oneIn(3)})
	if err != nil {
		time.Sleep(w.upTo(3 * time.Second))
		return
	}
	until := w.told(who, h, true)
	for range w.upTo(5) {
		time.Sleep(w.upTo(4 * time.Second))
		if clock() >= until {
			return
		}
		ttl := time.Duration(0)
		if w.oneIn(2) {
			ttl = time.Second + w.upTo(12*time.Second)
			until = w.shorter(who, until, clock()+ttl) // a shorter one counts from here, answered or not
		}
		if r, err := w.any().Renew(ctx, key, h.ID, ttl); err == nil && clock() < until {
			until = w.told(who, r, false)
		}
	}
	if w.oneIn(3) { // it is not heard of again
		time.Sleep(until - clock())
		return
	}
	w.mu.Lock()
	delete(w.held, who)
	w.mu.Unlock()
	for range 3 {
		if w.any().Release(ctx, key, h.ID) == nil {
			return
		}
	}
}

// told notes that who may rely on h, and wants everybody else's time to be over.
func (w *randomWorld) told(who int, h Held, granted bool) (until time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := clock()
	for other, end := range w.held {
		if other != who && end > now {
			w.Errorf("two holders: %d is told to have token %v, and %d has %v left", who, h.Token, other, end-now)
		}
	}
	if granted {
		if w.grants++; !w.last.Less(h.Token) {
			w.Errorf("token %v is granted behind %v", h.Token, w.last)
		}
		w.last = h.Token
	}
	until = now + h.Left
	w.held[who] = until
	return until
}

// shorter notes that who relies on less.
func (w *randomWorld) shorter(who int, until, end time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held[who] = min(until, end)
	return w.held[who]
}
