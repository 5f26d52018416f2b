package lease

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

const (
	// cleaners is how many leases are taken out of the store at a time.
	cleaners = 8
	// pollEvery is how often those who wait look at a shared store, should
	// nothing be heard of it.
	pollEvery = time.Second
	// listEvery is how often a shared store is searched for leases that another
	// issuer granted and, its proxy being gone for good, will never end.
	listEvery = 10 * time.Minute
)

// follow has leases looked at that run out, and those that others changed.
func (i *Issuer) follow() {
	timer := time.NewTimer(lookAgain)
	defer timer.Stop()
	changes := i.store.LeaseChanges()
	var poll, list <-chan time.Time
	if i.shared {
		p, l := time.NewTicker(pollEvery), time.NewTicker(listEvery)
		defer p.Stop()
		defer l.Stop()
		poll, list = p.C, l.C
	}
	for {
		timer.Reset(i.expire())
		select {
		case <-timer.C:
		case <-i.kick:
		case <-poll:
			i.wakeAll()
		case <-list:
			i.done.Go(i.list) // follow itself is counted: Close waits
		case key, ok := <-changes:
			switch {
			case !ok:
				changes = nil
			case key == "": // any may have changed
				i.wakeAll()
			default:
				i.hint(key)
			}
		case <-i.end:
			return
		}
	}
}

// expire hands leases that have run out to whoever waits for them, and to the
// cleaners where nobody does. It says how long it is until the next look.
func (i *Issuer) expire() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.o.Clock()
	for _, e := range i.due(now) {
		switch {
		case e.pinned: // drop puts it on the agenda again
		case e.held(now) && !e.unsure: // renewed meanwhile
			i.schedule(e)
		case len(e.queue) > 0:
			e.wake()
		case e.lease.Held() || e.unsure:
			e.refs++
			select {
			case i.dead <- e:
			default: // the cleaners are busy
				e.refs--
				i.scheduleAt(e, now+lookAgain/10)
			}
		}
	}
	return i.next(now)
}

// clean takes leases out of the store that have run out, so that it does not
// grow. Nothing waits for that.
func (i *Issuer) clean() {
	for {
		select {
		case e := <-i.dead:
			i.bury(e)
			i.release(e)
		case <-i.end:
			return
		}
	}
}

func (i *Issuer) bury(e *entry) {
	if e.take(context.Background()) != nil {
		return
	}
	defer e.give()
	if i.freshen(context.Background(), e, false) != nil {
		return // it stays unsure, and is looked at again
	}
	i.mu.Lock()
	was, lost := e.lease, e.wasLost()
	over := !e.held(i.o.Clock())
	if over && !was.Held() {
		e.gone = nil // what could have come late had its time
	}
	i.mu.Unlock()
	if !over || !was.Held() {
		return
	}
	if err := i.endLease(context.Background(), e, was); err == nil && lost {
		i.tell(EventLost, e.key, was)
	}
}

// hint makes those look again who wait for key. The lease itself is looked at
// when it is needed.
func (i *Issuer) hint(key tokenstore.Key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if e := i.entries[key]; e != nil {
		e.wake()
	}
}

// wakeAll makes everybody look again who waits.
func (i *Issuer) wakeAll() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.waiting == 0 {
		return
	}
	for _, e := range i.entries {
		e.wake()
	}
}

// list looks for leases in a shared store that nobody here has heard of.
func (i *Issuer) list() {
	ctx, cancel := context.WithTimeout(context.Background(), 4*i.o.StoreTimeout)
	defer cancel()
	if err := i.load(ctx); err != nil && !errors.Is(err, context.Canceled) {
		i.o.Log.Warn("the leases of the shared store could not be listed", zap.Error(err))
	}
}
