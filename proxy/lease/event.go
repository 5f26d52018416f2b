package lease

import (
	"time"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Event is what an audit line tells of a lease. It does not have its ID, which
// is the holder's secret.
type Event struct {
	What   What
	Time   time.Time
	Key    tokenstore.Key
	Holder string
	Token  tokenstore.Token
	TTL    time.Duration
}

// What became of a lease.
type What string

// The words are those of logs, too.
const (
	EventGranted  What = "granted"
	EventReleased What = "released"
	EventLost     What = "lost" // it ran out
)

// tell counts, logs and audits.
func (i *Issuer) tell(what What, key tokenstore.Key, l tokenstore.Lease) {
	i.o.Metrics.count(what)
	level := zap.InfoLevel
	if what == EventReleased {
		level = zap.DebugLevel
	}
	i.o.Log.Log(level, "lease "+string(what), zap.String("key", string(key)), zap.String("holder", l.Holder),
		zap.Stringer("token", l.Token), zap.Duration("ttl", l.TTL))
	i.o.Audit(Event{What: what, Time: time.Now(), Key: key, Holder: l.Holder, Token: l.Token, TTL: l.TTL})
}
