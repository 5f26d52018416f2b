package upstream

import (
	"net/http"
	"strings"
)

// hopByHop reports whether a field, in canonical spelling, belongs to one
// connection only. Of the Proxy- fields it names those that HTTP/1.1 defines
// for one hop; Proxy-Status, for one, is end-to-end.
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Proxy-Connection", "Proxy-Authenticate", "Proxy-Authentication-Info", "Proxy-Authorization":
		return true
	}
	return false
}

// ownField reports whether a request field is not passed on because it is
// hop-by-hop or because the proxy writes or decides it by itself, in any
// spelling that an upstream may take for it: Content_Length is CONTENT_LENGTH to
// many a WSGI server.
func ownField(name string) bool {
	name = dashed(name)
	switch name {
	case "Host", "Content-Length", "Expect", "Http2-Settings",
		"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto":
		return true
	}
	return hopByHop(name) || strings.HasPrefix(name, "Proxy-")
}

// dashed is the canonical spelling of the field that servers may take name for:
// CGI makes _ of every byte that is no letter and no digit (as route's foldName
// knows, too).
func dashed(name string) string {
	if strings.IndexFunc(name, foldsToDash) < 0 {
		return name
	}
	return http.CanonicalHeaderKey(strings.Map(func(r rune) rune {
		if foldsToDash(r) {
			return '-'
		}
		return r
	}, name))
}

func foldsToDash(r rune) bool {
	return ('a' > r || r > 'z') && ('A' > r || r > 'Z') && ('0' > r || r > '9') && r != '-'
}

// nominated returns the fields that Connection names, in canonical spelling;
// nil where there are none.
func nominated(h http.Header) map[string]bool {
	lines := h["Connection"]
	if len(lines) == 0 || len(lines) == 1 && lines[0] == "keep-alive" { // nearly always; Keep-Alive is hop-by-hop anyway
		return nil
	}
	var names map[string]bool
	for _, v := range lines {
		for name := range strings.SplitSeq(v, ",") {
			if name = strings.Trim(name, " \t"); name != "" {
				if names == nil {
					names = make(map[string]bool)
				}
				names[http.CanonicalHeaderKey(name)] = true
			}
		}
	}
	return names
}

// dropHop removes from an answer's header what belongs to the connection to
// the upstream.
func dropHop(h http.Header) {
	named := nominated(h)
	for name := range h {
		if hopByHop(name) || named[name] {
			delete(h, name)
		}
	}
}
