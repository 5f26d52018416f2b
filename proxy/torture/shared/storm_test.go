package shared

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
)

// storm is random writes over a few keys, at all proxies of a fleet, while
// these, their store and their network are disturbed.
type storm struct {
	*fleet
	seed    uint64
	clients int
	writes  int64 // at least so many get another answer than 503
	faults  int   // and so many done to each proxy
	keys    int

	sent  atomic.Int64
	calm  atomic.Bool
	alone sync.RWMutex   // held by who disturbs one proxy; to be written by who leaves the others in peace
	stop  chan struct{}  // closed when enough was sent and done
	held  []holders      // per key
	kept  []atomic.Int64 // 2xx, per proxy
	waits atomic.Int64   // for writes at other proxies, as they count them

	mu    sync.Mutex     // guards what follows
	done  map[string]int // faults, by what was done
	fatal error
}

func key(i int) string { return fmt.Sprintf("k%d", i) }

// fail ends the storm early.
func (s *storm) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fatal == nil {
		s.fatal = err
	}
	s.calm.Store(true)
}

// run runs it to its end, heals everything, and tries on every key that a new
// holder is let in at every proxy, and an old one nowhere.
func (s *storm) run(patience time.Duration) error {
	s.stop, s.done = make(chan struct{}), map[string]int{}
	s.held, s.kept = make([]holders, s.keys), make([]atomic.Int64, len(s.members))
	var disturbers, clients sync.WaitGroup
	for i := range s.clients {
		clients.Go(func() { s.client(rand.New(rand.NewPCG(s.seed, uint64(i)))) })
	}
	for i, m := range s.members {
		disturbers.Go(func() { s.disturb(rand.New(rand.NewPCG(s.seed, 1<<32+uint64(i))), m) })
	}
	disturbers.Go(func() { s.disturbStore(rand.New(rand.NewPCG(s.seed, 1<<33))) })
	go func() {
		disturbers.Wait()
		s.calm.Store(true)
	}()
	end := time.Now().Add(patience)
	for !s.calm.Load() || s.sent.Load() < s.writes {
		if time.Now().After(end) {
			s.fail(fmt.Errorf("after %v there were %d writes, and the faults %v", patience, s.sent.Load(), s.done))
		}
		if s.failed() != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	close(s.stop)
	clients.Wait()
	disturbers.Wait()
	if err := s.failed(); err != nil {
		return err
	}
	return s.newHolders()
}

func (s *storm) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fatal
}

func (s *storm) stopped() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// client sends one write after the other. Half of those that failed are tried
// again with the same token.
func (s *storm) client(rng *rand.Rand) {
	draw := torture.Draw{Rand: rng, Patience: response, Late: settle / 3, Buffer: 8 << 10, Silence: bound}
	var last *torture.Write
	var at int // the proxy
	for !s.stopped() {
		w := torture.Write{}
		if last != nil && rng.IntN(2) == 0 {
			w.Key, w.Token = last.Key, last.Token
		} else {
			k := rng.IntN(s.keys)
			w.Key = key(k)
			w.Token, at = s.held[k].draw(rng, len(s.members))
			if k%2 == 0 { // the token comes from everywhere; else from its holder, who has one proxy
				at = rng.IntN(len(s.members))
			}
		}
		draw.Write(&w)
		w.ID = s.ids.Add(1)
		c := torture.Client{Addr: s.members[at].Addr, H: s.h}
		r := c.Do(w)
		c.Close()
		last = nil
		switch {
		case errors.Is(r.Err, torture.ErrNotSent): // nobody is there
			time.Sleep(time.Duration(2+rng.IntN(20)) * time.Millisecond)
			continue
		case r.Status == 503: // not one of those that were to be sent: a proxy without a session is quick
			last = &w
			time.Sleep(time.Duration(20+rng.IntN(100)) * time.Millisecond)
			continue
		case r.Status == 0 || r.Status >= 500:
			last = &w
			time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
		case r.Status < 300:
			s.kept[at].Add(1)
		}
		s.sent.Add(1)
	}
}

// holders are those who were given a key's tokens, each at a proxy of its own.
// A proxy that is cut off hears of a new one from nobody, its clients included,
// and the old one goes on.
type holders struct {
	mu   sync.Mutex // guards last
	last []holder
}

type holder struct {
	token uint64
	at    int
}

// draw takes mostly the newest holder, now and then an earlier one, who may not
// know that it is over, and sometimes a new one.
func (h *holders) draw(rng *rand.Rand, proxies int) (token uint64, at int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := rng.IntN(100)
	if len(h.last) == 0 || n < 6 {
		next := holder{10, rng.IntN(proxies)}
		if len(h.last) > 0 {
			next.token = h.last[len(h.last)-1].token + 1 + rng.Uint64N(3)
		}
		h.last = append(h.last, next)
	}
	drawn := h.last[len(h.last)-1]
	if n >= 6 && n < 30 {
		recent := h.last[max(0, len(h.last)-6):]
		drawn = recent[rng.IntN(len(recent))]
	}
	return drawn.token, drawn.at
}

// next is a token that is higher than all before.
func (h *holders) next() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := uint64(11)
	if len(h.last) > 0 {
		t = h.last[len(h.last)-1].token + 1
	}
	h.last = append(h.last, holder{token: t})
	return t
}

// newHolders writes on every key with a token that is higher than all before,
// and higher again at each proxy in turn, and then with one that is not.
func (s *storm) newHolders() error {
	for _, m := range s.members {
		s.ready(m)
	}
	for k := range s.keys {
		var highest uint64
		for _, m := range s.members {
			highest = s.held[k].next()
			if r := s.insist(m, key(k), highest); r.Status != 200 {
				return fmt.Errorf("at the end token %d on %s got status %d, %q (%v) at proxy %s", highest, key(k), r.Status, r.Problem.Name(), r.Err, m.name)
			}
		}
		for _, m := range s.members {
			if r := s.insist(m, key(k), highest-1); r.Problem.Name() != staleToken {
				return fmt.Errorf("at the end a token below the highest of %s got status %d, %q (%v) at proxy %s", key(k), r.Status, r.Problem.Name(), r.Err, m.name)
			}
		}
	}
	return nil
}

// insist writes until there is an answer that says something of the token: older
// writes are not over, or the machine has stood still, for a session or for a
// write.
func (s *storm) insist(m *member, key string, token uint64) (r torture.Reaction) {
	for end := time.Now().Add(3 * stormGone); ; {
		r = s.do(m, s.fleet.write(key, token))
		if r.Status != 503 && r.Problem.Name() != outcomeUnknown || time.Now().After(end) {
			return r
		}
	}
}
