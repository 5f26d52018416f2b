package upstream

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// appendHead appends the whole head of r, blank line included. An error names
// the field that could not be written: nothing may be sent then.
func (u *Upstream) appendHead(b []byte, r *Request) ([]byte, error) {
	b = append(b, r.Method...)
	b = append(b, ' ')
	b = append(b, u.prefix...)
	b = append(b, r.Target...)
	b = append(b, " HTTP/1.1\r\n"...)

	b = appendField(b, "Host", u.hostOf(r))
	err := u.eachField(r, func(name, value string) { b = appendField(b, name, value) })
	if err != nil {
		return nil, err
	}
	b, err = appendFraming(b, r)
	if err != nil {
		return nil, err
	}
	return append(u.appendConnection(b, r), '\r', '\n'), nil
}

// hostOf is whom r is for, as the upstream is told.
func (u *Upstream) hostOf(r *Request) string {
	if !u.preserveHost || r.Host == "" {
		return u.host
	}
	return r.Host
}

// appendConnection says what holds for this connection only.
func (u *Upstream) appendConnection(b []byte, r *Request) []byte {
	if r.WebSocket {
		return appendField(appendField(b, "Connection", "Upgrade"), "Upgrade", "websocket")
	}
	trailers, once := httpguts.HeaderValuesContainsToken(r.Header["Te"], "trailers"), u.pool.ttl == 0
	if trailers {
		b = appendField(b, "Te", "trailers")
	}
	switch {
	case trailers && once:
		return appendField(b, "Connection", "close, TE")
	case trailers:
		return appendField(b, "Connection", "TE")
	case once:
		return appendField(b, "Connection", "close")
	}
	return b
}

// eachField gives every end-to-end field of r's head to field, and the proxy's
// own behind them. It stops at what cannot be written.
func (u *Upstream) eachField(r *Request, field func(name, value string)) error {
	named, trusted := nominated(r.Header), u.trusts(r)
	for name, values := range r.Header {
		canonical := http.CanonicalHeaderKey(name)
		if ownField(canonical) || named[canonical] || pretends(canonical, trusted) {
			continue
		}
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("header name %q is not a token", name)
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return fmt.Errorf("header %s holds a control byte", name)
			}
			field(name, v)
		}
	}
	for _, f := range u.forwarded(r) {
		if !httpguts.ValidHeaderFieldValue(f.value) {
			return fmt.Errorf("%s would hold a control byte", f.name)
		}
		if f.value != "" {
			field(f.name, f.value)
		}
	}
	return nil
}

// appendFraming says where the request ends, in exactly one way. Without a
// body, methods that usually have one say "Content-Length: 0" (some servers
// answer 411 otherwise), others only where the client said it.
func appendFraming(b []byte, r *Request) ([]byte, error) {
	switch {
	case r.Body != nil && r.Length >= 0:
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, r.Length, 10)
		return append(b, '\r', '\n'), nil
	case r.Body != nil:
		b = appendField(b, "Transfer-Encoding", "chunked")
		return appendAnnounced(b, r)
	case saysEmpty(r):
		return appendField(b, "Content-Length", "0"), nil
	}
	return b, nil
}

// saysEmpty reports whether a request without a body says so.
func saysEmpty(r *Request) bool {
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		return true
	}
	return len(r.Header["Content-Length"]) > 0
}

func appendAnnounced(b []byte, r *Request) ([]byte, error) {
	if r.Trailer == nil {
		return b, nil
	}
	names, err := announcement(r)
	if err != nil || names == "" {
		return b, err
	}
	return appendField(b, "Trailer", names), nil
}

// announcement lists the names of the trailers to come.
func announcement(r *Request) (string, error) {
	var names []string
	for name := range r.Trailer() {
		if !httpguts.ValidHeaderFieldName(name) {
			return "", fmt.Errorf("trailer name %q is not a token", name)
		}
		if trailerSent(name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", "), nil
}

// appendTrailers appends the last chunk, the trailers, and the blank line that
// ends the request.
func appendTrailers(b []byte, trailer http.Header) ([]byte, error) {
	b = append(b, "0\r\n"...)
	for name, values := range trailer {
		if !trailerSent(name) {
			continue
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(v) {
				return nil, fmt.Errorf("trailer %q is not valid", name)
			}
			b = appendField(b, name, v)
		}
	}
	return append(b, '\r', '\n'), nil
}

// trailerAllowed keeps framing, routing and hop-by-hop fields out of trailers.
func trailerAllowed(name string) bool {
	return httpguts.ValidTrailerHeader(name) && !hopByHop(http.CanonicalHeaderKey(name))
}

func appendField(b []byte, name, value string) []byte {
	b = append(b, name...)
	b = append(b, ':', ' ')
	b = append(b, value...)
	return append(b, '\r', '\n')
}
