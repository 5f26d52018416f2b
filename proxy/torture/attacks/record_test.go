package attacks

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// seen is one request in the record of a server behind the proxy. Status 400
// stands for bytes that its parser took for no request.
type seen struct {
	Method, Target, Token, Line string
	Status                      int
}

// told is one request as the proxy says what it did with it: a line of its log.
type told struct {
	Msg, Method, Target, Token, Decision string
	Status                               int
}

// certain are the decisions after which a request has been forwarded, whole;
// doubtful those after which it may have been.
var (
	certain  = map[string]bool{"admitted": true, "passed": true}
	doubtful = map[string]bool{"outcome-unknown": true, "client-left": true}
)

// lines reads a file of JSON lines. One that is not whole yet is not read.
func lines[T any](t *testing.T, file string) (all []T) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var v T
		if !strings.HasSuffix(line, "\n") {
			break
		}
		if err := json.Unmarshal([]byte(line), &v); err == nil {
			all = append(all, v)
		}
	}
	return all
}

// says are the lines of the proxy's log about requests.
func (p *proxy) says(t *testing.T) (requests []told) {
	for _, l := range lines[told](t, p.dir+"/fenceproxy.log") {
		if l.Msg == "request" || l.Msg == "access" {
			requests = append(requests, l)
		}
	}
	return requests
}

// fencedWrite reports whether the rules of these tests fence the request.
func fencedWrite(method, target string) bool {
	return strings.HasPrefix(target, "/things/") && method != "GET" && method != "HEAD" && method != "OPTIONS" && method != "TRACE"
}

// judge: what the backend saw is what the proxy says that it forwarded, in
// number and one by one. A write on a fenced path carries the very token that
// the gate let in; anything else is a request that was smuggled past it.
func judge(says []told, saw []seen) (bad []string) {
	name := func(method, target, token string) string {
		if !fencedWrite(method, target) {
			token = "any"
		}
		return fmt.Sprintf("%s %s token %s", method, target, token)
	}
	sure, perhaps, came := map[string]int{}, map[string]int{}, map[string]int{}
	for _, l := range says {
		if _, rest, ok := strings.Cut(l.Target, "://"); ok { // its origin-form is forwarded
			_, path, _ := strings.Cut(rest, "/")
			l.Target = "/" + path
		}
		if fencedWrite(l.Method, l.Target) && l.Token == "" && certain[l.Decision] {
			bad = append(bad, fmt.Sprintf("the proxy let %s %s pass without a token", l.Method, l.Target))
		}
		switch n := name(l.Method, l.Target, l.Token); {
		case certain[l.Decision]:
			sure[n]++
		case doubtful[l.Decision]:
			perhaps[n]++
		}
	}
	for _, s := range saw {
		n := name(s.Method, s.Target, s.Token)
		switch came[n]++; {
		case s.Status == 400:
			bad = append(bad, fmt.Sprintf("the backend was sent what it takes for no request: %q", s.Line))
		case came[n] > sure[n]+perhaps[n]:
			bad = append(bad, fmt.Sprintf("the backend saw %s %d times (%q), of which the proxy knows %d", n, came[n], s.Line, sure[n]+perhaps[n]))
		}
	}
	for n, times := range sure {
		if came[n] < times {
			bad = append(bad, fmt.Sprintf("the proxy says that %s was forwarded %d times, and the backend saw it %d times", n, times, came[n]))
		}
	}
	return bad
}
