package upstream

import (
	"fmt"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// answerHead is the head of an answer as it came.
type answerHead struct {
	status int
	minor  int // of HTTP/1.minor
	header http.Header
}

// badAnswer is an answer that cannot be trusted to end where it seems to.
type badAnswer string

func (b badAnswer) Error() string { return "bad answer: " + string(b) }

// readHead reads one head of at most limit bytes. started reports whether a
// byte of it had come, for errors.
func readHead(c *conn, limit int) (h answerHead, started bool, err error) {
	c.limit(limit)
	defer c.unlimit()
	if _, err := c.br.Peek(1); err != nil {
		return h, false, err
	}
	tp := textproto.NewReader(c.br)
	line, err := tp.ReadLine()
	if err != nil {
		return h, true, c.cause(err)
	}
	mime, err := tp.ReadMIMEHeader()
	if err != nil {
		return h, true, c.cause(err)
	}
	h.header = http.Header(mime)
	if h.status, h.minor, err = parseStatusLine(line); err != nil {
		return h, true, err
	}
	return h, true, checkNames(h.header)
}

// checkNames refuses names that textproto lets pass with a space in them:
// "Transfer-Encoding : chunked" is no framing for one reader and framing for
// the next.
func checkNames(h http.Header) error {
	for name := range h {
		if !httpguts.ValidHeaderFieldName(name) {
			return badAnswer(fmt.Sprintf("header name %q", name))
		}
	}
	return nil
}

// parseStatusLine accepts HTTP/1.0 and later 1.x with a status of 100 to 999.
func parseStatusLine(line string) (status, minor int, err error) {
	rest, ok := strings.CutPrefix(line, "HTTP/1.")
	if !ok || len(rest) < 5 || rest[0] < '0' || rest[0] > '9' || rest[1] != ' ' || len(rest) > 5 && rest[5] != ' ' {
		return 0, 0, badAnswer(fmt.Sprintf("status line %.80q", line))
	}
	for _, c := range []byte(rest[2:5]) {
		if c < '0' || c > '9' {
			return 0, 0, badAnswer(fmt.Sprintf("status line %.80q", line))
		}
		status = status*10 + int(c-'0')
	}
	if status < 100 {
		return 0, 0, badAnswer(fmt.Sprintf("status %03d", status))
	}
	return status, int(rest[0] - '0'), nil
}

// framing is how the end of an answer is found.
type framing uint8

const (
	noBody     framing = iota
	fixed              // length bytes
	chunked            // a chunk of size 0 and trailers
	untilClose         // the upstream's FIN
)

// frame decides where an answer ends. Where two readers could see two ends it
// refuses, also for answers that have no body: a proxy that guesses would take
// a broken answer for a whole one.
func frame(method string, h answerHead) (kind framing, length int64, err error) {
	te := h.header["Transfer-Encoding"]
	length, err = contentLength(h.header)
	if err != nil {
		return 0, 0, err
	}
	if len(te) > 0 {
		switch {
		case length >= 0:
			return 0, 0, badAnswer("both Transfer-Encoding and Content-Length")
		case h.minor == 0:
			return 0, 0, badAnswer("Transfer-Encoding in HTTP/1.0")
		case len(te) > 1 || !strings.EqualFold(te[0], "chunked") || len(te[0]) != len("chunked"): // U+212A folds to k
			return 0, 0, badAnswer(fmt.Sprintf("Transfer-Encoding %q, only chunked is known", te))
		}
	}
	switch {
	case method == http.MethodHead, h.status < 200,
		h.status == http.StatusNoContent, h.status == http.StatusNotModified:
		return noBody, 0, nil
	case len(te) > 0:
		return chunked, -1, nil
	case length < 0:
		return untilClose, -1, nil
	case length == 0:
		return noBody, 0, nil
	}
	return fixed, length, nil
}

// keepAlive reports whether the connection may be used again after the answer.
// After a status without body whose header speaks of one, servers differ in
// what follows.
func keepAlive(h answerHead, kind framing) bool {
	bodiless := h.status == http.StatusNoContent && (h.header["Transfer-Encoding"] != nil || h.header["Content-Length"] != nil)
	return h.minor > 0 && kind != untilClose && !bodiless &&
		!httpguts.HeaderValuesContainsToken(h.header["Connection"], "close")
}

// contentLength is what h says, or -1. It takes several lines for one only where
// they say the same, and makes them one (RFC 9110, 8.6): to the next reader "2"
// and "02" may be two.
func contentLength(h http.Header) (int64, error) {
	lines, length := h["Content-Length"], int64(-1)
	for i, line := range lines {
		n, err := strconv.ParseUint(textproto.TrimString(line), 10, 63)
		if err != nil {
			return 0, badAnswer(fmt.Sprintf("Content-Length %q", line))
		}
		if i > 0 && int64(n) != length {
			return 0, badAnswer(fmt.Sprintf("Content-Length %q", lines))
		}
		length = int64(n)
	}
	if len(lines) > 1 {
		h["Content-Length"] = []string{strconv.FormatInt(length, 10)}
	}
	return length, nil
}

// announced returns the names that the Trailer header announces, with nil
// values.
func announced(h http.Header) http.Header {
	var t http.Header
	for _, v := range h["Trailer"] {
		for name := range strings.SplitSeq(v, ",") {
			name = http.CanonicalHeaderKey(textproto.TrimString(name))
			if httpguts.ValidHeaderFieldName(name) && trailerAllowed(name) {
				if t == nil {
					t = make(http.Header)
				}
				t[name] = nil
			}
		}
	}
	return t
}
