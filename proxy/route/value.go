package route

import (
	"net/http"
	"strings"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// makeKey fills the template with the request's values. It fails closed: a
// part that is missing, empty, given twice, or that two upstreams could read
// in two ways has no value.
func (t template) makeKey(m *Match, r *http.Request, body []byte) (tokenstore.Key, *Refusal) {
	var buf [256]byte
	key := buf[:0]
	for i := range t {
		part := &t[i]
		if part.from == fromLiteral {
			key = append(key, part.text...)
			continue
		}
		value, why := part.value(m, r, body)
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

// appendValue writes every byte outside the unreserved set as %XX. Where the
// slashes of a path stay, what decode left of an encoded one is the escape.
func appendValue(key []byte, value string, keepSlash bool) []byte {
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case unreserved[c] || c == '/' && keepSlash:
			key = append(key, c)
		case keepSlash && isSlashMark(value, i):
			key = append(key, slashMark...)
			i += 2
		default:
			key = appendEscape(key, c)
		}
	}
	return key
}

// value is what a placeholder stands for behind its filters, or why it has no
// value.
func (part *keyPart) value(m *Match, r *http.Request, body []byte) (value, why string) {
	value, why = part.raw(m, r, body)
	for _, f := range part.filters {
		if why != "" {
			break
		}
		value, why = f.apply(value)
	}
	if why == "" && value == "" {
		why = "is empty"
	}
	return value, why
}

// raw is the value before the filters.
func (part *keyPart) raw(m *Match, r *http.Request, body []byte) (value, why string) {
	switch part.from {
	case fromParam:
		return unmark(m.values[part.index]), ""
	case fromRest:
		return m.values[part.index], ""
	case fromPath:
		return m.path, ""
	case fromQuery:
		return queryValue(m.query, part.name, r.Header)
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
	case fromGRPCService, fromGRPCMethod:
		return grpcValue(m.path, part.from)
	case fromJSON, fromForm, fromXML:
		return part.bodyValue(m, r, body)
	}
	return "", "has no source"
}

// grpcValue reads the path of a gRPC call, /package.Service/Method. The
// content type does not count: gRPC-Web and Connect call the same methods by
// the same path.
func grpcValue(path string, from source) (value, why string) {
	service, method, ok := strings.Cut(path[1:], "/")
	if !ok || method == "" || strings.Contains(method, "/") {
		return "", "is not known: the path is not that of a gRPC call; send it as /package.Service/Method"
	}
	if from == fromGRPCService {
		return unmark(service), ""
	}
	return unmark(method), ""
}

func headerValue(h http.Header, name string) (value, why string) {
	switch lines := h[name]; len(lines) {
	case 0:
		return "", "is missing; send the header once"
	case 1:
		// A folded line leaves blanks at the end, which no server keeps.
		value = strings.Trim(lines[0], " \t")
		if !isASCII(value) {
			return "", "is not ASCII, and servers read such bytes in different ways; send it in ASCII"
		}
		return value, ""
	}
	return "", "is given twice; send one header line"
}
