package sessiontest

import (
	"context"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

func (e *Engine) leaseState(key tokenstore.Key) (session.LeaseState, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leaseStateOf(key), nil
}

// leaseStateOf is leaseState where the lock is held.
func (e *Engine) leaseStateOf(key tokenstore.Key) session.LeaseState {
	st := session.LeaseState{Lease: e.leases[key], Granted: e.granted}
	st.Record, st.Exists = e.records[key]
	return st
}

// swapped is the answer to a swap.
type swapped struct {
	done bool
	now  session.LeaseState
}

func (e *Engine) swapLease(s session.LeaseSwap) (swapped, error) {
	e.mu.Lock()
	now := e.leaseStateOf(s.Key)
	asBelieved := now.Lease == s.Was && (!s.Grant || now.Granted == s.Granted && (!now.Exists || now.Record.Highest.Less(s.Next.Token)))
	if !asBelieved {
		e.mu.Unlock()
		return swapped{false, now}, nil
	}
	e.leases[s.Key] = s.Next
	if !s.Next.Held() {
		delete(e.leases, s.Key)
	}
	if s.Grant {
		e.granted = s.Next.Token.Major
	}
	ports := e.ports
	e.mu.Unlock()
	if s.Grant || !s.Next.Held() {
		announce(ports, func(sink session.Sink) { session.TellLeased(sink, s.Key) })
	}
	return swapped{done: true}, nil
}

func (e *Engine) listLeases() (held []tokenstore.KeyLease, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key, l := range e.leases {
		held = append(held, tokenstore.KeyLease{Key: key, Lease: l})
	}
	return held, nil
}

func (e *Engine) raiseGranted(granted uint64) (uint64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.granted = max(e.granted, granted)
	return e.granted, nil
}

// LeaseState implements session.LeaseBackend, as do the methods that follow.
func (p *Port) LeaseState(ctx context.Context, key tokenstore.Key) (session.LeaseState, error) {
	return call(ctx, p, session.OpLease, func() (session.LeaseState, error) { return p.engine.leaseState(key) })
}

func (p *Port) SwapLease(ctx context.Context, s session.LeaseSwap) (done bool, now session.LeaseState, err error) {
	r, err := call(ctx, p, session.OpLease, func() (swapped, error) { return p.engine.swapLease(s) })
	return r.done, r.now, err
}

func (p *Port) Leases(ctx context.Context) ([]tokenstore.KeyLease, []*tokenstore.DamagedError, error) {
	held, err := call(ctx, p, session.OpLeases, p.engine.listLeases)
	return held, nil, err
}

func (p *Port) RaiseGranted(ctx context.Context, granted uint64) (uint64, error) {
	return call(ctx, p, session.OpLease, func() (uint64, error) { return p.engine.raiseGranted(granted) })
}
