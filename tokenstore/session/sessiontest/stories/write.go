package stories

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// key is the one of the stories; X8 has more.
const key tokenstore.Key = "k"

// write is one write at one proxy.
type write struct {
	p     *proxy
	name  string
	mark  tokenstore.Mark
	asked chan struct{} // closed when grant and err are set
	grant tokenstore.Grant
	err   error

	over chan struct{} // closed by answered: its answer has come
	lost chan struct{} // closed when sight of it was lost
}

// ask begins a write.
func (p *proxy) ask(token uint64) *write { return p.askOn(key, token) }

func (p *proxy) askOn(k tokenstore.Key, token uint64) *write {
	w := &write{p: p, name: fmt.Sprintf("w%d at %s on %s", token, p.name, k), mark: tokenstore.Mark{Key: k, Token: tokenstore.Token{Major: token}},
		asked: make(chan struct{}), over: make(chan struct{}), lost: make(chan struct{})}
	ctx, cancel := context.WithTimeout(context.Background(), 2*soon)
	go func() {
		defer close(w.asked)
		defer cancel()
		g, err := p.store.Acquire(ctx, []tokenstore.Mark{w.mark})
		if err == nil {
			if err = g.Drained(ctx); err != nil {
				g.Release()
			}
		}
		w.grant, w.err = g, err
	}()
	return w
}

// waits wants the write to wait for older ones.
func (w *write) waits() *write {
	w.p.r.Helper()
	done := func() bool {
		select {
		case <-w.asked:
			return true
		default:
			return false
		}
	}
	w.p.r.eventually(w.name+" waits", func() bool { return done() || w.p.store.Waiting() > 0 })
	if done() {
		w.p.r.Fatalf("%s does not wait for what is older: %v", w.name, w.err)
	}
	return w
}

// admitted wants it to be admitted.
func (w *write) admitted() *write {
	w.p.r.Helper()
	select {
	case <-w.asked:
	case <-time.After(soon):
		w.p.r.Fatalf("%s still waits after %v", w.name, soon)
	}
	if w.err != nil {
		w.p.r.Fatalf("%s is not admitted: %v", w.name, w.err)
	}
	return w
}

// fails wants it to fail, and nobody to know whether it is recorded.
func (w *write) fails() {
	w.p.r.Helper()
	<-w.asked
	if !errors.Is(w.err, tokenstore.ErrUnavailable) {
		w.p.r.Fatalf("%s: %v, want that the store is unavailable", w.name, w.err)
	}
}

// send sends the write after the check of R5, and reports whether it did.
func (w *write) send() bool {
	if !w.grant.MaySend() {
		w.grant.Release()
		return false
	}
	w.sendLate()
	return true
}

// sendLate sends without a check, which was made before. From then on the write
// is cut as soon as its grant is lost.
func (w *write) sendLate() {
	w.p.r.up.take(w)
	w.p.r.up.wg.Go(func() {
		select {
		case <-w.over:
		case <-w.p.r.up.ended:
		case <-w.grant.Lost():
			w.p.awake()
			close(w.lost)
			// A1: it is applied within settle, or never. Here late in it: the
			// rest is for a busy machine.
			time.Sleep(settle * 3 / 4)
			w.p.r.up.apply(w)
			time.Sleep(settle / 4)
		}
		w.grant.Release()
	})
}

// wasCut waits until sight of the write is lost.
func (w *write) wasCut() {
	w.p.r.Helper()
	select {
	case <-w.lost:
	case <-time.After(soon):
		w.p.r.Fatalf("%s is not cut within %v", w.name, soon)
	}
}

// answered lets the upstream apply a write that is in sight, and answer.
func (w *write) answered() {
	w.p.r.up.apply(w)
	close(w.over)
}

// upstream applies writes, and complains where their order is wrong.
type upstream struct {
	t     testing.TB
	ended chan struct{} // closed when the test is over
	wg    sync.WaitGroup

	mu   sync.Mutex
	may  map[*write]struct{} // those that it has, and may still apply
	last map[tokenstore.Key]*write
}

func newUpstream(t testing.TB) *upstream {
	u := &upstream{t: t, ended: make(chan struct{}), may: map[*write]struct{}{}, last: map[tokenstore.Key]*write{}}
	t.Cleanup(func() {
		close(u.ended)
		u.wg.Wait()
	})
	return u
}

// take is a write that arrives. Whatever is older has to be over.
func (u *upstream) take(w *write) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for old := range u.may {
		if old.mark.Key == w.mark.Key && old.mark.Token.Less(w.mark.Token) {
			u.t.Errorf("%s is sent, and %s may still be applied", w.name, old.name)
		}
	}
	if last := u.last[w.mark.Key]; last != nil && w.mark.Token.Less(last.mark.Token) {
		u.t.Errorf("%s is sent after %s was applied", w.name, last.name)
	}
	u.may[w] = struct{}{}
}

func (u *upstream) apply(w *write) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if last := u.last[w.mark.Key]; last != nil && w.mark.Token.Less(last.mark.Token) {
		u.t.Errorf("%s is applied after %s", w.name, last.name)
	}
	u.last[w.mark.Key] = w
	delete(u.may, w)
}
