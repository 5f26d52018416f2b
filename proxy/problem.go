package proxy

import (
	"errors"
	"net/http"
	"slices"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/route"
	"github.com/fenceproxy/fenceproxy/proxy/upstream"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// problem is the only place where an error becomes an answer. It has to be
// asked before the ticket is settled.
func (x *exchange) problem(err error) *wire.Problem {
	p := x.named(err)
	if x.rule != nil {
		p.Rule = x.rule.Name
	}
	x.locate(p, err)
	return p
}

// locate puts the key and the token into p that err is about: where it does
// not say, the first ones.
func (x *exchange) locate(p *wire.Problem, err error) {
	at := 0
	if key, ok := keyOf(err); ok {
		at = max(0, slices.Index(x.keys, key))
	}
	if at < len(x.keys) {
		p.Key = string(x.keys[at])
	}
	if at < len(x.tokens) {
		p.Token = x.tokens[at].text
	}
}

// keyOf is the key that an error of the gate or the store names.
func keyOf(err error) (tokenstore.Key, bool) {
	var (
		stale       *gate.StaleError
		implausible *gate.ImplausibleError
		drain       *gate.DrainTimeoutError
		collision   *tokenstore.CollisionError
		damaged     *tokenstore.DamagedError
	)
	switch {
	case errors.As(err, &stale):
		return stale.Key, true
	case errors.As(err, &implausible):
		return implausible.Key, true
	case errors.As(err, &drain):
		return drain.Key, true
	case errors.As(err, &collision):
		return collision.Key, true
	case errors.As(err, &damaged):
		return damaged.Key, true
	}
	return "", false
}

// named tells which problem err is, and what to do about it.
func (x *exchange) named(err error) *wire.Problem {
	var (
		refusal     *route.Refusal
		stale       *gate.StaleError
		implausible *gate.ImplausibleError
		collision   *tokenstore.CollisionError
		drain       *gate.DrainTimeoutError
		hop         *upstream.Error
	)
	switch {
	case errors.As(err, &refusal):
		return wire.NewProblem(refusals[refusal.Kind], refusal.Detail)
	case errors.Is(err, errNotCovered):
		return wire.NewProblem(wire.WriteNotCovered, err.Error())
	case errors.Is(err, errTokenRequired), errors.Is(err, errHolderRequired):
		return wire.NewProblem(wire.TokenRequired, err.Error())
	case errors.Is(err, errTokenAmbiguous), errors.Is(err, errHolderAmbiguous):
		return wire.NewProblem(wire.TokenAmbiguous, err.Error())
	case errors.Is(err, tokenstore.ErrMalformed):
		return wire.NewProblem(wire.TokenMalformed, err.Error())
	case errors.Is(err, errBodyTooLarge):
		return wire.NewProblem(wire.BodyTooLarge, err.Error()+"; send a smaller one")
	case errors.As(err, &implausible), errors.Is(err, errTokenImplausible):
		if implausible != nil && x.rule != nil { // for the log alone
			x.highest = x.rule.Format.Print(implausible.Highest)
		}
		return wire.NewProblem(wire.TokenImplausible, "the token is higher than the operator lets any be: if your lock service handed it out, ask the operator to look at max_token and max_jump")
	case errors.As(err, &stale):
		return x.stale(stale)
	case errors.As(err, &collision):
		p := wire.NewProblem(wire.TokenCollision, "another holder uses this token: take the lease again, for a token of your own")
		x.disclose(p, collision.Token)
		return p
	case errors.Is(err, errBuffers), errors.Is(err, errRulesChanged), errors.Is(err, gate.ErrOverloaded):
		return wire.NewProblem(wire.Overloaded, err.Error()+"; nothing was forwarded: try again")
	case errors.Is(err, gate.ErrTooManyKeys):
		return wire.NewProblem(wire.TooManyKeys, "the proxy keeps as many keys as its operator lets it, and this one would be new; nothing was raised or forwarded: try again later, or ask the operator to look at max_keys")
	case errors.As(err, &drain):
		why := "older writes on this key are still running, or were lost from sight and may still be applied"
		if drain.Quarantined {
			why = "the proxy's last stop was not clean, and writes of before may still be applied on this key"
		}
		p := wire.NewProblem(wire.DrainTimeout, why+"; nothing was forwarded, and the token counts already: try again with the same one")
		p.RetryAfter = drain.RetryAfter
		return p
	case errors.Is(err, errOlderRules):
		return wire.NewProblem(wire.DrainTimeout, err.Error()+"; nothing was forwarded: try again with the same token")
	case errors.Is(err, gate.ErrStopping):
		return wire.NewProblem(wire.ShuttingDown, "the proxy is stopping; nothing was forwarded: try again")
	case errors.As(err, &hop):
		return x.undeliverable(hop)
	}
	// tokenstore.ErrUnavailable, and whatever nobody thought of: fail closed.
	return wire.NewProblem(wire.StoreUnavailable, "the token store does not answer, so nobody can tell whether this token is stale; nothing was forwarded: try again")
}

// refusals are the problems of what route refuses.
var refusals = map[route.Kind]wire.Name{
	route.BadRequest:       wire.PathNotCanonical,
	route.MethodNotAllowed: wire.MethodNotAllowed,
	route.UpgradeRefused:   wire.UpgradeNotAllowed,
	route.PathNotCanonical: wire.PathNotCanonical,
	route.PathAlias:        wire.PathAlias,
	route.HeaderAlias:      wire.HeaderAlias,
	route.ConnectionOption: wire.ConnectionOption,
	route.KeyUnresolvable:  wire.KeyUnresolvable,
}

// stale says which way the token became stale.
func (x *exchange) stale(err *gate.StaleError) *wire.Problem {
	detail := "a higher token was admitted on this key: your lease is over; stop, and take it again before you write"
	if err.Overtaken {
		detail = "a higher token overtook this one while it waited: your lease is over; stop, and take it again before you write"
	}
	p := wire.NewProblem(wire.StaleToken, detail)
	x.disclose(p, err.Highest)
	return p
}

// undeliverable says what is known of a request that Send gave up.
func (x *exchange) undeliverable(err *upstream.Error) *wire.Problem {
	sent := err.Outcome.Fate != upstream.NotSent
	switch {
	case errors.Is(err, upstream.ErrCut) && x.ticket.Stale() == nil:
		return x.cutUnordered(sent)
	case errors.Is(err, upstream.ErrCut):
		p := wire.NewProblem(wire.StaleToken, "a higher token overtook this one while it was uploaded, and the upload was cut; your lease is over: stop, and take it again before you write")
		if sent {
			p.Forwarded = wire.ForwardedUnknown
		}
		if stale := x.ticket.Stale(); stale != nil {
			x.disclose(p, stale.Highest)
		}
		return p
	case err.Outcome.Reason == upstream.ReasonNoLeave,
		!sent && x.holds && err.Outcome.Reason == upstream.ReasonCanceled: // nothing else ends the context of a write in flight
		return wire.NewProblem(wire.StoreUnavailable, "the session with the token store ended before the write was sent; nothing was forwarded: try again")
	case err.Outcome.Reason == upstream.ReasonBadRequest:
		return wire.NewProblem(wire.PathNotCanonical, "the request cannot be written to the upstream in one way only; nothing was forwarded")
	case err.Outcome.Reason == upstream.ReasonTooLarge:
		p := wire.NewProblem(wire.BodyTooLarge, "the header is larger than the upstream says that it takes; nothing was forwarded: send a smaller one")
		p.Status, p.Title = http.StatusRequestHeaderFieldsTooLarge, "The header is too large for the upstream"
		return p
	case err.Outcome.Reason == upstream.ReasonUnprocessed:
		return wire.NewProblem(wire.UpstreamUnreachable, "the upstream refused the request before it did anything with it, and promised that it never will: try again")
	case !sent:
		return wire.NewProblem(wire.UpstreamUnreachable, "no connection to the upstream could be made; nothing was sent: try again")
	}
	p := wire.NewProblem(wire.OutcomeUnknown, "the request was sent, but its answer did not come in full ("+string(err.Outcome.Reason)+"): it may have been applied; look before you repeat it")
	if err.Outcome.Reason == upstream.ReasonTimeout {
		p.Status = 504
	}
	p.Forwarded = wire.ForwardedUnknown
	return p
}

// cutUnordered says what is known of an upload without a token that counts,
// which was cut because a fenced write waits for it.
func (x *exchange) cutUnordered(sent bool) *wire.Problem {
	if !sent {
		return wire.NewProblem(wire.UpstreamUnreachable, "a write with a fencing token waits for this one, which was cut before any of it was sent: try again")
	}
	p := wire.NewProblem(wire.OutcomeUnknown, "a write with a fencing token waits for this one, whose upload was cut: it may have been applied in part; look before you repeat it")
	p.Forwarded = wire.ForwardedUnknown
	return p
}

// disclose names the highest token, where the rule allows it.
func (x *exchange) disclose(p *wire.Problem, highest tokenstore.Token) {
	if x.rule == nil {
		return
	}
	x.highest = x.rule.Format.Print(highest)
	if x.rule.DiscloseHighest {
		p.Highest = x.highest
		p.Epoch = highest.Epoch
	}
}
