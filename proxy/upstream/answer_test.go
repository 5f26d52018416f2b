package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"
)

func TestFrame(t *testing.T) {
	h := func(kv ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(kv); i += 2 {
			h.Add(kv[i], kv[i+1])
		}
		return h
	}
	const te, cl = "Transfer-Encoding", "Content-Length"
	for name, row := range map[string]struct {
		method string
		head   answerHead
		kind   framing
		length int64
		bad    bool
	}{
		"length":                      {"GET", answerHead{200, 1, h(cl, "12")}, fixed, 12, false},
		"length 0":                    {"GET", answerHead{200, 1, h(cl, "0")}, noBody, 0, false},
		"length with spaces":          {"GET", answerHead{200, 1, h(cl, " 12 ")}, fixed, 12, false},
		"chunked":                     {"GET", answerHead{200, 1, h(te, "Chunked")}, chunked, -1, false},
		"neither":                     {"GET", answerHead{200, 1, h()}, untilClose, -1, false},
		"neither, HTTP/1.0":           {"GET", answerHead{200, 0, h()}, untilClose, -1, false},
		"HEAD":                        {"HEAD", answerHead{200, 1, h(cl, "12")}, noBody, 0, false},
		"HEAD, chunked":               {"HEAD", answerHead{200, 1, h(te, "chunked")}, noBody, 0, false},
		"lower-case head has a body":  {"head", answerHead{200, 1, h(cl, "12")}, fixed, 12, false},
		"204":                         {"PUT", answerHead{204, 1, h()}, noBody, 0, false},
		"304 with a length":           {"GET", answerHead{304, 1, h(cl, "12")}, noBody, 0, false},
		"both":                        {"GET", answerHead{200, 1, h(te, "chunked", cl, "3")}, 0, 0, true},
		"both on HEAD":                {"HEAD", answerHead{200, 1, h(te, "chunked", cl, "3")}, 0, 0, true},
		"chunked in HTTP/1.0":         {"GET", answerHead{200, 0, h(te, "chunked")}, 0, 0, true},
		"chunked twice":               {"GET", answerHead{200, 1, h(te, "chunked", te, "chunked")}, 0, 0, true},
		"gzip, chunked":               {"GET", answerHead{200, 1, h(te, "gzip, chunked")}, 0, 0, true},
		"identity":                    {"GET", answerHead{200, 1, h(te, "identity")}, 0, 0, true},
		"empty transfer encoding":     {"GET", answerHead{200, 1, h(te, "")}, 0, 0, true},
		"negative length":             {"GET", answerHead{200, 1, h(cl, "-1")}, 0, 0, true},
		"signed length":               {"GET", answerHead{200, 1, h(cl, "+1")}, 0, 0, true},
		"list of lengths":             {"GET", answerHead{200, 1, h(cl, "5, 5")}, 0, 0, true},
		"hexadecimal length":          {"GET", answerHead{200, 1, h(cl, "0x5")}, 0, 0, true},
		"empty length":                {"GET", answerHead{200, 1, h(cl, "")}, 0, 0, true},
		"length over 63 bits":         {"GET", answerHead{200, 1, h(cl, "9223372036854775808")}, 0, 0, true},
		"two lengths":                 {"GET", answerHead{200, 1, h(cl, "5", cl, "6")}, 0, 0, true},
		"bad length without any body": {"HEAD", answerHead{200, 1, h(cl, "x")}, 0, 0, true},
	} {
		kind, length, err := frame(row.method, row.head)
		var bad badAnswer
		if errors.As(err, &bad) != row.bad || kind != row.kind || length != row.length {
			t.Errorf("%s: %v %d %v", name, kind, length, err)
		}
	}
}

func TestStatusLine(t *testing.T) {
	for line, want := range map[string]int{
		"HTTP/1.1 200 OK": 200, "HTTP/1.1 200": 200, "HTTP/1.0 999 ": 999, "HTTP/1.1 100 Continue": 100,
		"HTTP/1.1  200 OK": 0, "HTTP/1.1 2000 OK": 0, "HTTP/1.1 20 OK": 0, "HTTP/1.1 +20 OK": 0, "HTTP/1.1 099 X": 0,
		"HTTP/2.0 200 OK": 0, "HTTP/1.10 200 OK": 0, "HTTP/1.1": 0, "ICY 200 OK": 0, "http/1.1 200 OK": 0, "": 0, "HTTP/1.x 200 OK": 0,
	} {
		got, _, err := parseStatusLine(line)
		if got != want || (err != nil) != (want == 0) {
			t.Errorf("%q: %d, %v; want %d", line, got, err, want)
		}
	}
}

// What the client is to see of an answer: its fields as they came, several
// lines as several, without what belongs to the connection.
func TestAnswerHeader(t *testing.T) {
	u, _, done := listen(t, func(w *wire) {
		w.request()
		w.say("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: X-Hop\r\nX-Hop: 1\r\n\r\n")
		w.say("HTTP/1.1 200 OK\r\nset-cookie: a\r\nSet-Cookie: b\r\nPragma: no-cache\r\nConnection: close, x-hop\r\nX-Hop: 1\r\n" +
			"Keep-Alive: 1\r\nProxy-Status: x\r\nX-Fold: a\r\n  b\r\nTrailer: X-Sum, Content-Length\r\nTransfer-Encoding: chunked\r\n\r\n")
		w.say("2\r\nok\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\nContent-Length: 3\r\nConnection: x\r\n\r\n")
	})
	r := put()
	var hints []string
	r.Informational = func(status int, h http.Header) { hints = append(hints, fmt.Sprint(status, h)) }
	a, err := u.Send(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"103 map[Link:[</a>]]"}; !slices.Equal(hints, want) {
		t.Errorf("informational answers %q, want %q", hints, want)
	}
	want := http.Header{"Set-Cookie": {"a", "b"}, "Pragma": {"no-cache"}, "Proxy-Status": {"x"}, "X-Fold": {"a b"}}
	if !reflect.DeepEqual(a.Header, want) {
		t.Errorf("header %v, want %v", a.Header, want)
	}
	if want := (http.Header{"X-Sum": nil}); !reflect.DeepEqual(a.Trailer, want) || a.Length != -1 {
		t.Errorf("announced %v, length %d; want %v, -1", a.Trailer, a.Length, want)
	}
	if _, err := io.ReadAll(a); err != nil {
		t.Error(err)
	}
	if want := (http.Header{"X-Sum": {"1"}, "X-More": {"2"}}); !reflect.DeepEqual(a.Trailer, want) {
		t.Errorf("trailers %v, want %v", a.Trailer, want)
	}
	a.Close()
	done()
}

// Several lines that say the same length reach the client as one, whatever the
// request was: to the next reader, two spellings may be two lengths.
func TestOneContentLength(t *testing.T) {
	for _, method := range []string{"GET", "HEAD"} {
		for name, listen := range map[string]func() (*Upstream, chan struct{}, func()){
			"HTTP/1.1": func() (*Upstream, chan struct{}, func()) {
				return listen(t, func(w *wire) {
					w.head()
					w.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 02\r\n\r\n")
					if method == "GET" {
						w.say("ok")
					}
				})
			},
			"HTTP/2": func() (*Upstream, chan struct{}, func()) {
				return listenH2(t, nil, func(w *h2wire) {
					id := w.request()
					w.say(id, "200", method == "HEAD", "content-length", "2", "content-length", "02")
					if method == "GET" {
						w.data(id, "ok", true)
					}
				})
			},
		} {
			u, _, done := listen()
			r := put()
			r.Method, r.Body, r.Length = method, nil, 0
			res := exchangeOnce(t, context.Background(), u, r)
			if res.outcome != settled || !slices.Equal(res.answer.Header["Content-Length"], []string{"2"}) {
				t.Errorf("%s over %s: %v, %v (%v)", method, name, res.outcome, res.answer, res.err)
			}
			done()
		}
	}
}

// What the upstream has said so far reaches the caller at once.
func TestAnswerStreams(t *testing.T) {
	for name, say := range map[string][2]string{
		"chunked":     {chunkedH + "1\r\na\r\n", "1\r\nb\r\n0\r\n\r\n"},
		"until close": {"HTTP/1.1 200 OK\r\n\r\na", "b"},
		"length":      {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na", "b"},
	} {
		t.Run(name, func(t *testing.T) {
			more := make(chan struct{})
			u, _, done := listen(t, func(w *wire) { w.request(); w.say(say[0]); <-more; w.say(say[1]); w.CloseWrite() })
			a, err := u.Send(context.Background(), put())
			if err != nil {
				t.Fatal(err)
			}
			p := make([]byte, 10)
			if n, err := a.Read(p); string(p[:n]) != "a" || err != nil {
				t.Errorf("first read: %q, %v", p[:n], err)
			}
			close(more)
			if rest, err := io.ReadAll(a); string(rest) != "b" || err != nil {
				t.Errorf("rest: %q, %v", rest, err)
			}
			a.Close()
			if got := a.Outcome(); got != settled {
				t.Errorf("outcome %v", got)
			}
			done()
		})
	}
}

// The head and a small body come in one piece, so that a small write costs one
// system call and one packet.
func TestOneWrite(t *testing.T) {
	u, done := piped(t, func(w *wire) {
		p := make([]byte, 4096)
		n, _ := w.Conn.Read(p) // a pipe gives one write to one read
		if got := string(p[:n]); len(got) < 5 || got[len(got)-5:] != hello {
			t.Errorf("first write %q, want head and body", got)
		}
		w.say(ok)
	})
	r := put()
	r.Timeout = time.Minute
	if res := exchangeOnce(t, context.Background(), u, r); res.outcome != settled {
		t.Errorf("outcome %v (%v)", res.outcome, res.err)
	}
	done()
}

func TestErrorSaysWhere(t *testing.T) {
	u := newUpstream(t, "http://127.0.0.1:1")
	r := put()
	r.Target = "/a b"
	_, err := u.Send(context.Background(), r)
	if want := `PUT to upstream 127.0.0.1:1: not-sent (bad-request): target "/a b" holds a space or control byte at 2`; err == nil || err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}
