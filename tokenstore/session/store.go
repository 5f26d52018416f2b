package session

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Store is the shared store as one proxy sees it. It is safe for concurrent
// use.
type Store struct {
	backend Backend
	opts    Options
	log     *zap.Logger
	changed []string

	table table
	life  atomic.Pointer[life] // the newest session
	nonce atomic.Uint64        // of the last entry, of any session
	now   atomic.Int64         // the clock, no older than a sweep: to measure idleness
	own   owned

	waits    waits    // the holds that wait for older entries
	look     looks    // keys to look at beside theirs
	removals removals // entries to delete
	news     news     // raises to tell the gate
	leases   leases   // what is known of the counter, and whose lease has changed
	seen     observed // sessions that are gone

	ctx    context.Context // ends when the store is closed
	cancel context.CancelCauseFunc
	mu     sync.Mutex // guards closed, and the adding to done
	closed bool
	done   sync.WaitGroup // everything that runs behind the callers
	ended  chan struct{}  // closed when the first Close has ended
}

var (
	_ tokenstore.Store      = (*Store)(nil)
	_ tokenstore.Keeper     = (*Store)(nil)
	_ tokenstore.Rememberer = (*Store)(nil)
)

// Open begins a session in the store of a backend, which it closes in the
// end, also where it fails. Its errors are *tokenstore.ChangedRulesError,
// *tokenstore.EpochError, *OthersError, what is wrong with the options, or the
// backend's.
func Open(ctx context.Context, backend Backend, o Options) (*Store, error) {
	s, err := open(ctx, backend, o)
	if err != nil {
		return nil, errors.Join(err, backend.Close())
	}
	return s, nil
}

func open(ctx context.Context, backend Backend, o Options) (*Store, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	s := &Store{backend: backend, opts: o, log: o.Logger, ended: make(chan struct{})}
	s.now.Store(int64(o.Clock()))
	s.table.init()
	s.waits.init()
	s.look.init()
	s.removals.init()
	s.news.init()
	s.leases.init()
	s.seen.at = map[ID]time.Duration{}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	l, err := s.beginFirst(ctx)
	if err != nil {
		s.cancel(err)
		return nil, err
	}
	s.done.Go(func() { s.keep(l) })
	s.done.Go(s.follow)
	s.done.Go(s.tell)
	s.done.Go(s.tellLeases)
	s.done.Go(s.poll)
	s.done.Go(s.sweep)
	s.done.Go(s.remove)
	return s, nil
}

// current returns the session in which a write may be admitted now.
func (s *Store) current() (*life, error) {
	l := s.life.Load()
	if l.over() {
		return nil, tokenstore.Unavailable(context.Cause(l.ctx))
	}
	return l, nil
}

// call runs one call of the backend, for OpTimeout at the longest.
func (s *Store) call(ctx context.Context, op Op, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.OpTimeout)
	defer cancel()
	began := time.Now()
	err := do(ctx)
	if s.opts.Observe.Op != nil {
		s.opts.Observe.Op(op, time.Since(began), err)
	}
	return err
}

// start runs f behind the callers, unless the store is closed.
func (s *Store) start(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.done.Go(f)
	return true
}

// Load implements tokenstore.Store.
func (s *Store) Load(ctx context.Context, key tokenstore.Key) (rec tokenstore.Record, ok bool, err error) {
	if s.ctx.Err() != nil {
		return tokenstore.Record{}, false, tokenstore.Unavailable(errClosed)
	}
	err = s.call(ctx, OpLoad, func(ctx context.Context) (err error) {
		rec, ok, err = s.backend.Load(ctx, key)
		return err
	})
	if err != nil && !errors.Is(err, tokenstore.ErrUnavailable) {
		err = tokenstore.Unavailable(err)
	}
	return rec, ok, err
}

// Clear implements tokenstore.Store. It does nothing: what is over at the
// other proxies is not known here, and their open entries tell it better.
func (s *Store) Clear(tokenstore.Key, tokenstore.Token) {}

// Recovered implements tokenstore.Store. The entries of the session before are
// its quarantine.
func (s *Store) Recovered() bool { return false }

// Raised implements tokenstore.Store. It tells of every raise that overtakes a
// grant of this proxy, and of others that are heard of.
func (s *Store) Raised() <-chan tokenstore.Mark { return s.news.out }

// Changed returns the rules whose keys are made otherwise than before, as was
// accepted.
func (s *Store) Changed() []string { return s.changed }

// Remaining is for how long writes may still be sent if the store does not
// answer; 0 while there is no session.
func (s *Store) Remaining() time.Duration {
	l := s.life.Load()
	if l.over() {
		return 0
	}
	return max(0, time.Duration(l.deadline.Load())-s.opts.Clock())
}

// Grants is how many entries this proxy holds in the store.
func (s *Store) Grants() (n int) {
	for i := range s.table.shard {
		sh := &s.table.shard[i]
		sh.mu.Lock()
		n += sh.held
		sh.mu.Unlock()
	}
	return n
}

// Waiting is how many of them wait for older ones now.
func (s *Store) Waiting() int { return s.waits.len() }

// Close implements tokenstore.Store. Where nothing is in use its entries are
// removed and the session is ended, so that nobody waits for it; otherwise it
// runs out, and its entries keep newer writes back for the linger time (R9).
func (s *Store) Close(clean bool) error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	if !first {
		<-s.ended
		return nil
	}
	defer close(s.ended)
	s.cancel(errClosed) // and with it the session, before anybody could begin a new one
	s.done.Wait()
	close(s.news.out)
	close(s.leases.out)
	for _, id := range s.own.all() {
		s.retireAll(id)
	}
	s.farewell(clean)
	return s.backend.Close()
}

// farewell removes what nothing uses, for as long as a session lives: after
// that the others would do it.
func (s *Store) farewell(clean bool) {
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.OpTimeout)
	defer cancel()
	for {
		batch, _ := s.removals.take()
		if len(batch) == 0 {
			break
		}
		if err := s.delete(ctx, batch); err != nil {
			s.log.Warn("entries stay in the store at the end: newer writes on their keys wait for the session to run out, and for linger", zap.Error(err))
			return
		}
	}
	if !clean || s.Grants() > 0 {
		return
	}
	for _, id := range s.own.all() {
		s.forget(ctx, id)
	}
}
