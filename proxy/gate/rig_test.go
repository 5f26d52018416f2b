package gate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

const settle = 30 * time.Second

// disk is a store whose every step the test can hold, fail, or lose in a
// crash.
type disk struct {
	mu        sync.Mutex
	records   map[tokenstore.Key]tokenstore.Record
	marker    bool
	recovered bool
	raised    chan tokenstore.Mark // not nil: other proxies share the store

	holdSync   chan struct{} // Acquire waits for it before it records
	holdAnswer chan struct{} // Acquire waits for it after it has recorded
	holdLoad   chan struct{} // Load waits for it after it has read
	holdForget chan struct{} // Forget waits for it before it has removed
	failForget error         // what Forget answers with when it has removed
	fail       error
	late       bool // what was given up while it was held is recorded all the same
	acquires   int
	crashes    int
	grant      func() tokenstore.Grant
}

func (d *disk) hooks() (sync, answer, load chan struct{}, crashes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.holdSync, d.holdAnswer, d.holdLoad, d.crashes
}

func (d *disk) Load(_ context.Context, k tokenstore.Key) (tokenstore.Record, bool, error) {
	_, _, hold, _ := d.hooks()
	d.mu.Lock()
	rec, ok := d.records[k]
	err := d.fail
	d.mu.Unlock()
	if hold != nil {
		<-hold
	}
	return rec, ok, err
}

func (d *disk) Acquire(ctx context.Context, marks []tokenstore.Mark) (tokenstore.Grant, error) {
	holdSync, holdAnswer, _, life := d.hooks()
	if holdSync != nil {
		select {
		case <-holdSync:
		case <-ctx.Done():
			go func() {
				<-holdSync
				d.mu.Lock()
				defer d.mu.Unlock()
				for _, m := range marks {
					if rec, ok := d.records[m.Key]; d.late && d.crashes == life {
						d.records[m.Key], _, _ = rec.Raise(ok, m, time.Now())
					}
				}
			}()
			return nil, fmt.Errorf("%w: %w", tokenstore.ErrUnavailable, ctx.Err())
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.acquires++
	if d.crashes != life {
		return nil, tokenstore.ErrUnavailable // it was never synced
	}
	if d.fail != nil {
		return nil, d.fail
	}
	for _, m := range marks {
		rec, ok := d.records[m.Key]
		if _, _, err := rec.Raise(ok, m, time.Now()); err != nil {
			return nil, err
		}
	}
	for _, m := range marks {
		rec, ok := d.records[m.Key]
		d.records[m.Key], _, _ = rec.Raise(ok, m, time.Now())
	}
	if holdAnswer != nil {
		d.mu.Unlock()
		<-holdAnswer
		d.mu.Lock()
	}
	if d.grant != nil {
		return d.grant(), nil
	}
	return tokenstore.Sole, nil
}

func (d *disk) Clear(k tokenstore.Key, t tokenstore.Token) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if rec := d.records[k]; rec.Highest == t {
		rec.Clear = true
		d.records[k] = rec
	}
}

func (d *disk) Recovered() bool                { return d.recovered }
func (d *disk) Raised() <-chan tokenstore.Mark { return d.raised }
func (d *disk) Close(clean bool) error         { d.marker = clean; return nil }

func (d *disk) hold(at *chan struct{}) (release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := make(chan struct{})
	*at = c
	return func() {
		d.mu.Lock()
		*at = nil
		d.mu.Unlock()
		close(c)
	}
}

func (d *disk) break_(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = err
}

func (d *disk) record(k tokenstore.Key) tokenstore.Record {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.records[k]
}

// rig is a proxy's gate in front of an upstream that the test plays. Its
// judge is the promise itself: tokens applied to a key never decrease.
type rig struct {
	*testing.T
	disk *disk
	gate *Gate
	opts Options

	last   map[tokenstore.Key]tokenstore.Token // applied
	writes []*write
}

// inTime runs f with virtual time.
func inTime(t *testing.T, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		f(r)
		after(time.Hour) // every timer runs out, every goroutine ends
		for _, w := range r.writes {
			if w.look(); w.sent && w.gate == r.gate {
				w.ticket.Settle()
			}
		}
		after(time.Hour)
		c := r.gate.Counts()
		if c.InFlight != 0 || c.Unsettled != 0 || c.Waiting != 0 {
			t.Errorf("left behind: %+v", c)
		}
		for i := range r.gate.table.shard {
			for k, e := range r.gate.table.shard[i].active {
				if e.refs != 0 || !e.rests || e.registered != nil || len(e.waiters) != 0 || e.placeless != 0 {
					t.Errorf("key %s: left behind: %+v", k, e)
				}
			}
		}
		r.gate.Stop()
	})
}

func newRig(t *testing.T) *rig {
	r := &rig{T: t, disk: &disk{records: map[tokenstore.Key]tokenstore.Record{}},
		opts: Options{Settle: settle}, last: map[tokenstore.Key]tokenstore.Token{}}
	r.boot()
	return r
}

// boot starts the proxy on what the disk has.
func (r *rig) boot() {
	r.Helper()
	g, err := New(r.disk, r.opts)
	if err != nil {
		r.Fatal(err)
	}
	r.gate = g
}

// crash is kill -9 and a restart: what was not synced is lost, what was sent
// goes on at the upstream, and nobody watches it.
func (r *rig) crash() {
	r.Helper()
	r.disk.mu.Lock()
	r.disk.crashes++
	r.disk.recovered = len(r.disk.records) > 0 || r.disk.recovered
	for _, h := range []*chan struct{}{&r.disk.holdSync, &r.disk.holdAnswer, &r.disk.holdLoad, &r.disk.holdForget} {
		if *h != nil {
			close(*h)
			*h = nil
		}
	}
	r.disk.mu.Unlock()
	old := r.gate
	r.boot()
	old.Stop() // only ends the waiting of a process that is gone
	synctest.Wait()
}

// read is startOn for a request that writes nothing.
func (r *rig) read(name string, claims ...Claim) *write {
	r.Helper()
	return r.arrive(name, func(ctx context.Context, w *write) error {
		return w.gate.Enter(ctx, Request{Claims: claims, DrainTimeout: time.Hour, Settle: settle, Read: true}, &w.ticket)
	}, claims)
}

// write is one write and what became of it.
type write struct {
	r      *rig
	gate   *Gate
	name   string
	claims []Claim
	ticket Ticket
	leave  context.CancelFunc
	result chan error

	err    error
	done   bool
	sent   bool // passed the gate of a living process
	landed bool
}

// look takes over how the write fared at the gate since.
func (w *write) look() *write {
	select {
	case w.err = <-w.result:
		w.done = true
		w.sent = w.err == nil && w.gate == w.r.gate
	default:
	}
	return w
}

func (w *write) String() string { return w.name }

func tok(n uint64) tokenstore.Token { return tokenstore.Token{Major: n} }

// start lets a write with token n on key "k" arrive, and waits until it is
// sent, refused, or waits.
func (r *rig) start(name string, n uint64) *write {
	r.Helper()
	return r.startOn(name, time.Hour, Claim{Key: "k", Token: tok(n)})
}

func (r *rig) startOn(name string, patience time.Duration, claims ...Claim) *write {
	r.Helper()
	return r.arrive(name, func(ctx context.Context, w *write) error {
		return w.gate.Enter(ctx, Request{Claims: claims, DrainTimeout: patience, Settle: settle}, &w.ticket)
	}, claims)
}

func (r *rig) arrive(name string, enter func(context.Context, *write) error, claims []Claim) *write {
	r.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &write{r: r, gate: r.gate, name: name, claims: claims, leave: cancel, result: make(chan error, 1)}
	r.writes = append(r.writes, w)
	go func() {
		defer cancel()
		w.result <- enter(ctx, w)
	}()
	synctest.Wait()
	return w.look()
}

// land makes the upstream apply the write, if it was sent.
func (w *write) land() {
	w.r.Helper()
	if w.look(); !w.sent || w.landed {
		return
	}
	w.landed = true
	for _, c := range w.claims {
		if c.Token.Less(w.r.last[c.Key]) {
			w.r.Errorf("%s with token %s landed on %s after token %s", w.name, c.Token, c.Key, w.r.last[c.Key])
		}
		w.r.last[c.Key] = c.Token
	}
}

// answer settles the write: it has landed and its answer was read.
func (w *write) answer() {
	w.r.Helper()
	w.land()
	w.ticket.Settle()
	synctest.Wait()
}

// lose makes the proxy lose sight of the write.
func (w *write) lose() {
	w.ticket.Unsettle("reset")
	synctest.Wait()
}

func (w *write) mustBeSent() *write {
	w.r.Helper()
	if w.look(); !w.sent {
		w.r.Fatalf("%s was not sent: %v", w.name, w.err)
	}
	return w
}

func (w *write) mustWait() *write {
	w.r.Helper()
	if w.look(); w.done {
		w.r.Errorf("%s does not wait: sent %v, %v", w.name, w.sent, w.err)
	}
	return w
}

func (w *write) mustBeStale(overtaken bool) *write {
	w.r.Helper()
	w.look()
	var stale *StaleError
	if !errors.As(w.err, &stale) || stale.Overtaken != overtaken {
		w.r.Errorf("%s: want stale (overtaken %v), got done %v, sent %v, %v", w.name, overtaken, w.done, w.sent, w.err)
	}
	return w
}

func (w *write) mustFail(target error) *write {
	w.r.Helper()
	if w.look(); !errors.Is(w.err, target) {
		w.r.Errorf("%s: want %v, got done %v, %v", w.name, target, w.done, w.err)
	}
	return w
}

// after lets virtual time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
