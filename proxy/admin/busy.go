package admin

import (
	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// busy is a page of the keys on which something goes on at this proxy. The store
// is not asked: who looks for a stuck key may do so because of the store.
func (a *api) busy(prefix string, after tokenstore.Key, limit int) wire.KeyList {
	page, next := a.Gate.Busy(prefix, after, limit)
	out := wire.KeyList{Keys: make([]wire.ListedKey, len(page)), Next: string(next)}
	for i := range page {
		out.Keys[i] = a.busyKey(&page[i])
	}
	if nowhere, ok := a.Gate.BusyNowhere(); ok && prefix == "" && after == "" {
		out.WithoutKey = &wire.ListedKey{}
		whatGoesOn(out.WithoutKey, &nowhere)
	}
	if end := a.Gate.QuarantinedUntil(); !end.IsZero() {
		out.QuarantinedUntil = &end
	}
	return out
}

func (a *api) busyKey(b *gate.Busy) wire.ListedKey {
	o := a.listed(b.Key)
	l := wire.ListedKey{Key: string(b.Key), Rule: o.Name, Holder: b.Holder}
	if b.Exists {
		l.Highest = o.Format.Print(b.Highest)
	}
	whatGoesOn(&l, b)
	return l
}

func whatGoesOn(l *wire.ListedKey, b *gate.Busy) {
	l.Waiting = b.Waiting
	if b.InFlight > 0 {
		l.InFlight = &wire.BusyInFlight{Count: b.InFlight, Since: b.Since}
	}
	if b.Unsettled > 0 {
		l.Unsettled = &wire.BusyUnsettled{Count: b.Unsettled, Until: b.Until, Why: b.Why}
	}
}
