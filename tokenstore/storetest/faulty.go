package storetest

import (
	"context"
	"fmt"
	"sync"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Faulty is a store that wraps another one and fails on command. Without a
// command it does what the inner store does. It waits on channels alone, so
// that it can be used in a testing/synctest bubble, where it must also be
// made. All methods are safe for concurrent use.
type Faulty struct {
	inner  tokenstore.Store
	shared bool
	raised chan tokenstore.Mark // nil unless shared

	mu        sync.Mutex // guards what follows
	failWith  error      // Acquire and Load fail before the inner store is asked
	loseWith  error      // Acquire fails after the inner store has recorded
	damaged   map[tokenstore.Key]bool
	before    *hold // Acquire waits here before the inner store is asked
	after     *hold // Acquire waits here before it answers
	loads     *hold // Load waits here
	drains    *hold // Grant.Drained waits here (shared only)
	late      bool  // what was given up in before is recorded on its release
	noSend    bool  // MaySend is false (shared only)
	recovered *bool
	live      map[*faultyGrant]struct{} // grants neither released nor lost
	counts    Counts
}

// Counts says what was asked of a Faulty.
type Counts struct {
	Loads, Acquires, Clears int
	// Live is the number of grants that are neither released nor lost.
	Live int
	// Waiting is the number of calls that are held at this moment.
	Waiting int
}

var _ tokenstore.Store = (*Faulty)(nil)

// NewFaulty wraps inner. The result is the store of one proxy, as inner is.
func NewFaulty(inner tokenstore.Store) *Faulty {
	return &Faulty{inner: inner, damaged: map[tokenstore.Key]bool{}, live: map[*faultyGrant]struct{}{}}
}

// NewShared wraps inner and pretends that other proxies use it too: Raised is
// fed by RaiseElsewhere, and grants can be held, refused and lost.
func NewShared(inner tokenstore.Store) *Faulty {
	f := NewFaulty(inner)
	f.shared = true
	f.raised = make(chan tokenstore.Mark)
	return f
}

// Keys is that of the inner store, and 0 where that does not count.
func (f *Faulty) Keys() int64 {
	if c, ok := f.inner.(tokenstore.Counter); ok {
		return c.Keys()
	}
	return 0
}

// Fail makes every later Load and Acquire fail, with nothing recorded, by an
// error that wraps ErrUnavailable and err. Fail(nil) ends it.
func (f *Faulty) Fail(err error) { f.set(func() { f.failWith = err }) }

// LoseAnswers makes every later Acquire that the inner store has recorded
// fail all the same, by an error that wraps ErrUnavailable and err: the result
// is unknown to the caller. LoseAnswers(nil) ends it.
func (f *Faulty) LoseAnswers(err error) { f.set(func() { f.loseWith = err }) }

// Damage makes Load and Acquire of key fail with a *DamagedError.
func (f *Faulty) Damage(key tokenstore.Key) { f.set(func() { f.damaged[key] = true }) }

// SetRecovered makes Recovered answer v, whatever the inner store says.
func (f *Faulty) SetRecovered(v bool) { f.set(func() { f.recovered = &v }) }

// RefuseSend makes MaySend of every grant false, or as it was before. Grants
// of a store of one proxy are never refused.
func (f *Faulty) RefuseSend(on bool) { f.set(func() { f.noSend = on }) }

// CommitLate says what becomes of an Acquire that is held by HoldAcquire and
// whose caller gives up: nothing, or (on) it is recorded when the hold is
// released, unknown to anybody.
func (f *Faulty) CommitLate(on bool) { f.set(func() { f.late = on }) }

// HoldAcquire delays every later Acquire, before anything is recorded, until
// release is called or its context ends. release may be called twice.
func (f *Faulty) HoldAcquire() (release func()) { return f.hold(&f.before) }

// HoldAnswer delays the answer of every later Acquire, after everything is
// recorded, until release is called or its context ends.
func (f *Faulty) HoldAnswer() (release func()) { return f.hold(&f.after) }

// HoldLoad delays every later Load until release is called or its context
// ends.
func (f *Faulty) HoldLoad() (release func()) { return f.hold(&f.loads) }

// HoldDrain makes Drained of every grant of a shared store wait until release
// is called or its context ends.
func (f *Faulty) HoldDrain() (release func()) { return f.hold(&f.drains) }

// LoseGrants ends every live grant of a shared store: its Lost is closed and
// MaySend is false from now on.
func (f *Faulty) LoseGrants() {
	f.set(func() {
		for g := range f.live {
			close(g.lost)
			delete(f.live, g)
		}
	})
}

// RaiseElsewhere records marks in the inner store as another proxy would, and
// then tells of each on Raised, waiting until it is received.
func (f *Faulty) RaiseElsewhere(ctx context.Context, marks ...tokenstore.Mark) error {
	if !f.shared {
		return fmt.Errorf("a store of one proxy hears of no other: use NewShared")
	}
	grant, err := f.inner.Acquire(ctx, marks)
	if err != nil {
		return err
	}
	defer grant.Release()
	for _, m := range marks {
		select {
		case f.raised <- m:
		case <-ctx.Done():
			return fmt.Errorf("nobody receives from Raised: %w", context.Cause(ctx))
		}
	}
	return nil
}

// Counts returns what was asked so far.
func (f *Faulty) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.counts
	c.Live = len(f.live)
	return c
}

// Load implements tokenstore.Store.
func (f *Faulty) Load(ctx context.Context, key tokenstore.Key) (tokenstore.Record, bool, error) {
	f.set(func() { f.counts.Loads++ })
	if err := f.wait(ctx, &f.loads, nil); err != nil {
		return tokenstore.Record{}, false, err
	}
	if err := f.refusal(key); err != nil {
		return tokenstore.Record{}, false, err
	}
	return f.inner.Load(ctx, key)
}

// Acquire implements tokenstore.Store.
func (f *Faulty) Acquire(ctx context.Context, marks []tokenstore.Mark) (tokenstore.Grant, error) {
	f.set(func() { f.counts.Acquires++ })
	if err := f.wait(ctx, &f.before, marks); err != nil {
		return nil, err
	}
	for _, m := range marks {
		if err := f.refusal(m.Key); err != nil {
			return nil, err
		}
	}
	grant, err := f.inner.Acquire(ctx, marks)
	if err != nil {
		return nil, err
	}
	err = f.wait(ctx, &f.after, nil)
	if err == nil {
		f.mu.Lock()
		err = tokenstore.Unavailable(f.loseWith)
		f.mu.Unlock()
	}
	if err != nil {
		grant.Release()
		return nil, fmt.Errorf("the answer was lost: %w", err)
	}
	return f.wrap(grant, marks), nil
}

// Clear implements tokenstore.Store.
func (f *Faulty) Clear(key tokenstore.Key, token tokenstore.Token) {
	f.set(func() { f.counts.Clears++ })
	f.inner.Clear(key, token)
}

// Recovered implements tokenstore.Store.
func (f *Faulty) Recovered() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.recovered != nil {
		return *f.recovered
	}
	return f.inner.Recovered()
}

// Raised implements tokenstore.Store. It is nil unless the store is shared.
func (f *Faulty) Raised() <-chan tokenstore.Mark { return f.raised }

// Close implements tokenstore.Store.
func (f *Faulty) Close(clean bool) error { return f.inner.Close(clean) }

// set changes the commands under their lock.
func (f *Faulty) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// refusal is the error that the commands in force have for key.
func (f *Faulty) refusal(key tokenstore.Key) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.damaged[key] {
		return &tokenstore.DamagedError{Key: key, Why: "a test said so"}
	}
	return tokenstore.Unavailable(f.failWith)
}

// Remember passes on to the store that fails, which must be a Rememberer.
func (f *Faulty) Remember(ctx context.Context, c tokenstore.Configuration) error {
	return f.inner.(tokenstore.Rememberer).Remember(ctx, c)
}
