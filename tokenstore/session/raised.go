package session

import (
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// heardOf is raisedElsewhere for what the backend tells by itself: an entry of
// an unknown acquire may be in the way of that raise (R8).
func (s *Store) heardOf(m tokenstore.Mark) (known bool) {
	if s.life.Load().doubted(m.Key) {
		s.look.add(m.Key)
	}
	return s.raisedElsewhere(m)
}

// raisedElsewhere takes over that m.Token is on record, and tells the gate
// where that is news. It reports whether a hold knows of an entry below it.
func (s *Store) raisedElsewhere(m tokenstore.Mark) (known bool) {
	sh := s.table.of(m.Key)
	sh.mu.Lock()
	news := true
	if sl := sh.slots[m.Key]; sl != nil {
		for h := sl.holds; h != nil && !known; h = h.next {
			known = h.entry.Below(m.Token)
		}
		news = s.raised(sl, m.Token)
	}
	sh.mu.Unlock()
	if news {
		s.news.add(m)
	}
	return known
}

// sink takes what the backend hears.
type sink struct{ s *Store }

var _ Sink = sink{}

func (k sink) Raised(m tokenstore.Mark) {
	k.s.heardOf(m)
	k.s.foundOn(m.Key, false)
}

func (k sink) Gone(e Entry) { k.s.goneElsewhere(&e) }

// Changed looks only at keys that this proxy has something to do with.
func (k sink) Changed(key tokenstore.Key) {
	sh := k.s.table.of(key)
	sh.mu.Lock()
	sl := sh.slots[key]
	known := sl != nil
	if known {
		sl.noteEarly()
	}
	sh.mu.Unlock()
	if known || k.s.life.Load().doubted(key) {
		k.s.look.add(key)
	}
}

var _ ListenSink = sink{}

// Listening makes everybody look who waits, rather than wait for a poll.
func (k sink) Listening() {
	for h := range k.s.waits.all() {
		k.s.look.add(h.entry.Key)
	}
	k.Leased("")
}

// goneElsewhere takes over that an entry is not in the store any more. It does
// not end the wait for one of this proxy's own: that is over when its writes
// are, whoever removes it.
func (s *Store) goneElsewhere(e *Entry) {
	sh := s.table.of(e.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sl := sh.slots[e.Key]; sl != nil && sl.find(e.id()) == nil {
		sl.noteEarly()
		s.gone(sl, e.id())
	}
}

// follow listens to what the backend hears. Nothing depends on it but speed.
func (s *Store) follow() {
	for s.ctx.Err() == nil {
		err := s.backend.Watch(s.ctx, sink{s})
		if s.ctx.Err() == nil {
			s.log.Warn("the store's notifications were cut off; raises are found by polling until they are back", zap.Error(err))
			sleep(s.ctx, time.Second)
		}
	}
}

// news are the raises that the gate is to be told of, the highest of each key,
// and of those who wait.
type news struct {
	out  chan tokenstore.Mark
	kick chan struct{} // capacity 1

	mu    sync.Mutex // guards what follows; taken last
	marks map[tokenstore.Key]tokenstore.Mark
	calls []tokenstore.Mark // that somebody waits: see Store.hurry
}

func (n *news) init() {
	n.out, n.kick = make(chan tokenstore.Mark), make(chan struct{}, 1)
	n.marks = map[tokenstore.Key]tokenstore.Mark{}
}

func (n *news) add(m tokenstore.Mark) {
	n.mu.Lock()
	if old, ok := n.marks[m.Key]; !ok || old.Token.Less(m.Token) {
		n.marks[m.Key] = m
	}
	n.mu.Unlock()
	kick(n.kick)
}

// hurry adds that a write with token t waits for those that are unordered or
// only looked on.
func (n *news) hurry(key tokenstore.Key, t tokenstore.Token) {
	n.mu.Lock()
	n.calls = append(n.calls, tokenstore.Mark{Key: key, Token: t, Unordered: true})
	n.mu.Unlock()
	kick(n.kick)
}

func (n *news) take() []tokenstore.Mark {
	n.mu.Lock()
	defer n.mu.Unlock()
	marks := slices.AppendSeq(n.calls, maps.Values(n.marks))
	n.marks, n.calls = map[tokenstore.Key]tokenstore.Mark{}, nil
	return marks
}

// tell passes the raises on to the gate. Hearing never waits for the gate.
func (s *Store) tell() {
	for {
		select {
		case <-s.news.kick:
		case <-s.ctx.Done():
			return
		}
		for _, m := range s.news.take() {
			m.Clear = false
			select {
			case s.news.out <- m:
			case <-s.ctx.Done():
				return
			}
		}
	}
}

// kick wakes the one who listens, if it is not awake.
func kick(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
