package admin

import (
	"context"
	"fmt"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// owner is whose tokens a key has.
type owner struct {
	Rule
	known bool     // a rule can make the key; else only its Format says something
	all   []string // the names of the rules that can, where they are several
}

// owner finds the rule that can make a key. named is what the caller says: it is
// needed where the rules that can make it differ in format or epoch, or where
// none can and the formats of all rules differ.
func (a *api) owner(key tokenstore.Key, named string) (o owner, refusal *wire.Refusal) {
	var said *Rule
	if named != "" {
		for i := range a.Rules {
			if a.Rules[i].Name == named && a.Rules[i].Fenced {
				said = &a.Rules[i]
			}
		}
		if said == nil {
			return o, malformed(fmt.Sprintf("no fenced rule has the name %q", named))
		}
	}
	owners := a.owners(key)
	switch {
	case len(owners) == 0 && said != nil:
		return owner{Rule: Rule{Format: said.Format}}, nil
	case len(owners) == 0:
		format, plain := a.anyFormat()
		if !plain {
			return o, malformed("no rule can make this key, and the rules have different formats of tokens: name the one that it had, as in ?rule=NAME")
		}
		return owner{Rule: Rule{Format: format}}, nil
	case said != nil:
		for _, r := range owners {
			if r.Name == named {
				return owner{*r, true, names(owners)}, nil
			}
		}
		return o, malformed(fmt.Sprintf("the rule %q cannot make this key; %q can", named, owners[0].Name))
	}
	for _, r := range owners[1:] {
		if r.Format != owners[0].Format || r.Epoch != owners[0].Epoch {
			return o, malformed(fmt.Sprintf("the rules %s and %s can make this key, and their tokens differ in format or epoch: name one, as in ?rule=%s", owners[0].Name, r.Name, r.Name))
		}
	}
	return owner{*owners[0], true, names(owners)}, nil
}

// unmade refuses a key that no rule can make and of which nothing is known: a
// spelling that is nobody's. One that an older rule has made is known by its
// record, or by what still goes on at it. A quarantine of the whole store says
// nothing of a key without a record.
func (a *api) unmade(ctx context.Context, key tokenstore.Key) *wire.Refusal {
	if len(a.owners(key)) > 0 {
		return nil
	}
	st := a.Gate.Status(key, false)
	if len(st.InFlight) > 0 || len(st.Unsettled) > 0 || st.Waiting > 0 {
		return nil
	}
	_, recorded, err := a.load(ctx, key)
	if err != nil {
		return refusalOfRead(err, tokenstore.Decimal)
	}
	held, err := a.lease(ctx, key, tokenstore.Token{})
	if err != nil {
		return refusalOfRead(err, tokenstore.Decimal)
	}
	if recorded || held != nil {
		return nil
	}
	return noRule()
}

func noRule() *wire.Refusal {
	return malformed("no rule can make this key: look at its spelling, as answers and logs have it")
}

// names are none for a single rule, which is named already.
func names(rules []*Rule) (all []string) {
	if len(rules) < 2 {
		return nil
	}
	for _, r := range rules {
		all = append(all, r.Name)
	}
	return all
}

func (a *api) owners(key tokenstore.Key) (rules []*Rule) {
	for _, i := range a.Owners(key) {
		if r := &a.Rules[i]; r.Fenced {
			rules = append(rules, r)
		}
	}
	return rules
}

// listed is owner for a list, in which nobody is named: the first one, and else
// all numbers of the token.
func (a *api) listed(key tokenstore.Key) owner {
	if owners := a.owners(key); len(owners) > 0 {
		return owner{Rule: *owners[0], known: true}
	}
	format, plain := a.anyFormat()
	if !plain {
		format = tokenstore.Composite
	}
	return owner{Rule: Rule{Format: format}}
}

// anyFormat is the format of all rules, where they have one.
func (a *api) anyFormat() (f tokenstore.Format, plain bool) {
	f, first := tokenstore.Decimal, true
	for i := range a.Rules {
		r := &a.Rules[i]
		switch {
		case !r.Fenced:
		case first:
			f, first = r.Format, false
		case r.Format != f:
			return f, false
		}
	}
	return f, true
}

// claim is what a raise of token on key asks of the gate: as much as a write of
// any rule that can make the key. One of before a crash may have gone under
// another key where a rule is suspect, so that the record does not tell of it.
func (a *api) claim(key tokenstore.Key, token tokenstore.Token, holder string) gate.Claim {
	c := gate.Claim{Key: key, Token: token, Holder: holder}
	for _, r := range a.owners(key) {
		c.Suspect = c.Suspect || r.Suspect
	}
	return c
}

// parse reads a token as a client writes it, which then is one of the rule's
// epoch, or with an epoch of its own in front.
func (o owner) parse(s string) (tokenstore.Token, *wire.Refusal) {
	if t, err := o.Format.Parse(s); err == nil {
		t.Epoch = o.Epoch
		return t, nil
	}
	t, err := o.Format.ParseMark(s)
	if err != nil {
		r := wire.NewRefusal(wire.TokenMalformed, err.Error()+"; an epoch may stand in front, as in 3/120")
		r.Token = s
		return t, r
	}
	return t, nil
}
