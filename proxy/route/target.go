package route

import "strings"

// target is a request target, cut from the bytes that the client sent. r.URL
// is never asked: net/http has decoded it and two spellings look alike there.
type target struct {
	path     string // raw, begins with '/', without query
	query    string // raw, without '?'
	forward  string // origin-form: what the upstream gets, byte for byte
	absolute bool   // the client sent the absolute-form
}

// aURL is what an absolute-form target has too much.
const aURL = "a scheme and a host (it is a URL, not in origin-form)"

// splitTarget reads the origin-form or the absolute-form. In the absolute-form
// net/http has already put the target's authority into r.Host, as RFC 9112
// section 3.2.2 wants it; what is left to forward is the origin-form.
func splitTarget(method, uri string) (target, *Refusal) {
	t := target{forward: uri}
	switch {
	case method == "CONNECT":
		return t, refuse(MethodNotAllowed, -1, "CONNECT would open a tunnel past the fence; send the request itself")
	case method == "PRI":
		return t, refuse(BadRequest, -1, "PRI is no method of a request; it only opens an HTTP/2 connection")
	case uri == "*":
		return t, refuse(BadRequest, -1, "the target * names no resource; send the path of one")
	case uri == "":
		return t, refuse(BadRequest, -1, "the request has no target; send a path that begins with /")
	case uri[0] != '/':
		rest, ok := cutScheme(uri)
		if !ok {
			return t, refuse(BadRequest, -1, "the target is neither a path nor an http or https URL; send a path that begins with /")
		}
		end := strings.IndexAny(rest, "/?#")
		if end < 0 {
			end = len(rest)
		}
		if end == 0 {
			return t, refuse(BadRequest, -1, "the target is a URL without a host; send a path that begins with /")
		}
		t.absolute = true
		t.forward = rest[end:]
		if t.forward == "" && method == "OPTIONS" {
			// RFC 9112 section 3.2.4 makes this OPTIONS *.
			return t, refuse(BadRequest, -1, "OPTIONS for a whole server names no resource; send the path of one")
		}
		if t.forward == "" || t.forward[0] != '/' {
			t.forward = "/" + t.forward
		}
	}
	t.path, t.query, _ = strings.Cut(t.forward, "?")
	return t, nil
}

func cutScheme(uri string) (rest string, ok bool) {
	for _, s := range [...]string{"http://", "https://"} {
		if len(uri) >= len(s) && strings.EqualFold(uri[:len(s)], s) {
			return uri[len(s):], true
		}
	}
	return "", false
}
