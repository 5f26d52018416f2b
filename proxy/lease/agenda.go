package lease

import (
	"container/heap"
	"time"
)

// agenda says which lease is to be looked at next. A renewal does not move its
// lease on it: that is looked at when it would have run out, and put off again,
// so that 10,000 leases that are renewed often cost one look a TTL each.
type agenda []*entry

// The heap of container/heap. An entry knows its place, so that it can be moved
// and taken off: what is released early must not stay for its whole TTL.
func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].due < a[j].due }
func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].place, a[j].place = i+1, j+1
}
func (a *agenda) Push(x any) {
	e := x.(*entry)
	*a = append(*a, e)
	e.place = len(*a)
}
func (a *agenda) Pop() any {
	last := len(*a) - 1
	e := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	e.place = 0
	return e
}

// lookAgain is when a lease is looked at of which a call has failed. It is also
// the longest that the agenda sleeps: a timer stands still while the machine is
// suspended.
const lookAgain = time.Second

// schedule has e looked at when its lease runs out. The lock is held.
func (i *Issuer) schedule(e *entry) {
	if e.unsure {
		i.scheduleAt(e, i.o.Clock()+lookAgain)
		return
	}
	i.scheduleAt(e, e.until)
}

// scheduleAt is schedule for a given time; an earlier one that stands there is
// kept. The lock is held.
func (i *Issuer) scheduleAt(e *entry, at time.Duration) {
	switch {
	case e.place == 0:
		e.due = at
		heap.Push(&i.agenda, e)
	case at < e.due:
		e.due = at
		heap.Fix(&i.agenda, e.place-1)
	default:
		return
	}
	if e.place == 1 {
		select {
		case i.kick <- struct{}{}:
		default:
		}
	}
}

// unschedule takes e off the agenda. The lock is held.
func (i *Issuer) unschedule(e *entry) {
	if e.place > 0 {
		heap.Remove(&i.agenda, e.place-1)
	}
}

// due takes the entries off the agenda whose time has come. The lock is held.
func (i *Issuer) due(now time.Duration) (all []*entry) {
	for len(i.agenda) > 0 && i.agenda[0].due <= now {
		all = append(all, heap.Pop(&i.agenda).(*entry))
	}
	return all
}

// next is how long it is until the next look. The lock is held.
func (i *Issuer) next(now time.Duration) time.Duration {
	if len(i.agenda) == 0 {
		return time.Hour // whatever comes is told by kick
	}
	return min(max(i.agenda[0].due-now, 0), lookAgain)
}
