// Package sessiontest holds the promises of session.Backend as one suite that
// every engine's adapter runs, and an engine in memory for tests of the
// protocol. It is shared by any number of proxies, each by its own Port, at
// which every step can be held, refused, lost, made late or cut off. It knows
// no clock but time.Now and waits on channels and timers alone, so that all of
// it runs in a testing/synctest bubble.
package sessiontest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// Engine is a shared store in memory. Every step of it is one transaction.
type Engine struct {
	mu       sync.Mutex // guards what follows
	records  map[tokenstore.Key]tokenstore.Record
	open     map[tokenstore.Key]map[session.Entry]*found
	sessions map[session.ID]*registered
	about    []byte
	leases   map[tokenstore.Key]tokenstore.Lease
	granted  uint64
	ports    []*Port
}

// found says of an entry whether an acquire has found it as an older one.
type found struct{ yes bool }

// registered is a session that was begun and not ended.
type registered struct {
	until time.Time
	gone  bool // final, once somebody was told
}

// NewEngine returns an empty store.
func NewEngine() *Engine {
	return &Engine{
		records:  map[tokenstore.Key]tokenstore.Record{},
		open:     map[tokenstore.Key]map[session.Entry]*found{},
		sessions: map[session.ID]*registered{},
		leases:   map[tokenstore.Key]tokenstore.Lease{},
	}
}

// Port returns a new way to the store, for one proxy.
func (e *Engine) Port() *Port {
	p := &Port{engine: e, kick: make(chan struct{}, 1), holds: map[session.Op]*hold{}}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ports = append(e.ports, p)
	return p
}

// Record returns what is on record of a key.
func (e *Engine) Record(key tokenstore.Key) (rec tokenstore.Record, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	rec, ok = e.records[key]
	return rec, ok
}

// Open returns the entries of a key, in no order.
func (e *Engine) Open(key tokenstore.Key) (entries []session.Entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for entry := range e.open[key] {
		entries = append(entries, entry)
	}
	return entries
}

// alive reports whether a session is. Whoever finds it expired writes that
// down, so that no keepalive can revive it.
func (e *Engine) alive(s session.ID) bool {
	r := e.sessions[s]
	if r == nil {
		return false
	}
	if !time.Now().Before(r.until) {
		r.gone = true
	}
	return !r.gone
}

func (e *Engine) begin(s session.ID, ttl time.Duration) (none, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sessions[s] != nil {
		return none{}, fmt.Errorf("session %s was used before", s)
	}
	e.sessions[s] = &registered{until: time.Now().Add(ttl)}
	return none{}, nil
}

func (e *Engine) keepAlive(s session.ID, ttl time.Duration) (overtaken []tokenstore.Mark, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.alive(s) {
		return nil, session.ErrSessionOver
	}
	e.sessions[s].until = time.Now().Add(ttl)
	for key, entries := range e.open {
		highest := e.records[key].Highest
		for entry, was := range entries {
			if entry.Session == s && was.yes {
				overtaken = append(overtaken, tokenstore.Mark{Key: key, Token: highest})
				break
			}
		}
	}
	return overtaken, nil
}

func (e *Engine) end(s session.ID) (none, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.sessions, s)
	return none{}, nil
}

func (e *Engine) list() (map[session.ID]bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[session.ID]bool{}
	for s := range e.sessions {
		all[s] = e.alive(s)
	}
	return all, nil
}

// acquire is R2 in one step.
func (e *Engine) acquire(s session.ID, wants []session.Want) (got session.Acquired, err error) {
	e.mu.Lock()
	if !e.alive(s) {
		e.mu.Unlock()
		return got, session.ErrSessionOver
	}
	next, changed, now := make([]tokenstore.Record, len(wants)), make([]bool, len(wants)), time.Now()
	for i := range wants {
		rec, ok := e.records[wants[i].Key]
		if next[i], changed[i], err = rec.Raise(ok, wants[i].Mark, now); err != nil {
			e.mu.Unlock()
			return session.Acquired{}, err
		}
		got.Raised = got.Raised || !wants[i].Unordered && (!ok || rec.Highest.Less(next[i].Highest))
	}
	for i := range wants {
		w := &wants[i]
		if changed[i] {
			e.records[w.Key] = next[i]
		}
		if e.open[w.Key] == nil {
			e.open[w.Key] = map[session.Entry]*found{}
		}
		for entry, was := range e.open[w.Key] {
			if !w.Unordered && entry.Below(w.Token) {
				was.yes = true
				got.Older = append(got.Older, entry)
			}
		}
		e.open[w.Key][session.Entry{Key: w.Key, Token: w.Token, Session: s, Nonce: w.Nonce}] = &found{}
	}
	ports := e.ports
	e.mu.Unlock()
	for i := range wants {
		m := wants[i].Mark
		if m.Unordered {
			continue
		}
		announce(ports, func(sink session.Sink) { sink.Raised(m) })
	}
	return got, nil
}

func (e *Engine) delete(entries []session.Entry) (none, error) {
	e.mu.Lock()
	var gone []session.Entry
	for _, entry := range entries {
		open := e.open[entry.Key]
		if _, ok := open[entry]; ok {
			gone = append(gone, entry)
		}
		if delete(open, entry); len(open) == 0 {
			delete(e.open, entry.Key)
		}
	}
	ports := e.ports
	e.mu.Unlock()
	for _, entry := range gone {
		announce(ports, func(sink session.Sink) { sink.Gone(entry) })
	}
	return none{}, nil
}

func (e *Engine) look(keys []tokenstore.Key) (states []session.State, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, key := range keys {
		st := session.State{Key: key}
		st.Record, st.Exists = e.records[key]
		for entry := range e.open[key] {
			st.Open = append(st.Open, entry)
		}
		states = append(states, st)
	}
	return states, nil
}

func (e *Engine) entries(s session.ID) (entries []session.Entry, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, open := range e.open {
		for entry := range open {
			if entry.Session == s {
				entries = append(entries, entry)
			}
		}
	}
	return entries, nil
}

func (e *Engine) page(prefix string, after tokenstore.Key, limit int) (p page, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key, rec := range e.records {
		if key > after && strings.HasPrefix(string(key), prefix) {
			p.keys = append(p.keys, tokenstore.Listed{Key: key, Record: rec})
		}
	}
	slices.SortFunc(p.keys, func(a, b tokenstore.Listed) int { return strings.Compare(string(a.Key), string(b.Key)) })
	if len(p.keys) > limit {
		p.keys, p.next = p.keys[:limit], p.keys[limit-1].Key
	}
	return p, nil
}

// page is what List returns.
type page struct {
	keys []tokenstore.Listed
	next tokenstore.Key
}

func (e *Engine) forget(key tokenstore.Key, was tokenstore.Record) (none, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	rec, ok := e.records[key]
	switch {
	case ok && !rec.Same(was):
		return none{}, &tokenstore.InUseError{Key: key, Why: "its token was raised meanwhile"}
	case len(e.open[key]) > 0:
		return none{}, &tokenstore.InUseError{Key: key, Why: "an entry is open"}
	case e.leases[key].Held():
		return none{}, &tokenstore.InUseError{Key: key, Why: "its lease is held"}
	}
	delete(e.records, key)
	return none{}, nil
}

func (e *Engine) remembered() ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return bytes.Clone(e.about), nil
}

// replace writes next where old still stands.
func (e *Engine) replace(old, next []byte) (done bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !bytes.Equal(e.about, old) {
		return false, nil
	}
	e.about = bytes.Clone(next)
	return true, nil
}

// none is the result of a call that has none.
type none struct{}
