package suites

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"
)

// goClient is Go's own http.Client, with a transport that keeps connections.
type goClient struct {
	*testing.T
	web  *http.Client
	base string
}

// do sends a request and reads its answer to the end; kept says that it went
// out on a connection that had served another one.
func (c *goClient) do(method, path, token string, body io.Reader, trailer http.Header) (res *http.Response, text string, kept bool) {
	c.Helper()
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(c.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { kept = info.Reused },
	}), method, c.base+path, body)
	if err != nil {
		c.Fatal(err)
	}
	req.Trailer = trailer
	if token != "" {
		req.Header.Set("X-Fencing-Token", token)
	}
	if res, err = c.web.Do(req); err != nil {
		c.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		c.Fatalf("%s %s: %s, and then %v", method, path, res.Status, err)
	}
	return res, string(b), kept
}

// TestGoClient is Go's client in the ways of TestClients, and trailers both
// ways, which the others cannot send.
func TestGoClient(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	p := newProxy(t, a.addr)
	transport := &http.Transport{ExpectContinueTimeout: time.Second}
	t.Cleanup(transport.CloseIdleConnections)
	c := &goClient{t, &http.Client{Transport: transport, Timeout: patience}, "http://" + p.Addr + "/things/"}
	body := content()

	for _, upload := range []struct {
		name string
		body func() io.Reader
	}{
		{"of known length", func() io.Reader { return bytes.NewReader(body) }},
		{"of unknown length", func() io.Reader { return io.MultiReader(bytes.NewReader(body)) }},
	} {
		if res, text, _ := c.do("PUT", "a", "5", upload.body(), nil); res.StatusCode != 200 || text != toldOf(body) {
			t.Errorf("%s: %s %q", upload.name, res.Status, text)
		}
		for range 3 {
			res, text, _ := c.do("PUT", "a", "4", upload.body(), nil)
			var p struct{ Type string }
			if err := json.Unmarshal([]byte(text), &p); res.StatusCode != 409 || err != nil || p.Type != "urn:fenceproxy:problem:stale-token" {
				t.Errorf("%s: %s %q", upload.name, res.Status, text)
			}
		}
		if res, text, _ := c.do("PUT", "full", "5", upload.body(), nil); res.StatusCode != 413 || text != "full" {
			t.Errorf("%s: %s %q", upload.name, res.Status, text)
		}
	}
	if res, text, _ := c.do("GET", "large", "", nil, nil); res.StatusCode != 200 || len(text) != large {
		t.Errorf("%s, %d bytes", res.Status, len(text))
	}
	if res, _, kept := c.do("DELETE", "a", "4", nil, nil); res.StatusCode != 409 || !kept {
		t.Errorf("%s, on a kept connection: %v", res.Status, kept)
	}
	res, text, kept := c.do("PUT", "a", "5", io.MultiReader(strings.NewReader("x")), http.Header{"X-Sum": {"9"}, "X-Fencing-Token": {"99"}})
	if res.StatusCode != 200 || text != toldOf([]byte("x")) || !kept {
		t.Errorf("behind a refusal: %s %q, on a kept connection: %v", res.Status, text, kept)
	}
	if got := res.Trailer; got.Get("X-Sum") != "9" || len(got) != 1 {
		t.Errorf("the API saw the trailers %v, want X-Sum alone", got)
	}
}
