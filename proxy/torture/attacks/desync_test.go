package attacks

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// evil is what no client may ever get: a second answer, hidden behind the first.
const evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-Evil: 1\r\n\r\nEVIL"

// cut stands at the end of an answer behind which the upstream hangs up.
const cut = "\x00cut"

// answers are what a hostile upstream says, by name. Each is the answer to one
// request, or more than that, or less.
func answers() map[string]string {
	const ok = "HTTP/1.1 200 OK\r\n"
	all := map[string]string{
		"bytes behind the answer":        ok + "Content-Length: 2\r\n\r\nok" + evil,
		"bytes behind the chunks":        ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + evil,
		"length and chunks":              ok + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + evil,
		"chunks and length":              ok + "Transfer-Encoding: chunked\r\nContent-Length: 4000\r\n\r\n0\r\n\r\n" + evil,
		"two lengths":                    ok + "Content-Length: 2\r\nContent-Length: 90\r\n\r\nok" + evil,
		"the same length in two ways":    ok + "Content-Length: 2\r\nContent-Length: 02\r\n\r\nok",
		"a list of lengths":              ok + "Content-Length: 2, 90\r\n\r\nok" + evil,
		"a signed length":                ok + "Content-Length: +2\r\n\r\nok" + evil,
		"a negative length":              ok + "Content-Length: -2\r\n\r\nok" + evil,
		"a length in hex":                ok + "Content-Length: 0x2\r\n\r\nok" + evil,
		"a huge length":                  ok + "Content-Length: 99999999999999999999\r\n\r\nok" + evil,
		"an empty length":                ok + "Content-Length:\r\n\r\n" + evil,
		"a space behind the length":      ok + "Content-Length : 2\r\n\r\nok" + evil,
		"a space behind the encoding":    ok + "Transfer-Encoding : chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n" + evil,
		"an encoding that nobody knows":  ok + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + evil,
		"chunked and more":               ok + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + evil,
		"more and chunked":               ok + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + evil,
		"chunked twice":                  ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + evil,
		"a folded encoding":              ok + "Transfer-Encoding:\r\n chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + evil,
		"an encoding in HTTP/1.0":        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + evil,
		"bare line feeds":                strings.ReplaceAll(ok+"Content-Length: 2\r\n\r\n", "\r\n", "\n") + "ok" + evil,
		"a bare CR in a value":           ok + "X: y\rX-Evil: 1\r\nContent-Length: 2\r\n\r\nok" + evil,
		"NUL in a value":                 ok + "X: y\x00z\r\nContent-Length: 2\r\n\r\nok" + evil,
		"a name with a space":            ok + "X Y: z\r\nContent-Length: 2\r\n\r\nok" + evil,
		"a line without a colon":         ok + "X\r\nContent-Length: 2\r\n\r\nok" + evil,
		"204 with a body":                "HTTP/1.1 204 No Content\r\nContent-Length: " + dec(len(evil)) + "\r\n\r\n" + evil,
		"204 with chunks":                "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(evil),
		"204 with bytes":                 "HTTP/1.1 204 No Content\r\n\r\n" + evil,
		"304 with a body":                "HTTP/1.1 304 Not Modified\r\nContent-Length: " + dec(len(evil)) + "\r\n\r\n" + evil,
		"205 with a body":                "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n" + evil,
		"101 that nobody asked for":      "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + evil,
		"a 1xx with a length":            "HTTP/1.1 103 Early Hints\r\nContent-Length: 4\r\n\r\n" + ok + "Content-Length: 2\r\n\r\nok" + evil,
		"a 1xx with chunks":              "HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked\r\n\r\n" + ok + "Content-Length: 2\r\n\r\nok" + evil,
		"many 1xx":                       strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 2000) + ok + "Content-Length: 2\r\n\r\nok" + evil,
		"1xx and no end":                 strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 2000) + cut,
		"no status":                      "HTTP/1.1\r\nContent-Length: 2\r\n\r\nok" + evil,
		"a status of two digits":         "HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\nok" + evil,
		"a status of 000":                "HTTP/1.1 000 OK\r\nContent-Length: 2\r\n\r\nok" + evil,
		"a status of 999":                "HTTP/1.1 999 OK\r\nContent-Length: 2\r\n\r\nok" + evil,
		"HTTP/2":                         "HTTP/2 200 OK\r\nContent-Length: 2\r\n\r\nok" + evil,
		"no head":                        evil[strings.Index(evil, "EVIL"):] + cut,
		"an empty line in front":         "\r\n" + ok + "Content-Length: 2\r\n\r\nok" + evil,
		"a chunk with a sign":            ok + "Transfer-Encoding: chunked\r\n\r\n+2\r\nok\r\n0\r\n\r\n" + evil,
		"a chunk that overflows":         ok + "Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\nok\r\n0\r\n\r\n" + evil,
		"a chunk without its end":        ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nok0\r\n\r\n" + evil,
		"a chunk with a bare LF":         ok + "Transfer-Encoding: chunked\r\n\r\n2\nok\r\n0\r\n\r\n" + evil,
		"an extension with a bare LF":    ok + "Transfer-Encoding: chunked\r\n\r\n2;a\nok\r\n0\r\n\r\n" + evil,
		"an endless extension":           ok + "Transfer-Encoding: chunked\r\n\r\n2;" + strings.Repeat("a", 1<<20) + cut,
		"framing in a trailer":           ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nContent-Length: 90\r\nTransfer-Encoding: chunked\r\n\r\n" + evil,
		"the fence's word in a trailer":  ok + "Transfer-Encoding: chunked\r\nTrailer: Fencing-Result\r\n\r\n2\r\nok\r\n0\r\nFencing-Result: forged\r\n\r\n",
		"the fence's word":               ok + "Fencing-Result: forged\r\nFencing-Forwarded: no\r\nContent-Length: 2\r\n\r\nok",
		"a head that is too large":       ok + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 1000) + "\r\n" + evil,
		"a trailer that is too large":    ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 1000) + "\r\n" + evil,
		"connection-specific fields":     ok + "Connection: X-Gone, Content-Length\r\nX-Gone: 1\r\nKeep-Alive: timeout=100\r\nContent-Length: 2\r\n\r\nok" + evil,
		"half an answer":                 ok + "Content-Length: 200\r\n\r\nok" + cut,
		"half a chunk":                   ok + "Transfer-Encoding: chunked\r\n\r\nff\r\nok" + cut,
		"nothing":                        "" + cut,
		"an end of the chunks, no lines": ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + evil,
	}
	return all
}

// hostile is an upstream that keeps its connections. It answers a request for
// /things/evil-N or /open/evil-N as the N-th answer says, and every other one
// with the request's own target.
type hostile struct {
	names []string
	later bool          // the evil second answer comes when it is let
	let   chan struct{} // lets it come
	said  chan struct{} // it has come

	mu     sync.Mutex
	reused int // requests that came behind another on their connection
}

func (h *hostile) serve(c net.Conn) {
	defer c.Close()
	br := bufio.NewReader(c)
	for n := 0; ; n++ {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		if n > 0 {
			h.mu.Lock()
			h.reused++
			h.mu.Unlock()
		}
		var i int
		if _, err := fmt.Sscanf(r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:], "evil-%d", &i); err != nil {
			_, err = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(r.RequestURI), r.RequestURI)
			if err != nil {
				return
			}
			continue
		}
		answer := answers()[h.names[i]]
		if rest, ok := strings.CutSuffix(answer, evil); ok && h.later {
			_, _ = io.WriteString(c, rest)
			select {
			case <-h.let:
			case <-time.After(200 * time.Millisecond): // the first answer is none without the second
			}
			_, err = io.WriteString(c, evil)
			h.said <- struct{}{}
			if err != nil {
				return
			}
			continue
		}
		whole, hangUp := strings.CutSuffix(answer, cut)
		if _, err := io.WriteString(c, whole); err != nil || hangUp {
			return
		}
	}
}

// Response splitting: whatever an upstream answers, and whatever comes behind
// its answer, at once or later, each request gets an answer to itself or a
// broken one, on every connection, whoever uses it next.
func TestAnswersBelongToTheirRequests(t *testing.T) {
	for name, later := range map[string]bool{"at once": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &hostile{later: later, let: make(chan struct{}), said: make(chan struct{}, 1)}
			for name := range answers() {
				h.names = append(h.names, name)
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					go h.serve(c)
				}
			}()
			p := newProxy(t, "http://"+l.Addr().String(), plain+"\nupstream: {url: UPSTREAM, settle: 1ms, response_timeout: 2s}\nfencing: {drain_timeout: 10s}\n")
			for i, name := range h.names {
				for _, method := range []string{"GET", "PUT", "HEAD", "POST"} {
					path := fmt.Sprintf("/things/evil-%d", i)
					if method == "POST" {
						path = fmt.Sprintf("/open/evil-%d", i)
					}
					p.ask(t, name, method, path, 1)
					if later && strings.HasSuffix(answers()[name], evil) { // it comes while nobody uses the connection
						select {
						case h.let <- struct{}{}:
							<-h.said
						case <-h.said:
						}
					}
					for range 3 {
						p.ask(t, "a request behind "+name, "GET", fmt.Sprintf("/open/plain-%d", i), 5)
					}
				}
			}
			if h.reused < 100 {
				t.Errorf("%d requests came on a kept connection: this has shown nothing", h.reused)
			}
			p.quiet()
		})
	}
}

// ask sends one request, and looks whose answer comes, and whether anything
// comes behind it.
func (p *proxy) ask(t *testing.T, name, method, path string, tries int) {
	c, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: a\r\nX-Fencing-Token: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", method, path)
	br := bufio.NewReader(c)
	var res *http.Response
	for res == nil || res.StatusCode < 200 {
		if res, err = http.ReadResponse(br, &http.Request{Method: method}); err != nil {
			return // broken, and seen to be
		}
		if res.StatusCode == http.StatusSwitchingProtocols {
			t.Errorf("%s: %s gets a 101", name, method)
			return
		}
		if res.Header.Get("X-Evil") != "" {
			t.Errorf("%s: %s gets the evil head, %s", name, method, res.Status)
		}
	}
	body, err := io.ReadAll(res.Body)
	switch {
	case err != nil: // broken
	case strings.Contains(string(body), "EVIL"):
		t.Errorf("%s: %s gets %s and %q", name, method, res.Status, body)
	case strings.Contains(path, "plain") && res.StatusCode == http.StatusOK && string(body) != path:
		t.Errorf("%s: %s %s gets %q", name, method, path, body)
	case strings.Contains(path, "plain") && res.StatusCode == http.StatusGatewayTimeout && tries > 1:
		p.ask(t, name, method, path, tries-1) // the machine was too busy for response_timeout
	case strings.Contains(path, "plain") && res.StatusCode != http.StatusOK:
		t.Errorf("%s: %s %s gets %s", name, method, path, res.Status)
	}
	if got := res.Header.Values("Fencing-Result"); len(got) > 1 || len(got) == 1 && got[0] == "forged" {
		t.Errorf("%s: Fencing-Result: %q", name, got)
	}
	if got := res.Trailer.Get("Fencing-Result"); got != "" {
		t.Errorf("%s: a trailer says Fencing-Result: %q", name, got)
	}
	if rest, _ := io.ReadAll(br); len(rest) > 0 {
		t.Errorf("%s: behind the answer to %s comes %q", name, method, rest)
	}
}
