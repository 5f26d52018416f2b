package proxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/fenceproxy/fenceproxy/proxy/route"
)

// stream reports whether the request is one of several on its connection
// (HTTP/2): what ends it must leave the others alone.
func stream(r *http.Request) bool { return r.ProtoMajor >= 2 }

// malformed refuses what the parser of HTTP/1 refuses or cannot even bring
// about, and that of HTTP/2 lets pass: there a method, a target and a host are
// field values, in which a space is as good as a letter. It would end the
// method or the target on its way to an HTTP/1 upstream, which then sees
// another request than the one that was checked.
func malformed(r *http.Request) error {
	if !stream(r) || r.Method == http.MethodConnect { // the route refuses it
		return nil
	}
	hosts, lengths := r.Header["Host"], r.Header["Content-Length"]
	switch {
	case !httpguts.ValidHeaderFieldName(r.Method):
		return refuseStream("the method %q is not a token", r.Method)
	case r.RequestURI != "*" && !strings.HasPrefix(r.RequestURI, "/"):
		return refuseStream(":path is not a path; send one that begins with /")
	case strings.ContainsAny(r.RequestURI, " \t"):
		return refuseStream(":path holds a space; send it as %%20")
	case !httpguts.ValidHostHeader(r.Host):
		return refuseStream(":authority %q is not a host", r.Host)
	case len(hosts) > 1 || len(hosts) == 1 && hosts[0] != r.Host:
		return refuseStream("Host and :authority differ; leave Host out")
	case len(lengths) > 1 || len(lengths) == 1 && !isLength(lengths[0], r.ContentLength):
		return refuseStream("Content-Length is not the length of the body")
	}
	return nil
}

func refuseStream(format string, args ...any) error {
	return &route.Refusal{Kind: route.BadRequest, Rule: -1, Detail: fmt.Sprintf(format, args...)}
}

// isLength reports whether text is what net/http understood. It takes a length
// that it cannot read for 0, and overlooks one on a request without body.
func isLength(text string, n int64) bool {
	declared, err := strconv.ParseUint(text, 10, 63)
	return err == nil && int64(declared) == n
}

// lingerStream sends the answer on HTTP/2 and leaves the client a moment to end its
// upload by itself. At the handler's end the stream is reset, and there are
// clients that forget the answer over that (curl 7.88).
func (x *exchange) lingerStream() {
	rc := http.NewResponseController(x.w)
	end := time.Now().Add(lingerTime)
	if rc.Flush() != nil || rc.SetReadDeadline(end) != nil {
		return
	}
	_, err := io.CopyN(io.Discard, x.r.Body, lingerBytes)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return // it ended, or goes on for too long
	}
	// An upload that was stopped before cannot be read on.
	select {
	case <-x.r.Context().Done():
	case <-time.After(time.Until(end)):
	}
}

// awaitCall leaves a gRPC call that is refused a moment to come in: a unary one
// is there as a whole then. Its answer is one frame, at the handler's end; where
// that comes first, the server resets the stream behind it, and nginx, which may
// use the connection for the next call already, answers that one 502.
func (x *exchange) awaitCall() {
	if http.NewResponseController(x.w).SetReadDeadline(time.Now().Add(callTime)) == nil {
		_, _ = io.CopyN(io.Discard, x.r.Body, lingerBytes)
	}
}

// scheme is how the client came in. On HTTP/2 net/http goes by what the client
// says of it.
func (x *exchange) scheme() string {
	secure := x.r.TLS != nil
	if stream(x.r) {
		_, secure = x.r.Context().Value(connKey{}).(*tls.Conn)
	}
	if secure {
		return "https"
	}
	return "http"
}
