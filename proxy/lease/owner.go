package lease

import (
	"context"
	"fmt"
	"strings"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Owner is a rule that can make a key.
type Owner struct {
	Rule   string
	Format tokenstore.Format
	Epoch  uint64
	// MaxToken is the highest token that the rule lets pass; zero for no bound.
	MaxToken tokenstore.Token
	// Fence raises token on key and waits until every older write is over. Its
	// errors are the gate's. A context that ends is a client that has left.
	Fence func(ctx context.Context, key tokenstore.Key, token tokenstore.Token) error
}

// owner is the rule that a lease of key is for: its epoch goes into the token,
// and its fence is raised. Without one, which only a lease without a fence may
// have, it is the zero Owner.
func (i *Issuer) owner(key tokenstore.Key, rule string, fence bool) (Owner, error) {
	all := i.o.Owners(key)
	switch {
	case len(all) == 0 && rule != "":
		return Owner{}, &KeyError{fmt.Sprintf("rule %q cannot make this key, and no other can: look at the key of that rule, or leave the rule out with \"fence\": false", rule)}
	case len(all) == 0 && fence:
		return Owner{}, &KeyError{`no rule can make this key, so that no write could be fenced with it: spell it as the key of a rule comes out, as in answers and logs, or say "fence": false for a lock alone`}
	case len(all) == 0:
		return Owner{}, nil
	}
	one, err := choose(all, rule)
	if err == nil && one.Format != tokenstore.Decimal {
		err = &KeyError{fmt.Sprintf("rule %q, which can make this key, has %s tokens, and leases have decimal ones: set its format to decimal", one.Rule, one.Format)}
	}
	return one, err
}

// renewOwner takes over what a reload has made of the rule since it was looked
// up, which may be hours ago. changed says that tokens have another epoch now: one
// of before would fence nothing.
func (i *Issuer) renewOwner(a *asking) (changed bool, err error) {
	now, err := i.owner(a.Key, a.Rule, a.Fence)
	if err != nil {
		return false, err
	}
	changed = now.Epoch != a.owner.Epoch
	a.owner = now
	return changed, nil
}

// choose returns the rule of that name, or the first of rules whose tokens are
// all alike.
func choose(all []Owner, rule string) (Owner, error) {
	var names []string
	alike := true
	for _, o := range all {
		if o.Rule == rule {
			return o, nil
		}
		names = append(names, o.Rule)
		alike = alike && o.Epoch == all[0].Epoch && o.Format == all[0].Format
	}
	switch {
	case rule != "":
		return Owner{}, &KeyError{fmt.Sprintf("rule %q cannot make this key; these can: %s", rule, strings.Join(names, ", "))}
	case !alike:
		return Owner{}, &KeyError{fmt.Sprintf("the rules that can make this key differ in epoch or format: name one of them as \"rule\": %s", strings.Join(names, ", "))}
	}
	return all[0], nil
}

// plausible refuses a token that the rule would refuse in every write. A higher
// epoch would not help: one counter makes the tokens of all keys and epochs.
func (o *Owner) plausible(key tokenstore.Key, token tokenstore.Token) error {
	if o.MaxToken != (tokenstore.Token{}) && o.MaxToken.Major < token.Major {
		return &TokenError{fmt.Sprintf("key %s: the next token, %d, is above the max_token of rule %s, which would refuse every write: raise max_token; a higher epoch does not help, since one counter makes the tokens of all keys", key, token.Major, o.Rule)}
	}
	return nil
}
