package upstream

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// field is one header field.
type field struct{ name, value string }

// forwarded returns the fields that tell the upstream who asks; one without a
// value is left out. What a client says of itself is replaced. A trusted proxy
// in front is believed: its lists get one entry more, and the host and scheme
// that it tells stay. A client without an address (on a unix socket) has no
// entry.
func (u *Upstream) forwarded(r *Request) [4]field {
	peer, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		peer = ""
	}
	f := [4]field{{"X-Forwarded-For", peer}, {"X-Forwarded-Host", r.Host}, {"X-Forwarded-Proto", r.Scheme}, {"Forwarded", ""}}
	if !u.trusts(r) {
		return f
	}
	f[0].value = extend(r.Header["X-Forwarded-For"], peer)
	for i := range f[1:3] {
		if said := extend(r.Header[f[1+i].name], ""); said != "" {
			f[1+i].value = said
		}
	}
	if said := r.Header["Forwarded"]; len(said) > 0 { // RFC 7239; nobody who does not use it gets it
		f[3].value = extend(said, "for="+node(peer))
	}
	return f
}

// extend makes one list of the lines of a field, and appends last.
func extend(lines []string, last string) string {
	list := make([]string, 0, len(lines)+1)
	for _, v := range append(lines[:len(lines):len(lines)], last) {
		if v = strings.Trim(v, " \t"); v != "" {
			list = append(list, v)
		}
	}
	return strings.Join(list, ", ")
}

// node is a peer as RFC 7239 wants it: IPv6 in brackets and quotes.
func node(peer string) string {
	if strings.Contains(peer, ":") {
		return `"[` + peer + `]"`
	}
	return peer
}

// trusts reports whether the client is a proxy whose word on others counts.
func (u *Upstream) trusts(r *Request) bool {
	if len(u.trusted) == 0 {
		return false
	}
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	ip := at.Addr().Unmap().WithZone("")
	for _, p := range u.trusted {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// pretends reports whether a field, in canonical spelling, would tell the
// upstream on whose behalf the client asks, without the client having a right
// to say so. A trusted proxy passes on what it does not know, so other
// spellings that servers fold to X-Forwarded-* are its client's, not its own.
func pretends(name string, trusted bool) bool {
	if name == "" || name[0] != 'X' {
		return false
	}
	folded := dashed(name)
	return strings.HasPrefix(folded, "X-Forwarded-") && !(trusted && folded == name)
}

// trailerSent keeps out of the request's trailers what trailerAllowed does, and
// what the proxy tells the upstream by itself.
func trailerSent(name string) bool {
	canonical := http.CanonicalHeaderKey(name)
	return trailerAllowed(name) && !ownField(canonical) && !pretends(canonical, false)
}
