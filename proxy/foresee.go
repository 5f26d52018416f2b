package proxy

import (
	"errors"
	"net/http"

	"github.com/fenceproxy/fenceproxy/proxy/route"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// Foresight is what can be said of a request before the gate looks at it.
type Foresight struct {
	// Rule covers the request, or nil.
	Rule *Rule
	// Fenced says that the gate decides about it, on Keys with Tokens.
	Fenced bool
	// Read says that it holds nothing once it is admitted.
	Read bool
	// Problem is what it gets whatever the store says; nil where that depends
	// on the highest token.
	Problem *wire.Problem
	// Observed says that its rule only observes: it is forwarded all the same,
	// and Problem only told in Fencing-Result.
	Observed bool
	// Tokenless says that it passes without a token.
	Tokenless bool
}

// Foresee takes a request through everything that comes before the gate. It
// reads the body where a key is in it, and changes nothing.
func (h *Handler) Foresee(r *http.Request) Foresight {
	x := &exchange{h: h, w: nowhere{}, r: r, book: h.books.open()}
	defer x.leaveBook(false)
	defer x.release()
	match, err := x.book.Table.Match(r)
	past := x.book.looksPast(err)
	if err == nil {
		err = x.choose(match)
	}
	if err == nil && x.fenced {
		err = x.foresee(&match)
	}
	f := Foresight{Fenced: x.fenced || past != nil, Read: match.Read}
	f.Observed = past != nil || x.fenced && x.rule.Observe && !errors.Is(err, errBadBody)
	f.Tokenless = err == nil && x.fenced && x.tokenless()
	if err != nil {
		var refusal *route.Refusal
		if errors.As(err, &refusal) && x.rule == nil && refusal.Rule >= 0 {
			x.rule = &x.book.Rules[refusal.Rule]
		}
		f.Problem = x.problem(err)
	}
	f.Rule = x.rule
	return f
}

func (x *exchange) foresee(match *route.Match) error {
	if err := x.readTokens(); err != nil {
		return err
	}
	if err := x.readKeys(match); err != nil {
		return err
	}
	_, err := x.claims()
	return err
}

// nowhere is an answer that nobody gets.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)             {}
