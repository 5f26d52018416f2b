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
}

// Foresee takes a request through everything that comes before the gate. It
// reads the body where a key is in it, and changes nothing.
func (h *Handler) Foresee(r *http.Request) Foresight {
	x := &exchange{h: h, w: nowhere{}, r: r}
	defer x.release()
	match, err := h.Table.Match(r)
	if err == nil {
		err = x.choose(match)
	}
	if err == nil && x.fenced {
		if err = x.readTokens(); err == nil {
			_, err = x.claims(&match)
		}
	}
	f := Foresight{Fenced: x.fenced, Read: match.Read}
	if err != nil {
		var refusal *route.Refusal
		if errors.As(err, &refusal) && x.rule == nil && refusal.Rule >= 0 {
			x.rule = &h.Rules[refusal.Rule]
		}
		f.Problem = x.problem(err)
	}
	f.Rule = x.rule
	return f
}

// nowhere is an answer that nobody gets.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)             {}
