package stories

import (
	"fmt"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// deaf hears of nothing.
func deaf(w *way, _ *session.Options) { w.deaf = true }

// x7: RA's watch is dead, and its calls are answered. It hears of the raise with
// its keepalives, or they count no more: RB does not wait for ever.
func x7(t *testing.T, p Place) {
	r := newRig(t, p, deaf)
	r.a.do(1) // leaves a sticky grant
	w2 := r.b.ask(2)
	w2.admitted().send()
	w2.answered()
}

// x12: RA's acquire times out, and commits later. Nobody owns its entry; RA
// finds it when RB raises.
func x12(t *testing.T, p Place) {
	r := newRig(t, p, lasting, func(_ *way, o *session.Options) { o.ReconcileEvery = 10 * soon })
	r.hears()
	r.commitsLate()
	w2 := r.b.ask(2)
	w2.admitted().send()
	w2.answered()
	if r.a.store.Remaining() == 0 {
		t.Error("RA's session has ended: this has shown nothing")
	}
}

// x12Unasked: RA finds it too where nobody raises, and nothing is heard.
func x12Unasked(t *testing.T, p Place) {
	r := newRig(t, p, lasting, deaf)
	r.commitsLate()
	r.eventually("the entry is removed", func() bool { return len(r.open()) == 0 })
	if r.a.store.Remaining() == 0 {
		t.Error("RA's session has ended: this has shown nothing")
	}
}

// hears waits until RA hears of what RB raises: on a busy machine its watch may not
// run yet, and what an engine tells meanwhile is told to nobody.
func (r *rig) hears() {
	r.Helper()
	n := 0
	r.eventually("RA hears of a raise", func() bool {
		n++
		k := tokenstore.Key(fmt.Sprint("heard", n))
		w1 := r.a.askOn(k, 1).admitted() // leaves a sticky grant
		w1.send()
		w1.answered()
		w2 := r.b.askOn(k, 2)
		select {
		case <-w2.asked:
		case <-time.After(time.Second):
			return false
		}
		w2.admitted().send()
		w2.answered()
		return true
	})
	r.eventually("nothing is being deleted", func() bool { came, ended := r.a.way.deletes.count(); return ended == came })
}

// commitsLate lets RA acquire, and the store answer too late.
func (r *rig) commitsLate() {
	r.Helper()
	_, before := r.a.way.deletes.count()
	arrive := r.a.way.acquires.delay()
	r.a.ask(1).fails()
	// What RA removes at once, in case that it is there, is not there yet.
	r.eventually("RA has removed what it knows of", func() bool { _, ended := r.a.way.deletes.count(); return ended > before })
	arrive()
	rec, ok, err := r.look.Load(r.ctx(), key)
	if err != nil || !ok || rec.Highest != (tokenstore.Token{Major: 1}) {
		r.Fatalf("the acquire was to be committed: %+v, %v, %v", rec, ok, err)
	}
}
