// Package proxy is the life of one request: which rule and resource key it
// has, whether its fencing token lets it pass, and, if so, its way to the
// upstream and back. Handler.ServeHTTP reads in that order; each step is a
// package or a file of its own.
package proxy

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/route"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Rule is what a rule of the configuration says beside its paths and keys,
// which are the Table's.
type Rule struct {
	Name            string
	Headers         []string          // the fencing token's of each key, in canonical form and the Table's order
	Format          tokenstore.Format // of the tokens
	Epoch           uint64            // goes in front of every token
	Fenced          bool              // false is token: none
	Optional        bool              // token: optional: a write without a token passes, as older than every token
	Observe         bool              // mode: observe: nothing is refused and nothing waits; it is only said
	HolderHeader    string            // who holds the token, in canonical form; "" for nobody asks
	MaxToken        tokenstore.Token
	HasMaxToken     bool          // a token above MaxToken is implausible
	MaxJump         uint64        // see gate.Claim; 0 for no bound
	DrainTimeout    time.Duration // how long a write may wait in the gate
	ResponseTimeout time.Duration // see upstream.Request.Timeout
	Settle          time.Duration // how long a write that was lost from sight counts
	DiscloseHighest bool          // name the highest token in a 409
	Suspect         bool          // its keys were made otherwise before a crash: see gate.Claim
}

// Options of a Handler. All but BodyTimeout, ReadTimeout and Tracer must be set,
// and of the Rulebook Table and Upstream.
type Options struct {
	Rulebook
	Gate        *gate.Gate
	BodyTimeout time.Duration // how long the next byte of a body may take before admission
	ReadTimeout time.Duration // how long a client may take for one piece of an answer over HTTP/2; 0 for no end
	Metrics     *Metrics
	Log         *zap.Logger
	Tracer      trace.Tracer // nil for no traces
}

// Handler is the data port. It is safe for concurrent use.
type Handler struct {
	Gate        *gate.Gate
	BodyTimeout time.Duration
	ReadTimeout time.Duration
	Metrics     *Metrics
	Log         *zap.Logger
	Tracer      trace.Tracer

	books    books
	buffered atomic.Int64   // bytes reserved under MaxBuffered
	tunnels  sync.WaitGroup // websockets, until they are logged
	sessions sessions
}

// NewHandler returns the handler of the data port.
func NewHandler(o Options) *Handler {
	h := &Handler{Gate: o.Gate, BodyTimeout: o.BodyTimeout, ReadTimeout: o.ReadTimeout, Metrics: o.Metrics, Log: o.Log, Tracer: o.Tracer}
	h.books.current.Store(newBook(o.Rulebook))
	return h
}

// ServeHTTP takes one request from its arrival to its end.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{h: h, w: w, r: r, start: time.Now(), book: h.books.open()}
	defer x.finish()
	// Whatever happens behind the gate, a panic included, leaves the write
	// settled for a reason or unsettled (rule 10).
	defer x.settle("abandoned")
	x.trace = beginTrace(x)

	var match route.Match
	err := malformed(r)
	if err == nil {
		match, err = x.book.Table.Match(r)
	}
	if err == nil {
		err = x.choose(match)
	} else if rule := x.book.looksPast(err); rule != nil {
		x.lookPast(rule, err)
		err = nil
	}
	x.trace.routed(x)
	if err == nil && x.fenced {
		err = x.admit(&match)
	}
	if err != nil {
		x.refuse(err)
		return
	}
	x.forward(match.Target)
}

// admit takes a fenced request through tokens, keys and gate. After nil it is
// in flight, or it is a read that may be sent.
func (x *exchange) admit(match *route.Match) error {
	if x.rule.Observe {
		return x.observe(match)
	}
	ctx := x.r.Context()
	if err := x.readTokens(); err != nil {
		return err
	}
	if err := x.readKeys(match); err != nil {
		return err
	}
	claims, err := x.claims()
	if err != nil {
		return err
	}
	// A token that is stale already is refused before its body is read.
	if err := x.h.Gate.Check(ctx, claims, x.rule.DrainTimeout, &x.ticket); err != nil {
		return err
	}
	// The body comes before the gate: a slow client holds no key.
	if err := x.readAhead(); err != nil {
		return err
	}
	patience, err := x.awaitOlder()
	if err != nil {
		return err
	}
	x.trace.enters()
	err = x.h.Gate.Enter(ctx, gate.Request{
		Claims:       claims,
		DrainTimeout: patience,
		Settle:       x.rule.Settle,
		Since:        x.start,
		Watch:        x.watchClient,
		Read:         match.Read,
	}, &x.ticket)
	x.holds = err == nil && !match.Read
	return err
}
