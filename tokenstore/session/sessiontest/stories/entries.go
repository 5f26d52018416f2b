package stories

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// x5: RA is gone, and its entry is not: w2, which comes later, waits for w1.
func x5(t *testing.T, p Place) {
	r := newRig(t, p)
	w1 := r.a.ask(1).admitted()
	w1.send()
	s := r.owner()
	r.a.cut()
	r.goes(s)
	w2 := r.b.ask(2).waits()
	w1.wasCut()
	w2.admitted().send()
	w2.answered()
}

// x6: RA registers again, with a grant of before. Its old entry is removed. What
// it sends needs a new one.
func x6(t *testing.T, p Place) {
	r := newRig(t, p)
	r.a.do(1) // leaves a sticky grant
	s := r.owner()
	r.a.cut()
	r.a.ends()
	r.goes(s)
	r.a.network.Hold(false, false)
	w1 := r.a.back(1)
	w1.send()
	r.eventually("the old entry is removed", func() bool {
		for _, e := range r.open() {
			if e.Session == s {
				return false
			}
		}
		return true
	})
	w2 := r.b.ask(2).waits()
	w1.answered()
	w2.admitted().send()
	w2.answered()
}

// x8: RA raises to 1 while RB raises to 2. Of two steps, the raise and the
// entry, one would come between those of the other. RA hears of no raise, which
// would keep it from sending by chance.
func x8(t *testing.T, p Place) {
	r := newRig(t, p, lasting, idle, deaf)
	const rounds, together = 96, 16
	var sent [2]int
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, together)
	for i := range rounds {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			k := tokenstore.Key(fmt.Sprint("k", i))
			var both sync.WaitGroup
			for n, p := range []*proxy{r.a, r.b} {
				both.Go(func() {
					time.Sleep(rand.N(10 * time.Millisecond))
					w := p.askOn(k, uint64(n+1))
					if <-w.asked; w.err != nil || !w.send() {
						return // w1 may be stale
					}
					time.Sleep(time.Duration(2-n) * 10 * time.Millisecond) // w1 takes longer
					w.answered()
					mu.Lock()
					sent[n]++
					mu.Unlock()
				})
			}
			both.Wait()
		})
	}
	all.Wait()
	if sent[0] == 0 || sent[1] != rounds {
		t.Errorf("of %d pairs %d older and %d newer writes were sent: this has shown nothing", rounds, sent[0], sent[1])
	}
}

// idle gives a grant back soon after its last use.
func idle(_ *way, o *session.Options) { o.IdleAfter = 300 * time.Millisecond }

// x9: RA's idle entry is on its way out of the store when w1 comes.
func x9(t *testing.T, p Place) {
	r := newRig(t, p, lasting, idle)
	r.a.do(1)
	release := r.a.way.deletes.hold()
	r.eventually("the entry is being deleted", func() bool { came, _ := r.a.way.deletes.count(); return came > 0 })
	w1 := r.a.ask(1).admitted()
	w1.send()
	release()
	r.eventually("it is deleted", func() bool { came, ended := r.a.way.deletes.count(); return ended == came })
	w2 := r.b.ask(2).waits()
	w1.answered()
	w2.admitted().send()
	w2.answered()
}

// x10: the delete of RA's idle entry gets no answer, w1 takes a new one, and the
// old delete arrives.
func x10(t *testing.T, p Place) {
	r := newRig(t, p, lasting, idle)
	r.a.do(1)
	arrive := r.a.way.deletes.delay()
	r.eventually("RA has given a delete up", func() bool { _, ended := r.a.way.deletes.count(); return ended > 0 })
	w1 := r.a.ask(1).admitted()
	w1.send()
	arrive()
	w2 := r.b.ask(2).waits()
	w1.answered()
	w2.admitted().send()
	w2.answered()
}
