package route

import (
	"net/http"
	"strings"
)

// Match is what the rules say of a request.
type Match struct {
	// Rule is the index of the rule that covers the request, or -1.
	Rule int
	// PathRule is the index of a rule whose path matches but whose methods
	// leave the request out, or -1: why a write is not covered.
	PathRule int
	// Write: the method is not safe, the request carries a method override, or
	// it is a websocket handshake.
	Write bool
	// Read: the request is safe and covered because it carries a token of a
	// rule with FenceReads. It is checked, raises and drains like a write, but
	// holds nothing.
	Read bool
	// Upgrade: the request is a websocket handshake that a rule with WebSocket
	// covers. What it opens is held like a write until it is closed.
	Upgrade bool
	// Override: the request carries a method-override header or `_method`.
	Override bool
	// Target is the request target to forward, path and query byte for byte.
	// Only the authority of an absolute-form is taken off; net/http has it in
	// r.Host. Where the rule's policy normalizes, it is the canonical form, and
	// the key is that form's.
	Target string

	cover  *covering
	path   string // canonical, decoded, relaxed by the rule's policy; the key's {path}
	query  string // raw
	values values // of the path's parameters, in path
}

// Covered reports whether a rule covers the request. A covered request passes
// the fence, a safe one too where a rule names its method or fences reads that
// carry a token. Of the others, safe ones are forwarded untouched, and of
// writes unmatched_writes decides.
func (m *Match) Covered() bool { return m.cover != nil }

// Match finds the rule of a request, or why the request must not be forwarded;
// its errors are *Refusal. It reads r.Method, r.RequestURI and r.Header (of a
// handshake its version and r.ContentLength too), and changes nothing.
//
// Which checks see which request (contract, section 3):
//
//	check                         covered  other write  other safe request
//	CONNECT, `*`, PRI, no target  refused  refused      refused
//	Upgrade (c)                   refused  refused      refused
//	an offer of h2c               ignored  ignored      ignored
//	method override               counts   counts       makes it a write
//	target not canonical          refused  passes (a)   passes
//	path-alias                    refused  refused      passes (b)
//	header-alias                  refused  refused      passes
//	connection-option             refused  passes       passes
//	rewrite headers, trailers     dropped  dropped      dropped
//
// (a) A target that is not canonical counts as covered when a rule covers it
// as it stands or in its folded form. Where servers read it in different ways,
// so that it has no one folded form, it is refused: see ambiguous.
// (b) Unless a rule with a safe method in its `methods`, or with FenceReads
// where the request carries its token, covers what it folds to.
// (c) A websocket handshake passes on a path of a rule with WebSocket.
func (t *Table) Match(r *http.Request) (Match, error) {
	m, _, refusal := t.match(r)
	if refusal != nil {
		return m, refusal
	}
	return m, nil
}

// match is Match with the target that it read.
func (t *Table) match(r *http.Request) (Match, target, *Refusal) {
	m := Match{Rule: -1, PathRule: -1}
	target, refusal := splitTarget(r.Method, r.RequestURI)
	if refusal != nil {
		return m, target, refusal
	}
	m.Target, m.query = target.forward, target.query
	q, found := t.ask(r, target.query)
	m.Override = q.override
	if found.upgrade && !q.upgrade {
		return m, target, refuse(UpgradeRefused, -1, "Upgrade would open a tunnel past the fence: %s", notWebSocket(r, q.override))
	}
	m.Write = q.override || q.upgrade || !IsSafe(r.Method)
	if !m.Write && !q.token && !t.fencesSafe {
		return m, target, nil
	}
	if refusal := t.matchPath(&m, &q, target); refusal != nil {
		return m, target, refusal
	}
	if m.cover == nil {
		if refusal := t.disguised(&q, target); refusal != nil {
			return m, target, refusal
		}
	}
	return m, target, t.checkHeaders(&m, &q, &found)
}

// ask makes the question of a request, by its headers and its raw query.
func (t *Table) ask(r *http.Request, query string) (question, findings) {
	found := t.guard.inspect(r.Header)
	q := question{method: r.Method, header: r.Header, misspelt: found.alias != ""}
	q.override = found.override || hasMethodField(query)
	q.upgrade = found.upgrade && notWebSocket(r, q.override) == ""
	q.token = found.reads && !q.override && !q.upgrade && IsSafe(r.Method)
	return q, found
}

// checkHeaders is what comes after the target and its rule.
func (t *Table) checkHeaders(m *Match, q *question, found *findings) *Refusal {
	switch {
	case m.cover == nil && q.upgrade:
		return refuse(UpgradeRefused, m.PathRule, "Upgrade would open a tunnel past the fence: no rule of this path has websocket: true; send the request without Upgrade, or have the rule say so")
	case m.cover == nil && !m.Write:
		return nil
	case found.alias != "":
		return refuse(HeaderAlias, m.Rule, "the header %s is read as %s by some upstreams; spell it %s or leave it out", found.alias, found.aliasOf, found.aliasOf)
	case m.cover == nil:
		return nil
	}
	if name := t.guard.nominated(q.header); name != "" {
		return refuse(ConnectionOption, m.Rule, "Connection names %s, which would be taken off on the way to the upstream; leave it out of Connection", name)
	}
	m.Upgrade = q.upgrade
	m.Read = !m.Write && !m.cover.methods.has(q.method)
	return nil
}

// notWebSocket says why a request with Upgrade is no websocket handshake as
// RFC 6455 has it, or returns "". Whatever else a server may upgrade to is
// nothing that the fence could follow.
func notWebSocket(r *http.Request, override bool) string {
	switch lines := r.Header["Upgrade"]; {
	case len(lines) != 1 || !strings.EqualFold(lines[0], "websocket"):
		return "only Upgrade: websocket can pass, and only where a rule allows it; send the request without it"
	case r.Method != http.MethodGet || override:
		return "a websocket is opened by a GET without a method override; send that"
	case r.ProtoMajor > 1:
		return "over HTTP/2 there is no Upgrade; open the websocket over HTTP/1.1"
	case r.ProtoMajor == 1 && r.ProtoMinor == 0:
		return "HTTP/1.0 has no Upgrade; open the websocket over HTTP/1.1"
	case r.ContentLength != 0:
		return "the handshake has a body, which the upstream could take for frames; leave it out"
	case !namesUpgrade(r.Header["Connection"]):
		return "Connection does not name it; send Connection: Upgrade"
	}
	return ""
}

func namesUpgrade(connection []string) bool {
	for _, line := range connection {
		for option := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.Trim(option, " \t"), "upgrade") {
				return true
			}
		}
	}
	return false
}
