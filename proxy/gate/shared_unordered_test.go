package gate

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// fleet is a store that other proxies share, and writes without a token pass.
type fleet struct {
	*disk
	asked [][]tokenstore.Mark
	kept  tokenstore.Grant // given without I/O, to unordered writes
	last  *lease
	found bool // what is given is waited for by then
}

func (f *fleet) Acquire(ctx context.Context, marks []tokenstore.Mark) (tokenstore.Grant, error) {
	f.asked = append(f.asked, slices.Clone(marks))
	ordered := slices.DeleteFunc(slices.Clone(marks), func(m tokenstore.Mark) bool { return m.Unordered })
	if _, err := f.disk.Acquire(ctx, ordered); err != nil {
		return nil, err
	}
	f.last = &lease{drained: make(chan struct{}), stale: make(chan *tokenstore.StaleError), lost: make(chan struct{})}
	f.last.hurried.Store(f.found)
	if len(ordered) == 0 {
		close(f.last.drained)
	}
	return f.last, nil
}

func (f *fleet) Held(m tokenstore.Mark) (tokenstore.Grant, bool) {
	return f.kept, f.kept != nil && m.Unordered
}

func inFleetTime(t *testing.T, run func(r *rig, f *fleet)) {
	t.Helper()
	inTime(t, func(r *rig) {
		r.gate.Stop()
		r.disk.raised = make(chan tokenstore.Mark)
		r.opts.Unordered = true
		f := &fleet{disk: r.disk}
		var err error
		if r.gate, err = New(f, r.opts); err != nil {
			t.Fatal(err)
		}
		run(r, f)
	})
}

// Over a shared store a write without a token has a grant like any other, or
// is not sent (R5).
func TestSharedUnordered(t *testing.T) {
	inFleetTime(t, func(r *rig, f *fleet) {
		u := r.bare("u").mustBeSent()
		if len(f.asked) != 1 || !slices.Equal(f.asked[0], []tokenstore.Mark{{Key: "k", Unordered: true}}) || u.ticket.Lost() != f.last.lost {
			t.Fatalf("asked for %+v", f.asked)
		}
		f.last.over.Store(true)
		if u.ticket.MaySend() {
			t.Error("it may be sent, and its session is over")
		}
		u.answer()
		if f.last.released.Load() != 1 {
			t.Error("its grant is kept")
		}
		f.kept = &lease{lost: make(chan struct{})}
		u2 := r.bare("u2").mustBeSent()
		if len(f.asked) != 1 || u2.ticket.Waited() != (Waited{}) {
			t.Errorf("what is held costs I/O: %+v", f.asked)
		}
		u2.answer()
		f.kept = nil
		f.disk.break_(tokenstore.ErrUnavailable)
		r.bare("u3").mustFail(tokenstore.ErrUnavailable)
		f.disk.break_(nil)
		// A key without a token beside one with: one step of the store.
		w := r.startOn("w", time.Hour, on("a", 1), Claim{Key: "b", Unordered: true}).mustWait()
		if marks := f.asked[len(f.asked)-1]; len(marks) != 2 {
			t.Errorf("asked for %+v", marks)
		}
		close(f.last.drained)
		synctest.Wait()
		w.mustBeSent().answer()
	})
}

// A write at another proxy that waits for those here hurries them, and what is
// only looked on with a lower token; a raise that waits for nobody does not.
func TestSharedHurry(t *testing.T) {
	inFleetTime(t, func(r *rig, f *fleet) {
		var seen Seen
		u := r.bare("u").mustBeSent()
		o2 := r.observe("o2", &seen, on("k", 2)).mustBeSent()
		f.disk.raised <- tokenstore.Mark{Key: "k", Token: tok(3)}
		synctest.Wait()
		if u.overtaken() || o2.overtaken() {
			t.Error("they are cut, and nobody waits for them")
		}
		f.disk.raised <- tokenstore.Mark{Key: "k", Token: tok(2), Unordered: true}
		synctest.Wait()
		if !u.overtaken() || o2.overtaken() {
			t.Error("it is not told that somebody waits for it, or one is that nobody waits for")
		}
		f.disk.raised <- tokenstore.Mark{Key: "k", Token: tok(3), Unordered: true}
		synctest.Wait()
		if !o2.overtaken() {
			t.Error("what is only looked on is not told that somebody waits for it")
		}
		u.answer()
		o2.answer()
	})
}

// A write that waits in the store, for other proxies and for older writes of
// this one, has told those of this one.
func TestSharedRaiseHurriesOwn(t *testing.T) {
	inFleetTime(t, func(r *rig, f *fleet) {
		var seen Seen
		u := r.bare("u").mustBeSent()
		o1 := r.observe("o1", &seen, on("k", 1)).mustBeSent()
		o2 := r.observe("o2", &seen, on("k", 2)).mustBeSent()
		if u.overtaken() || o1.overtaken() {
			t.Error("what is only looked on hurries others")
		}
		w2 := r.start("w2", 2).mustWait()
		if !u.overtaken() || !o1.overtaken() || o2.overtaken() {
			t.Error("w2 waits for them, and they are not told; or one that it does not wait for is")
		}
		for _, w := range []*write{u, o1, o2} {
			w.answer()
		}
		close(f.last.drained)
		synctest.Wait()
		w2.mustBeSent().answer()
	})
}

// Who waits by an entry in the store can be told of before the write of that
// entry is registered: it is hurried when it is.
func TestSharedHurriedEarly(t *testing.T) {
	inFleetTime(t, func(r *rig, f *fleet) {
		f.found = true
		u := r.bare("u").mustBeSent()
		var seen Seen
		o1 := r.observe("o1", &seen, on("k", 1)).mustBeSent()
		if !u.overtaken() || !o1.overtaken() {
			t.Error("somebody has waited since before they were registered, and they are not told")
		}
		f.found = false
		later := r.bare("later").mustBeSent()
		if later.overtaken() {
			t.Error("what nobody waits for is hurried")
		}
		for _, w := range []*write{u, o1, later} {
			w.answer()
		}
	})
}

// A write of this proxy whose entry is there before that of a raise here may
// register behind the raise's place: the raise waits for it all the same.
func TestSharedRaiseHurriesLate(t *testing.T) {
	inFleetTime(t, func(r *rig, f *fleet) {
		release := f.disk.hold(&f.disk.holdSync)
		w := r.start("w", 1).mustWait()
		f.disk.mu.Lock()
		f.disk.holdSync = nil // for those who come
		f.disk.mu.Unlock()
		u := r.bare("u").mustBeSent()
		f.last.hurried.Store(true)
		later := r.bare("later").mustBeSent()
		if u.overtaken() {
			t.Error("it is told before the raise is on record")
		}
		release()
		synctest.Wait()
		if !u.overtaken() || later.overtaken() {
			t.Error("the one that w waits for is not told, or the other one is")
		}
		u.answer()
		later.answer()
		close(f.last.drained)
		synctest.Wait()
		w.mustBeSent().answer()
	})
}

// What comes while a write waits for other proxies is not waited for, nor after
// its drain ran out, when it comes again.
func TestSharedUnorderedRetry(t *testing.T) {
	inFleetTime(t, func(r *rig, f *fleet) {
		w := r.startOn("w", time.Minute, on("k", 1)).mustWait()
		u := r.bare("u").mustBeSent()
		after(time.Minute)
		var drain *DrainTimeoutError
		if w.look(); !errors.As(w.err, &drain) {
			t.Fatalf("w: %v", w.err)
		}
		again := r.start("again", 1).mustWait()
		close(f.last.drained)
		synctest.Wait()
		again.mustBeSent().answer()
		u.answer()
	})
}

// What is only looked on is registered in the store as what it was seen to be,
// goes on without it, and is not cut by the end of the session.
func TestSharedObserve(t *testing.T) {
	inFleetTime(t, func(r *rig, f *fleet) {
		var seen Seen
		last := func() []tokenstore.Mark { return f.asked[len(f.asked)-1] }
		o2 := r.observe("o2", &seen, on("k", 2)).mustBeSent()
		if !slices.Equal(last(), []tokenstore.Mark{{Key: "k", Token: tok(2), Observed: true}}) || seen != (Seen{}) {
			t.Errorf("asked for %+v, seen %+v", last(), seen)
		}
		f.last.over.Store(true)
		if !o2.ticket.MaySend() || o2.ticket.Lost() != nil {
			t.Error("the end of the session refuses or cuts it")
		}
		grant := f.last
		o1 := r.observe("o1", &seen, on("k", 1), on("l", 7)).mustBeSent()
		var stale *StaleError
		if !errors.As(seen.Refusal, &stale) || !slices.Equal(last(), []tokenstore.Mark{{Key: "k", Unordered: true}, {Key: "l", Unordered: true}}) &&
			!slices.Equal(last(), []tokenstore.Mark{{Key: "l", Unordered: true}, {Key: "k", Unordered: true}}) {
			t.Errorf("asked for %+v, seen %+v", last(), seen)
		}
		if _, ok := f.disk.records["l"]; ok {
			t.Error("a refused write has raised its other key")
		}
		o2.answer()
		o1.answer()
		if grant.released.Load() != 1 || f.last.released.Load() != 1 {
			t.Error("a grant is kept")
		}
		asked := len(f.asked)
		u := r.observe("unknown", &seen, Claim{Unordered: true}).mustBeSent()
		read := r.arrive("read", func(ctx context.Context, w *write) (err error) {
			seen, err = w.gate.Observe(ctx, Request{Claims: []Claim{on("k", 1)}, DrainTimeout: time.Hour, Settle: settle, Read: true}, &w.ticket)
			return err
		}, nil)
		if len(f.asked) != asked || !errors.As(seen.Refusal, &stale) || read.err != nil {
			t.Errorf("asked for %+v, where there is nothing to wait for; seen %+v", f.asked[asked:], seen)
		}
		u.answer()
		f.disk.break_(tokenstore.ErrUnavailable)
		o3 := r.observe("o3", &seen, on("k", 3)).mustBeSent()
		if !errors.Is(seen.Refusal, tokenstore.ErrUnavailable) {
			t.Errorf("seen %+v", seen)
		}
		o1 = r.observe("o1 again", &seen, on("k", 1)).mustBeSent()
		if !errors.As(seen.Refusal, &stale) {
			t.Errorf("seen %+v", seen)
		}
		f.disk.break_(nil)
		w3 := r.start("w3", 3).mustWait()
		close(f.last.drained)
		synctest.Wait()
		w3.mustWait() // for both, which are known here at least
		o3.answer()
		o1.answer()
		w3.mustBeSent().answer()
	})
}
