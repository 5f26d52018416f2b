package upstream

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// FuzzAnswer plays any bytes as an upstream's HTTP/1.1. Whatever they are, a Send
// comes back and nothing panics, and what settles is an answer that the standard
// library, which is less strict, takes for a whole one too, with the same status,
// body and trailers.
func FuzzAnswer(f *testing.F) {
	for _, method := range []string{"PUT", "GET", "HEAD"} {
		for _, said := range []string{
			ok, refusal, chunkedH + "2;x=\"y\"\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n", chunkedH + "0\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\nall",
			"HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\n" + ok, "HTTP/1.1 100 C\r\n\r\nHTTP/1.1 204 N\r\nContent-Length: 3\r\n\r\n",
			"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 02\r\n\r\nok", "HTTP/1.1 200 OK\nContent-Length:\n 2\n\nok",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X, Content-Length\r\n\r\n0\r\nX: 1\r\nContent-Length: 5\r\n\r\n",
			chunkedH + "2\r\nok\r\n", chunkedH + "2\r\nok\r\n0\r\nX-Sum: 1\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok",
			"HTTP/1.1 304 N\r\nContent-Length: 9\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "HTTP/1.1 101 S\r\n\r\n",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok", "HTTP/1.1 099 X\r\n\r\n",
		} {
			f.Add(method, []byte(said))
		}
	}
	f.Fuzz(func(t *testing.T, method string, said []byte) {
		if method != http.MethodGet && method != http.MethodHead {
			method = http.MethodPut
		}
		u := newUpstream(t, "http://127.0.0.1:9")
		ours, theirs := net.Pipe()
		u.dial = func(context.Context) (net.Conn, error) { return ours, nil }
		heard := make(chan struct{})
		go func() {
			defer close(heard)
			go func() { theirs.Write(said); theirs.Close() }()
			io.Copy(io.Discard, theirs)
		}()
		r := put()
		r.Method, r.Timeout = method, 5*time.Second
		res := exchangeOnce(t, context.Background(), u, r)
		u.Close()
		ours.Close()
		<-heard
		if res.outcome != settled {
			return
		}
		if res.status == 0 || res.err != nil {
			t.Fatalf("settled without an answer in full: %d, %v", res.status, res.err)
		}
		status, body, trailer, err := otherAnswer(method, said)
		if err != nil && len(said) > 16<<10 {
			return // the search takes time by the square
		}
		// Lines that end with a bare LF are lines, also behind the last chunk, where
		// net/http waits for CRLF.
		for at := bytes.LastIndex(said, []byte("\r\n")); err != nil && at >= 0; at = bytes.LastIndex(said[:at], []byte("\r\n")) {
			tail := bytes.ReplaceAll(bytes.ReplaceAll(said[at+2:], []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))
			if st, b, tr, terr := otherAnswer(method, slices.Concat(said[:at+2], tail)); terr == nil {
				status, body, trailer, err = st, b, tr, nil
			}
		}
		if err != nil && stricter.MatchString(err.Error()) {
			return
		}
		if err != nil || status != res.status || body != res.body {
			t.Fatalf("settled by %d %q, and to net/http it is %d %q (%v)", res.status, res.body, status, body, err)
		}
		for name, values := range res.answer.Trailer {
			if values != nil && strings.Join(values, "\n") != strings.Join(trailer[name], "\n") {
				t.Fatalf("the trailer %s is %q, and to net/http %q", name, values, trailer[name])
			}
		}
	})
}

// stricter is where net/http refuses what is an answer in full all the same:
// lengths that are one number in two spellings, and trailers that are announced
// and then dropped.
var stricter = regexp.MustCompile("multiple Content-Length|bad trailer key")

// otherAnswer reads the final answer as net/http does, which wants the trailers
// to fit into its buffer.
func otherAnswer(method string, said []byte) (status int, body string, trailer http.Header, err error) {
	br := bufio.NewReaderSize(bytes.NewReader(said), len(said)+1)
	for {
		resp, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			return 0, "", nil, err
		}
		if resp.StatusCode < 200 {
			continue
		}
		b, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b), resp.Trailer, err
	}
}
