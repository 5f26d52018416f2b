package proxy

import (
	"cmp"
	"context"
	"errors"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/route"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// sighting is what the fence would have done with a request of a rule that
// only observes.
type sighting struct {
	refusal *wire.Problem // what it would have got; nil for nothing
	cause   error         // of the refusal
	waits   bool          // it would have waited for older writes
}

// refused notes the first thing that would have refused the request.
func (x *exchange) refused(err error) {
	if x.seen.refusal == nil && err != nil {
		x.seen.refusal, x.seen.cause = x.problem(err), err
	}
}

// looksPast decides whether a request that route refuses goes on, since the
// rule that it would meet only observes, and returns that rule; nil for none.
//
// Where the path is sure, that is the rule. Where it is not, servers may take
// it for any path, also for one of a rule that enforces, or of none: it goes
// on only where nothing enforces.
func (b *book) looksPast(err error) *Rule {
	var refusal *route.Refusal
	if !errors.As(err, &refusal) {
		return nil
	}
	var rule *Rule
	if refusal.Rule >= 0 && b.Rules[refusal.Rule].Observe {
		rule = &b.Rules[refusal.Rule]
	}
	switch refusal.Kind {
	case route.HeaderAlias, route.ConnectionOption:
		if rule != nil {
			return rule
		}
	case route.PathNotCanonical, route.PathAlias, route.KeyUnresolvable:
	default:
		return nil // no HTTP that could be forwarded, or a tunnel past every fence
	}
	if b.stray == nil {
		return nil
	}
	return cmp.Or(rule, b.stray)
}

// strayRule stands for the rule that a request meets of which nobody can say
// which it is. It is nil unless every fenced rule observes and writes that no
// rule covers pass: else something is enforced.
func strayRule(o *Rulebook) *Rule {
	stray := Rule{Name: noRule, Fenced: true, Observe: true, ResponseTimeout: o.ResponseTimeout}
	for i := range o.Rules {
		switch r := &o.Rules[i]; {
		case r.Fenced && !r.Observe:
			return nil
		case r.Observe:
			stray.Settle = max(stray.Settle, r.Settle)
			stray.DrainTimeout = max(stray.DrainTimeout, r.DrainTimeout)
		}
	}
	if stray.Settle == 0 || !o.ForwardUnmatched {
		return nil
	}
	return &stray
}

// lookPast lets a request that route refuses go on under rule.
func (x *exchange) lookPast(rule *Rule, err error) {
	x.rule, x.fenced = rule, true
	x.refused(err)
}

// observe takes a request through the steps of admit, notes what would have
// refused it or made it wait, and lets it go on. After nil it is in flight, or
// it is a read that may be sent.
func (x *exchange) observe(match *route.Match) error {
	claims, err := x.observed(match)
	if err != nil {
		return err
	}
	read := match.Read || !match.Write && x.seen.refusal != nil
	// It waits for nothing but the record: whether the client is still there,
	// or has only closed its side, makes no difference.
	x.trace.enters()
	seen, err := x.h.Gate.Observe(context.WithoutCancel(x.r.Context()), gate.Request{
		Claims:       claims,
		DrainTimeout: x.rule.DrainTimeout,
		Settle:       x.rule.Settle,
		Since:        x.start,
		Read:         read,
	}, &x.ticket)
	if err != nil {
		return err
	}
	x.holds = !read // first: whatever panics behind it, the write is not lost
	x.refused(seen.Refusal)
	x.seen.waits = seen.Waits && x.seen.refusal == nil
	return nil
}

// observed is what the request claims. Without a token that counts, it claims
// its keys as a write without a token does; where even its keys are not known,
// no fenced write waits for it, but a stop does.
func (x *exchange) observed(match *route.Match) ([]gate.Claim, error) {
	if !match.Covered() || x.seen.refusal != nil {
		return unknown(), nil
	}
	x.refused(x.readTokens())
	switch err := x.readKeys(match); {
	case errors.Is(err, gate.ErrLeft), errors.Is(err, errBadBody):
		return nil, err // there is no request to forward
	case err != nil:
		x.refused(err)
		return unknown(), nil
	}
	if x.seen.refusal == nil {
		claims, err := x.claims()
		if err == nil {
			return claims, nil
		}
		x.refused(err)
	}
	return unordered(x.keys), nil
}

// unknown is the claim of a write whose keys nobody knows.
func unknown() []gate.Claim { return []gate.Claim{{Unordered: true}} }

// unordered claims keys for a write without a token.
func unordered(keys []tokenstore.Key) []gate.Claim {
	claims := make([]gate.Claim, 0, len(keys))
	for _, key := range keys {
		if indexKey(claims, key) < 0 {
			claims = append(claims, gate.Claim{Key: key, Unordered: true})
		}
	}
	return claims
}

// result is what Fencing-Result says of a request that went on.
func (x *exchange) result() string {
	switch {
	case x.seen.refusal != nil:
		return wire.ResultWouldReject(x.seen.refusal.Name())
	case x.seen.waits:
		return wire.ResultWouldWait
	}
	return wire.ResultAdmitted
}

// admittedAs is the decision of a fenced request that was forwarded.
func (x *exchange) admittedAs() string {
	switch {
	case x.seen.refusal != nil:
		return decisionWouldReject + string(x.seen.refusal.Name())
	case x.seen.waits:
		return decisionWouldWait
	case x.tokenless():
		return decisionTokenless
	}
	return decisionAdmitted
}
