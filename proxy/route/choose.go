package route

import "net/http"

// question is what decides beside the path which rule of a leaf covers a
// request.
type question struct {
	method   string
	override bool // carries a method override
	upgrade  bool // is a websocket handshake
	token    bool // is safe and carries a token header of some rule with FenceReads
	header   http.Header
	misspelt bool // some header folds to a protected one and is spelt otherwise
}

// choose picks the rule of a leaf that covers the request. several says that
// more than one rule may be meant, and nothing tells which.
func (l *leaf) choose(q *question) (c *covering, several bool) {
	switch {
	case l == nil:
		return nil, false
	case q.override:
		// The method that counts is not known.
		return &l.rules[0], len(l.rules) > 1
	case q.upgrade:
		for i := range l.rules {
			if l.rules[i].rule.WebSocket { // one at most: see clash
				return &l.rules[i], false
			}
		}
		return nil, false
	}
	// A rule without methods covers `get`, and so does one with GET: the
	// spelling as it stands goes first.
	for i := range l.rules {
		if ms := l.rules[i].methods; ms == nil && !IsSafe(q.method) || ms.has(q.method) {
			return &l.rules[i], false
		}
	}
	for i := range l.rules {
		if l.rules[i].methods.covers(q.method) {
			return &l.rules[i], false
		}
	}
	if q.token {
		return l.chooseReader(q)
	}
	return nil, false
}

// chooseReader picks the rule that fences a read, by the token headers that it
// carries. Rules with the same keys are as good as one.
func (l *leaf) chooseReader(q *question) (c *covering, several bool) {
	for i := range l.rules {
		next := &l.rules[i]
		if !next.rule.FenceReads || !next.carries(q.header, q.misspelt) {
			continue
		}
		if c == nil {
			c = next
		} else if !c.sameKeys(next.compiled) {
			several = true
		}
	}
	return c, several
}
