package proxy

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/route"
	"github.com/fenceproxy/fenceproxy/proxy/upstream"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Rulebook is what a reload replaces as a whole: the rules, and how requests
// are passed on.
type Rulebook struct {
	Table    *route.Table
	Rules    []Rule // in the Table's order
	Upstream *upstream.Upstream

	ForwardUnmatched bool          // pass writes that no rule covers
	ResponseTimeout  time.Duration // of requests that no rule covers
	Settle           time.Duration // the same: how long a write that was lost from sight may still be applied

	MaxBodyBuffer int64 // bytes of a body that are read before admission
	MaxBuffered   int64 // the same of all requests together
	AccessLog     bool

	// FencesOtherwise says that it may fence writes that the one before did not,
	// or on other keys: see AwaitOlder.
	FencesOtherwise bool
}

// book is a Rulebook in force, or one that was and under which writes are
// still on their way.
//
// A fenced write is known to the gate, by its keys. One that no fence touched
// is not, and a later rulebook may fence it: so each book counts the writes
// under it until they are over, those that were lost from sight until their
// settle time is.
type book struct {
	Rulebook
	stray    *Rule                     // see strayRule
	suspects func(tokenstore.Key) bool // see Suspects

	writes atomic.Int64  // that are not over, and 1 while the book is in force
	once   sync.Once     // for over
	over   chan struct{} // closed when the last write is over behind the switch

	// hurried ends when a write waits for those under this book, and they are
	// to be cut, as a raise cuts older uploads: or a client could keep every
	// fenced write out for ever (L1, L2). That holds of fenced ones too, of which
	// nobody knows whether they are of the same resource.
	hurried context.Context
	hurry   context.CancelFunc

	shut   bool // no write passes unfenced any more: see AwaitUnfenced
	number int  // counts the switches
	last   int  // the number of the last one that fences otherwise than the one before it
}

// books are the one in force and those before it whose writes are not over.
type books struct {
	current atomic.Pointer[book]

	mu     sync.Mutex // held to change former; taken last
	former atomic.Pointer[[]*book]
}

func newBook(r Rulebook) *book {
	b := &book{Rulebook: r, stray: strayRule(&r), suspects: Suspects(r.Table, r.Rules), over: make(chan struct{})}
	b.hurried, b.hurry = context.WithCancel(context.Background())
	b.writes.Store(1)
	return b
}

// open returns the book in force, which the request now counts under. The
// second look is for a switch in between: it may already have found that
// nothing is under way.
func (bs *books) open() *book {
	for {
		b := bs.current.Load()
		b.writes.Add(1)
		if bs.current.Load() == b {
			return b
		}
		b.leave()
	}
}

// leave takes one write off.
func (b *book) leave() {
	if b.writes.Add(-1) == 0 {
		b.once.Do(func() { close(b.over) })
	}
}

// Switch puts r into force: for every request that comes from now on. Those
// under way go on under the rules by which they came in. One call at a time.
func (h *Handler) Switch(r Rulebook) {
	next, last := newBook(r), h.books.current.Load()
	next.number, next.last = last.number+1, last.last
	if r.FencesOtherwise {
		next.last = next.number
	}
	h.books.change(func(former []*book) []*book { return append(former, last) })
	h.books.current.Store(next) // behind it: who is under next must find last
	last.leave()
	go func() {
		<-last.over
		h.books.change(func(former []*book) []*book {
			return slices.DeleteFunc(former, func(b *book) bool { return b == last })
		})
		if last.Upstream != r.Upstream {
			last.Upstream.Close()
		}
	}()
}

// AwaitOlder waits until the writes are over that came in before a rulebook which
// fences otherwise. The gate does not know all of them, and a stop that does not
// wait for them is not clean: the next start would let a write pass that has to
// wait for them here. They should have been made to end before.
func (h *Handler) AwaitOlder(ctx context.Context) error {
	return await(ctx, h.older(func(*book) bool { return true }))
}

// HasOlder reports whether AwaitOlder would have to wait.
func (h *Handler) HasOlder() bool {
	return len(h.older(func(*book) bool { return true })) > 0
}

// DrainOlder waits for what a write of the rule would wait for here, for those
// who raise a token of key without one: a grant, or an operator. A rule that
// observes cuts nobody for the sake of writes whose keys nobody knows.
func (h *Handler) DrainOlder(ctx context.Context, rule string, key tokenstore.Key, patience time.Duration) error {
	observes := !h.books.current.Load().enforces(rule)
	older := h.older(func(b *book) bool { return observes || b.enforces(rule) })
	_, err := h.drain(ctx, older, patience, nil)
	if errors.Is(err, errOlderRules) {
		return &gate.DrainTimeoutError{Key: key}
	}
	return err
}

// older are the books under which writes may still be on their way that the
// gate cannot know of: all that fence otherwise than the one in force, and of
// the rest those that are not known to fence as it does.
func (h *Handler) older(known func(*book) bool) (older []*book) {
	last := h.books.current.Load().last // before former: who sees a switch finds what was in force
	former := h.books.former.Load()
	if former == nil {
		return nil // there was no reload
	}
	for _, b := range *former {
		if !isClosed(b.over) && (b.number < last || !known(b)) {
			older = append(older, b)
		}
	}
	return older
}

// enforces reports whether the book had the rule, enforced. One that observes
// lets writes pass whose keys nobody knows.
func (b *book) enforces(rule string) bool {
	return slices.ContainsFunc(b.Rules, func(r Rule) bool { return r.Name == rule && r.Fenced && !r.Observe })
}

// change replaces the list of former books.
func (bs *books) change(f func([]*book) []*book) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	var former []*book
	if now := bs.former.Load(); now != nil {
		former = slices.Clone(*now)
	}
	former = f(former)
	bs.former.Store(&former)
}

// errOlderRules ends the wait for writes that came in before a reload.
var errOlderRules = errors.New("writes that came in under the rules of before a reload, which fenced them otherwise, are not over yet")

// awaitOlder waits until the writes are over that came under rules of before a
// switch and that the gate cannot know: the request is fenced now, and was not
// then, or on other keys. It returns how much of drain_timeout is left for the
// gate.
func (x *exchange) awaitOlder() (left time.Duration, err error) {
	if x.tokenless() {
		return x.rule.DrainTimeout, nil // older than every token: it waits for nothing
	}
	return x.h.drain(x.r.Context(), x.older(), x.rule.DrainTimeout, x.watchClient)
}

// drain waits until the writes under older books are over. What a client holds
// up of them is cut after half of patience.
func (h *Handler) drain(ctx context.Context, older []*book, patience time.Duration, watch func(context.Context) (_ context.Context, stop func())) (left time.Duration, err error) {
	if len(older) == 0 {
		return patience, nil
	}
	done, err := h.Gate.Wait()
	if err != nil {
		return 0, err
	}
	defer done()
	if watch != nil {
		var stop func()
		ctx, stop = watch(ctx)
		defer stop()
	}
	start := time.Now()
	half := time.NewTimer(patience / 2)
	defer half.Stop()
	end := time.NewTimer(patience)
	defer end.Stop()
	for len(older) > 0 {
		select {
		case <-older[0].over:
			older = older[1:]
		case <-half.C:
			for _, b := range older {
				b.hurry()
			}
		case <-end.C:
			return 0, errOlderRules
		case <-ctx.Done():
			return 0, gate.ErrLeft
		case <-h.Gate.Stopped():
			return 0, gate.ErrStopping
		}
	}
	if left = patience - time.Since(start); left <= 0 {
		return 0, errOlderRules
	}
	return left, nil
}

// older are the books under which writes may still be on their way that the
// gate cannot know of.
func (x *exchange) older() (older []*book) {
	former := x.h.books.former.Load()
	if former == nil {
		return nil // there was no reload
	}
	for _, b := range *former {
		if b.number < x.book.number && !isClosed(b.over) && !b.fences(x) {
			older = append(older, b)
		}
	}
	return older
}

// fences reports whether the book gave the request the rule that it has now,
// enforced: then it had the same keys, since a switch changes none, and the gate
// knows the writes on them. A rule that observes lets writes pass whose keys
// nobody knows.
func (b *book) fences(x *exchange) bool {
	m, err := b.Table.Match(x.r)
	if err != nil || m.Rule < 0 {
		return false
	}
	r := &b.Rules[m.Rule]
	return r.Name == x.rule.Name && r.Fenced && !r.Observe
}

// leaveBook ends the request's part in its book, once: at once where the write
// is over or was never sent.
func (x *exchange) leaveBook(lost bool) {
	if x.book == nil || x.out {
		return
	}
	x.out = true
	if x.uncut != nil {
		x.uncut() // only its client still reads
	}
	switch {
	case lost && x.holds: // an operator may end its settle time
		x.ticket.Behind(x.book.leave)
	case lost:
		time.AfterFunc(x.settleTime(), x.book.leave)
	default:
		x.book.leave()
	}
}

// settleTime is how long the request may still be applied after sight of it
// was lost.
func (x *exchange) settleTime() time.Duration {
	if x.rule != nil && x.rule.Settle > 0 {
		return x.rule.Settle
	}
	return x.book.Settle
}

// unknown reports whether the gate does not know the request, and it may write.
func (x *exchange) unknown() bool { return !x.holds && !x.out }

// errRulesChanged refuses a request whose body comes too slowly.
var errRulesChanged = errors.New("the rules were changed while the body was still coming, and a write waits for what came before that")

// hurries lets a fenced write that its client may hold up be cut, like
// cutAnswer.
func (x *exchange) hurries() {
	if x.uncut == nil {
		x.uncut = context.AfterFunc(x.book.hurried, x.ticket.Hurry)
	}
}

// cutAnswer ends the answer of a write that the gate does not know, and its
// writing to the client, when a write under a later rulebook has waited for long
// enough. The answer's head is waited for: that is the upstream's business, and
// bounded.
func (x *exchange) cutAnswer(cancel context.CancelFunc) {
	rc := http.NewResponseController(x.w)
	x.uncut = x.book.whenHurried(func() {
		cancel()
		_ = rc.SetWriteDeadline(past)
	})
}

// whenHurried calls f once the book is hurried, unless stop is called before;
// stop waits where it is being called: behind the handler's end there is nothing
// whose deadline could be set, and net/http would panic.
func (b *book) whenHurried(f func()) (stop func() bool) {
	over := make(chan struct{})
	forget := context.AfterFunc(b.hurried, func() {
		defer close(over)
		f()
	})
	return sync.OnceValue(func() bool {
		if forget() {
			return true
		}
		<-over
		return false
	})
}
