package proxy

import (
	"fmt"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/route"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// readKeys takes the keys from the request: from its body too, where that
// names a resource.
func (x *exchange) readKeys(match *route.Match) (err error) {
	var body []byte
	if x.book.Table.NeedsBody(match) {
		if body, err = x.readWhole(); err != nil {
			return err
		}
	}
	x.keys, err = x.book.Table.Keys(match, x.r, body)
	return err
}

// claims puts keys and tokens together.
func (x *exchange) claims() ([]gate.Claim, error) {
	claims := x.one.claim[:0]
	for i, key := range x.keys {
		c := x.claim(key, &x.tokens[i])
		at := indexKey(claims, key)
		switch {
		case at < 0:
			claims = append(claims, c)
		case claims[at] != c:
			return nil, fmt.Errorf("%w: %s names the key %s that another header names too, so both tokens must be equal", errTokenAmbiguous, x.tokens[i].header, key)
		}
	}
	return claims, x.plausible()
}

func (x *exchange) claim(key tokenstore.Key, t *token) gate.Claim {
	if t.missing {
		return gate.Claim{Key: key, Unordered: true}
	}
	return gate.Claim{
		Key: key, Token: t.value, Holder: x.holder, Suspect: x.rule.Suspect || x.book.suspects(key), MaxJump: x.rule.MaxJump,
	}
}

// plausible looks at the bound that does not depend on what is stored.
func (x *exchange) plausible() error {
	if !x.rule.HasMaxToken {
		return nil
	}
	for i := range x.tokens {
		// The bound says nothing of the epoch, which is the operator's.
		if t := &x.tokens[i]; !t.missing && (tokenstore.Token{Major: x.rule.MaxToken.Major, Minor: x.rule.MaxToken.Minor}).Less(tokenstore.Token{Major: t.value.Major, Minor: t.value.Minor}) {
			return fmt.Errorf("%w: %s is %s", errTokenImplausible, t.header, t.text)
		}
	}
	return nil
}

func indexKey(claims []gate.Claim, key tokenstore.Key) int {
	for i := range claims {
		if claims[i].Key == key {
			return i
		}
	}
	return -1
}
