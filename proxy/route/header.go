package route

import (
	"fmt"
	"net/http"
	"strings"
)

// headerKind says what a header name means to the fence.
type headerKind uint8

const (
	protectedHeader headerKind = iota // fencing, holder and key headers
	overrideHeader                    // makes any request a write
	rewriteHeader                     // never forwarded
	upgradeHeader                     // Upgrade itself
	settingsHeader                    // HTTP2-Settings: part of an h2c upgrade, never forwarded
)

// known is one header name that the guard looks for.
type known struct {
	folded string
	spelt  string // a protected header's only right spelling, canonical
	kind   headerKind
	reads  bool // it carries tokens of a rule with FenceReads
}

// guard knows the headers that have a meaning. Its names are sorted by length,
// so that the headers without a meaning cost one look at theirs.
type guard [][]known

func (g *guard) add(k known) {
	for len(*g) <= len(k.folded) {
		*g = append(*g, nil)
	}
	(*g)[len(k.folded)] = append((*g)[len(k.folded)], k)
}

// find returns what a name folds to, or nil.
func (g guard) find(name string) *known {
	if len(name) >= len(g) {
		return nil
	}
	for i := range g[len(name)] {
		if k := &g[len(name)][i]; foldsTo(name, k.folded) {
			return k
		}
	}
	return nil
}

// protect adds a fencing, holder or key header, in the spelling that counts.
func (g *guard) protect(name string) error {
	spelt := http.CanonicalHeaderKey(name)
	if !isToken(name) {
		return fmt.Errorf("%q is no name of a header", name)
	}
	if why := unfitForKey(spelt); why != "" {
		return fmt.Errorf("the header %s cannot be used: %s", spelt, why)
	}
	if k := g.find(spelt); k != nil {
		if k.spelt != spelt {
			return fmt.Errorf("the headers %s and %s differ only in _ and . for -, and each would be refused as an alias of the other", spelt, k.spelt)
		}
		return nil
	}
	g.add(known{folded: foldName(spelt), spelt: spelt, kind: protectedHeader})
	return nil
}

// newGuard knows the headers that have a meaning whatever the rules say.
func newGuard() guard {
	var g guard
	for _, k := range []known{
		{folded: "x-http-method-override", kind: overrideHeader},
		{folded: "x-http-method", kind: overrideHeader},
		{folded: "x-method-override", kind: overrideHeader},
		{folded: "x-original-url", kind: rewriteHeader},
		{folded: "x-rewrite-url", kind: rewriteHeader},
		{folded: "upgrade", kind: upgradeHeader},
		{folded: "http2-settings", kind: settingsHeader},
	} {
		g.add(k)
	}
	return g
}

// fixed is never changed.
var fixed = newGuard()

// findings is what one pass over the headers of a request finds.
type findings struct {
	override bool
	upgrade  bool
	reads    bool   // a token header, however spelt, of a rule with FenceReads
	alias    string // a header that folds to a protected one, as it is spelt
	aliasOf  string
}

func (g guard) inspect(h http.Header) (f findings) {
	for name, values := range h {
		k := g.find(name)
		if k == nil {
			continue
		}
		switch k.kind {
		case overrideHeader:
			f.override = true
		case upgradeHeader:
			f.upgrade = f.upgrade || !offersH2C(name, values)
		case protectedHeader:
			f.reads = f.reads || k.reads
			// The lowest of several, so that answers do not vary.
			if !strings.EqualFold(name, k.spelt) && (f.alias == "" || name < f.alias) {
				f.alias, f.aliasOf = name, k.spelt
			}
		}
	}
	return f
}

// offersH2C reports whether the header is the offer to go on in HTTP/2, which
// Java's client, for one, makes with every first request. It is ignored, as any
// server may: the hop passes no Upgrade on, and the exchange stays as it is.
func offersH2C(name string, values []string) bool {
	return name == "Upgrade" && len(values) == 1 && strings.EqualFold(values[0], "h2c")
}

// nominated returns the first name in Connection that must reach the upstream.
// A nominated header is taken off by the next hop, and the token with it.
func (g guard) nominated(h http.Header) string {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			name = strings.Trim(name, " \t")
			k := g.find(name)
			if k != nil && k.kind == protectedHeader || foldsTo(name, "host") ||
				len(name) > len("content-") && foldsTo(name[:len("content-")], "content-") {
				return name
			}
		}
	}
	return ""
}

// Clean takes the headers off that are never forwarded, whatever the request:
// X-Original-URL and X-Rewrite-URL, which make some upstreams serve another
// target than the one that was checked, in every spelling that folds to them,
// and HTTP2-Settings. It changes h.
func Clean(h http.Header) {
	for name := range h {
		if k := fixed.find(name); k != nil && (k.kind == rewriteHeader || k.kind == settingsHeader) {
			delete(h, name)
		}
	}
}

// DropTrailer reports whether a trailer of this name, declared or not, must
// not be forwarded: it folds to a fencing, holder, key, override or rewrite
// header. A token in a trailer never counts.
func (t *Table) DropTrailer(name string) bool { return t.guard.find(name) != nil }

// foldName folds a header name for comparison: small letters, and - for
// whatever is no letter and no digit, since CGI makes _ of all of it.
func foldName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		case ('a' > r || r > 'z') && ('0' > r || r > '9'):
			return '-'
		}
		return r
	}, name)
}

// foldsTo reports whether foldName(name) is folded, without allocation.
func foldsTo(name, folded string) bool {
	if len(name) != len(folded) {
		return false
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		case ('a' > c || c > 'z') && ('0' > c || c > '9'):
			c = '-'
		}
		if c != folded[i] {
			return false
		}
	}
	return true
}

// unfitForKey says why a header can be neither a key part nor a fencing
// header: it does not reach the upstream as it came, or means something else.
func unfitForKey(name string) string {
	folded := foldName(name)
	switch folded {
	case "host":
		return "net/http keeps Host apart; use {host}"
	case "connection", "keep-alive", "te", "trailer", "transfer-encoding", "content-length", "expect", "upgrade", "http2-settings":
		return "it belongs to one connection and is not forwarded"
	case "forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto":
		return "the proxy writes it anew, so that a client could choose its key at will"
	}
	if strings.HasPrefix(folded, "proxy-") {
		return "it belongs to one connection and is not forwarded"
	}
	if fixed.find(name) != nil {
		return "it has a meaning of its own to the fence"
	}
	return ""
}

func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !isLetter(c) && (c < '0' || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}
