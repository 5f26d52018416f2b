package route

import (
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// makeKey fills the template with the request's values. It fails closed: a
// part that is missing, empty, given twice, or that two upstreams could read
// in two ways has no value.
func (t template) makeKey(m *Match, r *http.Request) (tokenstore.Key, *Refusal) {
	var buf [256]byte
	key := buf[:0]
	for _, part := range t {
		if part.from == fromLiteral {
			key = append(key, part.text...)
			continue
		}
		value, why := part.value(m, r)
		if why == "" && value == "" {
			why = "is empty"
		}
		if why != "" {
			return "", refuse(KeyUnresolvable, m.Rule, "the part %s of the resource key %s", part.text, why)
		}
		key = appendValue(key, value, part.from.keepsSlash())
		if len(key) > tokenstore.MaxKey {
			break
		}
	}
	if len(key) > tokenstore.MaxKey {
		return "", refuse(KeyUnresolvable, m.Rule, "the resource key is longer than %d bytes; send a shorter name of the resource", tokenstore.MaxKey)
	}
	return tokenstore.Key(key), nil
}

// appendValue writes every byte outside the unreserved set as %XX.
func appendValue(key []byte, value string, keepSlash bool) []byte {
	const digits = "0123456789ABCDEF"
	for i := range len(value) {
		c := value[i]
		if unreserved[c] || c == '/' && keepSlash {
			key = append(key, c)
		} else {
			key = append(key, '%', digits[c>>4], digits[c&15])
		}
	}
	return key
}

// value is what a placeholder stands for, or why it has no value.
func (part *keyPart) value(m *Match, r *http.Request) (value, why string) {
	switch part.from {
	case fromParam, fromRest:
		return m.values[part.index], ""
	case fromPath:
		return m.path, ""
	case fromQuery:
		return queryValue(m.query, part.name)
	case fromHeader:
		return headerValue(r.Header, part.name)
	case fromHost:
		return hostValue(r)
	case fromMethod:
		if m.Override {
			return "", "is not known: the request carries a method override; send the method itself"
		}
		// Some upstreams take `put` for PUT: one resource, one key.
		return strings.ToUpper(r.Method), ""
	}
	return "", "has no source"
}

func headerValue(h http.Header, name string) (value, why string) {
	switch lines := h[name]; len(lines) {
	case 0:
		return "", "is missing; send the header once"
	case 1:
		return lines[0], ""
	}
	return "", "is given twice; send one header line"
}

// queryValue looks a field up in a raw query. The whole query must parse, and
// no second field may have a name that some framework takes for the same one
// (`ID`, `id[]`, `order_id` for `order.id`).
func queryValue(query, name string) (value, why string) {
	found := 0
	folded := foldField(name)
	for field := range strings.SplitSeq(query, "&") {
		if strings.IndexByte(field, ';') >= 0 {
			return "", "cannot be read: the query has a ;, which some upstreams take for &; write %3B"
		}
		rawName, rawValue, _ := strings.Cut(field, "=")
		n, err := url.QueryUnescape(rawName)
		if err != nil {
			return "", "cannot be read: the query has a broken percent-escape"
		}
		v, err := url.QueryUnescape(rawValue)
		if err != nil {
			return "", "cannot be read: the query has a broken percent-escape"
		}
		if foldField(n) != folded {
			continue
		}
		if found++; found > 1 {
			return "", "is given twice in the query; send it once"
		}
		if n != name {
			return "", "is spelt " + strconv.Quote(n) + " in the query; send it as it stands in the rule"
		}
		if strings.IndexByte(rawValue, '+') >= 0 {
			return "", "has a + in the query, which is a space to some upstreams; write %20 or %2B"
		}
		value = v
	}
	if found == 0 {
		return "", "is missing in the query; send it once"
	}
	return value, ""
}

// foldField makes one of all names that frameworks are known to merge: letter
// case, brackets, what follows a NUL, spaces around, and `.` or a space for _.
func foldField(name string) string {
	name = strings.TrimSpace(name)
	if i := strings.IndexAny(name, "[\x00"); i >= 0 {
		name = name[:i]
	}
	name = lower(name)
	if strings.ContainsAny(name, ". ") {
		name = strings.NewReplacer(".", "_", " ", "_").Replace(name)
	}
	return name
}

// hasMethodField reports whether the query carries `_method` in any spelling
// that a framework may take for it. A broken query is searched as well as it
// can be: in doubt the request counts as a write.
func hasMethodField(query string) bool {
	if len(query) < len("_method") {
		return false
	}
	for field := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' || r == '?' }) {
		name, _, _ := strings.Cut(field, "=")
		if len(name) < len("_method") {
			continue
		}
		if strings.ContainsAny(name, "%+") {
			name = strings.ReplaceAll(unescapeAll(name), "+", " ")
		}
		if foldField(name) == "_method" {
			return true
		}
	}
	return false
}

// hostValue is the host that the request names: small letters, without the
// default port of the listener and a trailing dot.
func hostValue(r *http.Request) (value, why string) {
	// net/http keeps Host out of the header; a request that has it there has
	// two of them.
	if _, twice := r.Header["Host"]; twice {
		return "", "is given twice; send one Host"
	}
	host, port, hasPort := r.Host, "", false
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host, port, hasPort = host[:i], host[i+1:], true
	}
	const bad = "is not a valid host; send Host as name or name:port"
	defaultPort := "80"
	if r.TLS != nil {
		defaultPort = "443"
	}
	if hasPort && port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || strconv.FormatUint(n, 10) != port {
			return "", bad
		}
	}
	if strings.HasPrefix(host, "[") {
		addr, err := netip.ParseAddr(strings.TrimSuffix(host[1:], "]"))
		if err != nil || !addr.Is6() || addr.Zone() != "" || !strings.HasSuffix(host, "]") {
			return "", bad
		}
		host = "[" + addr.String() + "]"
	} else {
		host = strings.TrimSuffix(lower(host), ".")
		for i := range len(host) {
			if !unreserved[host[i]] || host[i] == '.' && (i == 0 || host[i-1] == '.') {
				return "", bad
			}
		}
		if strings.HasSuffix(host, ".") {
			return "", bad
		}
	}
	if host == "" || port == "" || port == defaultPort {
		return host, ""
	}
	return host + ":" + port, ""
}
