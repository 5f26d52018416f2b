package proxy

import (
	"errors"
	"net/http"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/route"
	"github.com/fenceproxy/fenceproxy/proxy/upstream"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// exchange is one request and its answer. Its goroutine is the handler's.
type exchange struct {
	h     *Handler
	w     http.ResponseWriter
	r     *http.Request
	start time.Time

	book    *book       // the rules by which it came in
	out     bool        // it counts there no more
	uncut   func() bool // ends what cutAnswer or hurries began
	rule    *Rule       // nil where none covers the request
	fenced  bool        // the fence decides about it
	upgrade bool        // it is the handshake of a websocket
	// unwatched: nobody asks whether its client is there but who waits, and the
	// waiting ones look by themselves. Once admitted it goes on without (rule 11).
	unwatched bool
	tokens    []token
	holder    string
	keys      []tokenstore.Key // in the tokens' order
	one       struct {         // room for those of nearly every request
		token [1]token
		claim [1]gate.Claim
	}
	body     body
	seen     sighting // where the rule only observes
	ticket   gate.Ticket
	holds    bool   // the ticket is in flight
	settled  bool   // the ticket has had its word
	hijacked bool   // it counts in Handler.tunnels
	client   client // who reads the answer
	request  upstream.Request
	sent     time.Time // when the upstream's turn began
	away     bool      // it was sent with no fence touching it, and is not known to be over

	decision string // what became of it, for the metrics and the log
	status   int    // of the answer; 0 when there was none
	cause    error  // why the proxy answered by itself
	highest  string // of the key, where that is why
	trace    *tracing
	lost     string // why the write is unsettled
}

// The decisions that are no problem's name.
const (
	decisionPassed   = "passed"   // no fence touched it
	decisionAdmitted = "admitted" // it passed the fence
	decisionLeft     = "client-left"
	decisionBadBody  = "bad-body" // its framing is broken

	decisionTokenless   = "admitted-without-token" // with token: optional
	decisionWouldReject = "would-reject-"          // and the problem's name, with mode: observe
	decisionWouldWait   = "would-wait"             // the same
)

// noRule is the rule label of what no rule covers.
const noRule = "none"

// errNotCovered refuses a write that no rule covers.
var errNotCovered = errors.New("no rule covers this write: add one, name its method in the rule of its path, or set unmatched_writes: forward")

// choose takes the rule of the match, and decides whether the fence does.
func (x *exchange) choose(m route.Match) error {
	x.upgrade = m.Upgrade
	if m.Rule >= 0 {
		x.rule = &x.book.Rules[m.Rule]
	}
	switch {
	case x.rule != nil:
		x.fenced = x.rule.Fenced
		x.unwatched = x.fenced && !x.rule.Observe && !m.Read
	case m.Write && !x.book.ForwardUnmatched:
		return errNotCovered
	}
	if !m.Write && (x.rule == nil || m.Read) {
		x.leaveBook(false) // it may stream for days, and writes nothing
	}
	if x.book.shut && !x.fenced && !x.out {
		return gate.ErrStopping
	}
	return nil
}

// ruleName labels the exchange in metrics and logs.
func (x *exchange) ruleName() string {
	if x.rule == nil {
		return noRule
	}
	return x.rule.Name
}

// finish counts and logs the exchange, also when the handler panics.
func (x *exchange) finish() {
	if x.hijacked {
		defer x.h.tunnels.Done()
	}
	x.release()
	x.leaveBook(x.lost != "" || !x.holds && x.away)
	if x.unwatched {
		if c := clientConnOf(x.r); c != nil {
			c.readers.Store(readersAll) // for the next request
		}
	}
	x.h.Metrics.count(x)
	x.log()
	x.trace.end(x)
	x.bidFarewell()
	if x.lost != "" {
		x.shed()
	}
}

// shed lets go of what the request is made of: the gate keeps the ticket, and with
// it all of x, until the settle time is over, and nothing bounds how many such
// there are. Nobody uses x any more.
func (x *exchange) shed() {
	x.w, x.r, x.cause, x.trace = nil, nil, nil, nil
	x.body.reader, x.body.call = nil, nil
	x.request, x.client, x.seen = upstream.Request{}, client{}, sighting{}
	x.tokens, x.keys, x.one.token = nil, nil, [1]token{}
}

// settle ends the ticket: lost is empty when the write is over, else it says
// why sight of it was lost. Only the first call counts.
func (x *exchange) settle(lost string) {
	if !x.holds || x.settled {
		return
	}
	x.settled = true
	if lost == "" {
		x.ticket.Settle()
	} else {
		x.ticket.Unsettle(lost)
		x.lost = lost
	}
	x.leaveBook(lost != "") // however long the client reads
}

// say puts the two headers of the fence into the answer.
func (x *exchange) say(result string, f wire.Forwarded) {
	h := x.w.Header()
	if result == wire.ResultAdmitted && f == wire.ForwardedYes { // nearly always
		h[wire.HeaderResult], h[wire.HeaderForwarded] = sayAdmitted, sayYes
		return
	}
	h[wire.HeaderResult] = []string{result}
	h[wire.HeaderForwarded] = []string{string(f)}
}

// Values of headers that are never changed in place.
var (
	sayAdmitted = []string{wire.ResultAdmitted}
	sayYes      = []string{string(wire.ForwardedYes)}
)
