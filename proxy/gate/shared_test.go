package gate

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// lease is a grant of a store that other proxies share.
type lease struct {
	drained  chan struct{}
	over     atomic.Bool
	released atomic.Int32
}

func (l *lease) Drained(ctx context.Context) error {
	select {
	case <-l.drained:
		return nil
	case <-ctx.Done():
		return tokenstore.ErrUnavailable
	}
}
func (l *lease) MaySend() bool         { return !l.over.Load() }
func (l *lease) Lost() <-chan struct{} { return nil }
func (l *lease) Release()              { l.released.Add(1) }

func inSharedTime(t *testing.T, f func(r *rig, last func() *lease)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.gate.Stop()
		r.disk.raised = make(chan tokenstore.Mark)
		var grants []*lease
		r.disk.grant = func() tokenstore.Grant {
			grants = append(grants, &lease{drained: make(chan struct{})})
			return grants[len(grants)-1]
		}
		r.boot()
		f(r, func() *lease { return grants[len(grants)-1] })
		r.gate.Stop()
		after(time.Hour)
		for i, g := range grants {
			if g.released.Load() != 1 {
				t.Errorf("grant %d was released %d times", i, g.released.Load())
			}
		}
	})
}

// Over a shared store every write has a grant, and waits for other proxies.
func TestSharedWaitsForOthers(t *testing.T) {
	inSharedTime(t, func(r *rig, last func() *lease) {
		w1 := r.start("w1", 1).mustWait()
		close(last().drained)
		synctest.Wait()
		w1.mustBeSent()
		w1b := r.start("w1 too", 1).mustWait()
		w1b.leave()
		synctest.Wait()
		w1b.mustFail(ErrLeft)
		w1.answer()
	})
}

// A raise at another proxy overtakes the writes that wait here, and passes
// those in flight.
func TestSharedRaisedElsewhere(t *testing.T) {
	inSharedTime(t, func(r *rig, last func() *lease) {
		w1 := r.start("w1", 1)
		close(last().drained)
		synctest.Wait()
		w1.mustBeSent()
		w2 := r.start("w2", 2).mustWait()
		close(last().drained)
		synctest.Wait()
		w2.mustWait() // for w1, here
		r.disk.raised <- tokenstore.Mark{Key: "k", Token: tok(3)}
		synctest.Wait()
		w2.mustBeStale(true)
		if !closed(w1.ticket.Overtaken()) {
			t.Error("w1 was not told")
		}
		w1.answer()
	})
}

// A grant that does not hold any more admits nothing (R5).
func TestSharedSessionOver(t *testing.T) {
	inSharedTime(t, func(r *rig, last func() *lease) {
		w1 := r.start("w1", 1).mustWait()
		last().over.Store(true)
		close(last().drained)
		synctest.Wait()
		w1.mustFail(tokenstore.ErrUnavailable)
	})
}
