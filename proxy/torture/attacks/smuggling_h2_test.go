package attacks

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
)

// h2attack is a request in frames that would be two on its way to an HTTP/1
// upstream, if the proxy wrote what it was given.
type h2attack struct {
	name     string
	head     []string // with ID for a name of its own; a pair replaces the plain one
	body     string
	trailer  []string
	forwards int
}

func h2catalogue() (all []h2attack) {
	add := func(forwards int, name string, body string, head ...string) {
		all = append(all, h2attack{name: name, head: head, body: body, forwards: forwards})
	}
	line := "\r\n"
	smuggled := " HTTP/1.1\r\nHost: a\r\n\r\nDELETE /things/ID"
	add(1, "plain", "")
	add(1, "with a body", "hello")
	add(1, "with a length", "hello", "content-length", "5")
	add(0, "a length above the body", "hello", "content-length", "500")
	// By its length it has no body, and may be on its way before the body shows.
	add(-1, "a length of 0, and a body", naked, "content-length", "0")
	add(0, "a length below the body", "hello"+naked, "content-length", "4")
	add(0, "a length in the middle of the body", "hello"+naked, "content-length", "5")
	for _, cl := range []string{"+5", "-5", "0x5", "5 ", " 5", "5,5", "5\r\nx: y", "99999999999999999999", "", "x"} {
		add(0, "a length that is none: "+cl, "hello", "content-length", cl)
	}
	add(0, "two lengths", "hello", "content-length", "5", "+content-length", "0")
	for _, te := range []string{"chunked", "identity", "chunked ", "x"} {
		add(0, "transfer-encoding: "+te, chunked(naked), "transfer-encoding", te)
	}
	add(0, "transfer-encoding and a length", chunked(naked), "transfer-encoding", "chunked", "content-length", dec(len(chunked(naked))))
	add(0, "Transfer-Encoding in capitals", chunked(naked), "Transfer-Encoding", "chunked")
	add(0, "transfer-encoding with a space", chunked(naked), "transfer-encoding ", "chunked")
	add(1, "transfer_encoding", chunked(naked), "transfer_encoding", "chunked")
	add(1, "content_length", naked, "content_length", "0")
	add(0, "connection", "", "connection", "close")
	add(0, "connection names the token", "", "connection", "x-fencing-token")
	add(0, "keep-alive", "", "keep-alive", "timeout=5")
	add(0, "proxy-connection", "", "proxy-connection", "close")
	add(0, "upgrade", "", "upgrade", "h2c")
	add(0, "te: chunked", "", "te", "chunked")
	add(1, "te: trailers", "", "te", "trailers")
	for where, pair := range map[string][]string{
		"a value":     {"x", "y" + line + "X-Fencing-Token: 9"},
		"a value, LF": {"x", "y\nX-Fencing-Token: 9"},
		"a value, CR": {"x", "y\rX-Fencing-Token: 9"},
		"NUL":         {"x", "y\x00z"},
		"a name":      {"x: y" + line + "z", "1"},
		"a colon":     {"x: y", "1"},
		"a space":     {"x y", "1"},
		"no name":     {"", "1"},
		"high bytes":  {"x\xff", "1"},
		"the token":   {"x-fencing-token", "7" + line + "Transfer-Encoding: chunked"},
		"the method":  {":method", "PUT /things/hiddenID HTTP/1.1" + line + "Host: a" + line + line + "PUT"},
		"a method":    {":method", "PUT /things/hiddenID HTTP/1.1"},
		"no method":   {":method", ""},
		"the path":    {":path", "/things/ID" + smuggled},
		"a path":      {":path", "/things/ID HTTP/1.1"},
		"a tab":       {":path", "/things/ID\tHTTP/1.1"},
		"a path, LF":  {":path", "/things/ID\nX: y"},
		"a URL":       {":path", "http://b/things/ID"},
		"no path":     {":path", ""},
		"a relative":  {":path", "things/ID"},
		"a host":      {":authority", "a" + line + "X-Fencing-Token: 9"},
		"host space":  {":authority", "a b"},
		"host path":   {":authority", "a/things/hiddenID"},
		"host user":   {":authority", "u@a"},
		"the scheme":  {":scheme", "http" + line + "X: y"},
		"a scheme":    {":scheme", "http://b/?"},
		"a token":     {"x_fencing_token", "9"},
		"two tokens":  {"+x-fencing-token", "9"},
		"a host too":  {"host", "b"},
		"two hosts":   {"host", "a", "+host", "b"},
		"pseudo":      {":unknown", "1"},
		"a status":    {":status", "200"},
		"a protocol":  {":protocol", "websocket"},
		"two paths":   {"+:path", "/things/hiddenID"},
		"two methods": {"+:method", "DELETE"},
	} {
		add(0, "in "+where, naked, pair...)
	}
	add(1, "cookies in pieces", "", "cookie", "a=1", "+cookie", "b=2")
	add(1, "an expectation", "hello", "expect", "100-continue")
	add(1, "GET with a body", naked, ":method", "GET")
	add(1, "HEAD with a body", naked, ":method", "HEAD")
	add(1, "DELETE with a body", naked, ":method", "DELETE")
	add(0, "CONNECT", naked, ":method", "CONNECT")
	add(0, "PRI", naked, ":method", "PRI", ":path", "*")
	for name, t := range map[string][]string{
		"framing":     {"content-length", "50", "transfer-encoding", "chunked", "host", "b"},
		"a token":     {"x-fencing-token", "9", "x_fencing_token", "9"},
		"an override": {"x-http-method-override", "DELETE"},
		"a line end":  {"x-sum", "1" + line + line + naked},
		"a pseudo":    {":path", "/things/hiddenID"},
		"capitals":    {"X-Sum", "1"},
	} {
		forwards := 1
		switch name {
		case "framing", "a line end", "a pseudo", "capitals":
			forwards = 0
		}
		all = append(all, h2attack{"a trailer with " + name, []string{"trailer", "x-sum, x-fencing-token"}, "hello", t, forwards})
	}
	return all
}

// fields is the attack's head: the plain one, with what it replaces or, behind a
// plus sign, adds.
func (a h2attack) fields(id string) []string {
	fields := writeHead("ID", "7")
	for i := 0; i+1 < len(a.head); i += 2 {
		name, more := strings.CutPrefix(a.head[i], "+")
		at := slices.Index(fields, name)
		if at < 0 || at%2 == 1 || more {
			fields = append(fields, name, a.head[i+1])
			continue
		}
		fields[at+1] = a.head[i+1]
	}
	return replaced(fields, id)
}

func replaced(pairs []string, id string) []string {
	pairs = slices.Clone(pairs)
	for i := range pairs {
		pairs[i] = strings.ReplaceAll(pairs[i], "ID", id)
	}
	return pairs
}

// The same judge over what HTTP/2 can say and HTTP/1 cannot.
func TestSmugglingFromHTTP2(t *testing.T) {
	for _, name := range []string{"nginx", "lenient node"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			addr := backends[name](t, dir)
			settings := logged
			if name == "lenient node" {
				settings += "limits: {max_body_buffer: 0}\n"
			}
			p := newProxy(t, "http://"+addr, settings)
			all := h2catalogue()
			var wg sync.WaitGroup
			room := make(chan struct{}, 16)
			for i, a := range all {
				room <- struct{}{}
				wg.Go(func() {
					defer func() { <-room }()
					c, err := dialH2(p.Addr, false)
					if err != nil {
						t.Error(err)
						return
					}
					defer c.Close()
					body := strings.ReplaceAll(a.body, "ID", id(i))
					stream, err := c.open(body == "", a.fields(id(i))...)
					if err == nil && body != "" {
						err = c.fr.WriteData(stream, a.trailer == nil, []byte(body))
					}
					if err == nil && a.trailer != nil {
						err = c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.encode(replaced(a.trailer, id(i))...), EndStream: true, EndHeaders: true})
					}
					if err == nil { // else it was refused in the middle
						c.over(stream)
					}
				})
			}
			wg.Wait()
			attacks := make([]attack, len(all))
			for i, a := range all {
				attacks[i] = attack{name: a.name, forwards: a.forwards}
			}
			p.judged(t, filepath.Join(dir, "seen"), attacks)
		})
	}
}
