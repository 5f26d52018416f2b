package session

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Options of a Store. Zero values stand for the defaults that are named.
type Options struct {
	// TTL is how long the store keeps a session that is not heard of (R1): 10s.
	TTL time.Duration
	// Margin is by how much a session's own deadline is before that (R5): 2s.
	// It covers clocks that run apart and half of it is the longest that a step
	// which is due may take (P in R9).
	Margin time.Duration
	// Linger is how long entries of a session that is gone stay (R9). It must
	// be set: settle, or more where a proxy may pause for longer than Margin/2.
	Linger time.Duration

	// OpTimeout is how long one call of the Backend may take: TTL/2.
	OpTimeout time.Duration
	// PollEvery is how often the entries that are waited for are looked at,
	// should nothing be heard of them: 250ms.
	PollEvery time.Duration
	// SweepEvery is how often the sessions are looked at: 1s.
	SweepEvery time.Duration
	// ReconcileEvery is how often this session's entries are compared with its
	// grants, after a call whose result is not known (R8): 30s.
	ReconcileEvery time.Duration

	// IdleAfter is when a grant that nobody uses is given back: 10 minutes.
	IdleAfter time.Duration
	// MaxIdle is how many of them there may be: 262,144. Beyond it those that
	// were used least recently are given back.
	MaxIdle int

	// Rules, Epochs and AcceptChanged are as embedded.Options has them, for all
	// proxies that share the store. A change is accepted only where no other
	// proxy runs: it would make other keys of the same resource.
	Rules         tokenstore.Rules
	Epochs        map[string]uint64
	AcceptChanged []string

	// Clock counts from any moment and never stops while the machine is
	// suspended (X4): Boottime.
	Clock func() time.Duration
	// Observe takes the figures; the functions in it may be nil and must not
	// block.
	Observe Observer
	// Logger; nil drops the lines.
	Logger *zap.Logger
}

// Observer takes figures as they arise.
type Observer struct {
	// Op tells of each call of the Backend that has ended.
	Op func(op Op, took time.Duration, err error)
	// RemoteWait tells how long a grant waited for older writes, of other
	// proxies or of this one.
	RemoteWait func(took time.Duration)
}

// Op is a call of the Backend, by its name in metrics.
type Op string

// The calls that are observed.
const (
	OpBegin     Op = "begin"
	OpKeepAlive Op = "keepalive"
	OpEnd       Op = "end"
	OpSessions  Op = "sessions"
	OpAcquire   Op = "acquire"
	OpDelete    Op = "delete"
	OpLook      Op = "look"
	OpEntries   Op = "entries"
	OpLoad      Op = "load"
	OpUpdate    Op = "update"
	OpLease     Op = "lease"
	OpLeases    Op = "leases"
	OpList      Op = "list"
	OpForget    Op = "forget"
)

// fill sets the defaults, and refuses what cannot work.
func (o *Options) fill() error {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.TTL, 10*time.Second)
	def(&o.Margin, 2*time.Second)
	def(&o.OpTimeout, o.TTL/2)
	def(&o.PollEvery, 250*time.Millisecond)
	def(&o.SweepEvery, time.Second)
	def(&o.ReconcileEvery, 30*time.Second)
	def(&o.IdleAfter, 10*time.Minute)
	if o.MaxIdle == 0 {
		o.MaxIdle = 1 << 18
	}
	if o.Clock == nil {
		o.Clock = Boottime
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	switch {
	case o.Margin <= 0 || o.TTL <= o.Margin:
		return fmt.Errorf("session_ttl %v must be above margin %v, and both above 0", o.TTL, o.Margin)
	case o.Linger <= 0:
		return errors.New("linger must be above 0: the longest settle of all rules, or more")
	case min(o.OpTimeout, o.PollEvery, o.SweepEvery, o.ReconcileEvery, o.IdleAfter) <= 0 || o.MaxIdle < 0:
		return errors.New("no interval may be below 0")
	}
	return nil
}

// keepEvery is how often a keepalive is sent: two may fail before the
// deadline.
func (o *Options) keepEvery() time.Duration { return max((o.TTL-o.Margin)/3, time.Millisecond) }
