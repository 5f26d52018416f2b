package client

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// isProblem reports whether an answer says that it is a problem (RFC 9457).
func isProblem(h http.Header) bool {
	t, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && t == "application/problem+json"
}

// nameOf is the name of a problem of the proxy's; empty for anybody else's.
func nameOf(p wire.Problem) wire.Name {
	name, ok := strings.CutPrefix(p.Type, wire.Name("").URN())
	if !ok {
		return ""
	}
	return wire.Name(name)
}

// retryAfter is what the header says, in seconds as the proxy writes it; 0
// where it says nothing.
func retryAfter(h http.Header) time.Duration {
	s, err := strconv.ParseUint(h.Get("Retry-After"), 10, 31)
	if err != nil {
		return 0
	}
	return time.Duration(s) * time.Second
}
