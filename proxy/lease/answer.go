package lease

import (
	"errors"
	"fmt"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// problem is the only place where an error becomes an answer.
func problem(key tokenstore.Key, err error) *wire.Problem {
	p := named(err)
	if len(key) <= tokenstore.MaxKey && printable(string(key)) {
		p.Key = string(key)
	}
	return p
}

// named tells which problem err is, and what to do about it.
func named(err error) *wire.Problem {
	var (
		request *RequestError
		notKey  *KeyError
		held    *HeldError
		token   *TokenError
		used    *tokenstore.TokensUsedUpError
		drain   *gate.DrainTimeoutError
	)
	switch {
	case errors.As(err, &request):
		return wire.NewProblem(wire.LeaseMalformed, request.Why)
	case errors.As(err, &notKey):
		return wire.NewProblem(wire.KeyNotCovered, notKey.Why)
	case errors.As(err, &held):
		return heldProblem(held)
	case errors.Is(err, ErrLost):
		return wire.NewProblem(wire.LeaseLost, "the lease ran out, was released, or has another id: stop writing, and ask for it again")
	case errors.Is(err, ErrFree):
		return wire.NewProblem(wire.LeaseFree, "nobody holds the lease: ask for it by POST")
	case errors.As(err, &token):
		return wire.NewProblem(wire.TokensUsedUp, token.Why)
	case errors.As(err, &used):
		return wire.NewProblem(wire.TokensUsedUp, used.Error())
	case errors.As(err, &drain):
		return drainProblem(drain)
	case errors.Is(err, ErrOverloaded), errors.Is(err, ErrFull), errors.Is(err, ErrRaced), errors.Is(err, gate.ErrOverloaded):
		p := wire.NewProblem(wire.Overloaded, err.Error()+"; you hold nothing: try again")
		p.Title = "Too many ask at once"
		return p
	case errors.Is(err, gate.ErrTooManyKeys):
		return wire.NewProblem(wire.TooManyKeys, "the proxy keeps as many keys as its operator lets it, and this one would be new; you hold nothing: try again later, or ask the operator to look at max_keys")
	case errors.Is(err, ErrStopping), errors.Is(err, gate.ErrStopping):
		return wire.NewProblem(wire.ShuttingDown, "the proxy is stopping and grants nothing any more; leases that are held stay held: try again")
	}
	// tokenstore.ErrUnavailable, a client that has left and does not read this,
	// and whatever nobody thought of: fail closed.
	return wire.NewProblem(wire.StoreUnavailable, "the token store does not answer, so nobody can tell who holds the lease; count on nothing: try again")
}

// heldProblem says who has the lease, and for how long at the most.
func heldProblem(err *HeldError) *wire.Problem {
	if !err.Current.Held() {
		p := wire.NewProblem(wire.LeaseHeld, "others asked for the lease before and wait for it: try again, or ask with a longer wait")
		p.RetryAfter = time.Second
		return p
	}
	p := wire.NewProblem(wire.LeaseHeld, fmt.Sprintf("the lease is held by %q with token %d, and runs out in %v unless it is renewed: try again, or ask with a longer wait",
		err.Current.Holder, err.Current.Token.Major, max(err.Left.Round(time.Millisecond), time.Millisecond)))
	p.Holder, p.RetryAfter = err.Current.Holder, max(err.Left, time.Second)
	return p
}

func drainProblem(err *gate.DrainTimeoutError) *wire.Problem {
	why := "older writes on this key are still running, or were lost from sight and may still be applied"
	if err.Quarantined {
		why = "the proxy's last stop was not clean, and writes of before may still be applied on this key"
	}
	p := wire.NewProblem(wire.DrainTimeout, why+"; you do not hold the lease, though its token counts already: try again")
	p.RetryAfter = err.RetryAfter
	return p
}
