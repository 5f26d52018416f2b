package differential

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// spelling is one request as its bytes are, so that it can be as wrong as it
// likes.
type spelling struct {
	method string // "" is PUT
	target string
	body   string
	host   []string // lines
	lines  []string // the other header lines, "Name: value"
	base   int      // the index of what it is made from
	kinds  []string // the mutations that made it, none for a base
}

const tokenLine = "X-Fencing-Token: 7"

// bases are the requests that all others are made from: every sort of rule,
// and values with whatever a value can have.
func bases() (all []spelling) {
	for _, target := range []string{
		"/accounts/42", "/accounts/AbC", "/accounts/it's", "/accounts/%C3%A9", "/accounts/a%20b", "/accounts/100%25",
		"/accounts/c%23", "/accounts/q%3Fr", "/accounts/a+b", "/accounts/.~-", "/accounts/42/owner", "/accounts/x%2Fy", "/accounts/v;w",
		"/files/a/b.txt", "/files/Dir/x%20y", "/files/a%2Fb", "/files/%E2%82%AC",
		"/orders?id=42", "/orders?id=a%26b", "/orders?x=1&id=AbC&y", "/orders?id=a%20b",
		"/sites/main", "/boxes/7", "/other/thing", "/other/x%2Fy",
	} {
		s := spelling{target: target, host: []string{"a.example"}, lines: []string{tokenLine}, base: len(all)}
		if strings.HasPrefix(target, "/boxes") {
			s.lines = []string{"X-Box: blue", tokenLine}
		}
		all = append(all, s)
	}
	return all
}

// remembered are spellings that got past the fence once, and are tried in every
// run. Their lines are their own, beside the token.
func remembered() (all []spelling) {
	from := bases()
	for _, was := range []struct {
		like   string // the base that a server took it for
		target string // "" for the same
		host   string // "" for the same
		line   string // one more
	}{
		// A virtual host is chosen without the port.
		{like: "/sites/main", host: "a.example:8080"},
		// CGI has _ for every byte of a name that is no letter and no digit.
		{like: "/accounts/42", line: "X+Fencing-Token: 9"},
		{like: "/accounts/42", line: "X-Fencing~Token: 9"},
		{like: "/boxes/7", line: "X+Box: green"},
		{like: "/boxes/7", line: "X-Box: green"}, // what that is taken for
		// new URL(target, base) takes // for the beginning of an authority.
		{like: "/accounts/42", target: "//x/accounts/42"},
		{like: "/accounts/42", target: `/\x/accounts/42`},
		{like: "/orders?id=42", target: "///x/orders?id=42"},
		// Dots walk out of a segment that other servers take for none or two.
		{like: "/accounts/42", target: `/x\z/../accounts/42`},
		{like: "/accounts/42", target: "/x%5Cz/../accounts/42"},
		{like: "/accounts/42", target: "/x%2Fz/../accounts/42"},
		{like: "/accounts/42", target: "/x%252Fz/../accounts/42"},
		{like: "/accounts/42", target: "/x%C0%AFz/../accounts/42"},
		{like: "/accounts/42", target: "/x%00/../accounts/42"},
		{like: "/accounts/42", target: "/x#/../accounts/42"},
		{like: "/accounts/42", target: `/accounts\;/../42`},
		{like: "/boxes/7", target: "/boxes//../7"},
		{like: "/boxes/7", target: "/boxes/..;/../7"},
		{like: "/boxes/7", target: "/boxes/%01/../7"},
		{like: "/boxes/7", target: `/boxes/\/../7`},
		// The dotless i is an i to Java's equalsIgnoreCase.
		{like: "/sites/main", target: "/s%C4%B1tes/main"},
		// What a server has put into the query meets what a client has.
		{like: "/accounts/42", target: "/accounts/9?q=/accounts/42"},
		{like: "/accounts/42", target: "/accounts/42&x"},
		// White space around a value, behind a folded line and outside ASCII.
		{like: "/boxes/7", line: "X-Box: blue\r\n\t"},
		{like: "/boxes/7", line: "X-Box: \xa0blue"},
	} {
		i := slices.IndexFunc(from, func(b spelling) bool { return b.target == was.like })
		s := from[i].clone()
		s.kinds = []string{"remembered"}
		if was.target != "" {
			s.target = was.target
		}
		if was.host != "" {
			s.host[0] = was.host
		}
		if strings.HasPrefix(was.line, "X-Box:") {
			s.lines[0] = was.line
		} else if was.line != "" {
			s.lines = append(s.lines, was.line)
		}
		all = append(all, s)
	}
	return all
}

func (s spelling) clone() spelling {
	s.host, s.lines, s.kinds = slices.Clone(s.host), slices.Clone(s.lines), slices.Clone(s.kinds)
	return s
}

// bytes is what is sent.
func (s spelling) bytes() string {
	var b strings.Builder
	b.WriteString(cmp.Or(s.method, http.MethodPut) + " " + s.target + " HTTP/1.1\r\n")
	for _, h := range s.host {
		b.WriteString("Host: " + h + "\r\n")
	}
	for _, line := range s.lines {
		b.WriteString(line + "\r\n")
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(s.body), s.body)
	return b.String()
}

// connectionFields end at the proxy.
var connectionFields = []string{"Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Proxy-Connection", "Content-Length"}

// forwarded is what the upstream gets of a request that passes, as the proxy
// writes it: another target where the rule's policy normalizes, the headers in
// their canonical spelling, without those of the connection.
func forwarded(r *http.Request, target, body string) string {
	drop := slices.Clone(connectionFields)
	for _, line := range r.Header["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			drop = append(drop, http.CanonicalHeaderKey(strings.Trim(name, " \t")))
		}
	}
	s := spelling{method: r.Method, target: target, host: []string{r.Host}, body: body}
	for name, values := range r.Header {
		if slices.Contains(drop, name) {
			continue
		}
		for _, v := range values {
			s.lines = append(s.lines, name+": "+v)
		}
	}
	slices.SortStableFunc(s.lines, func(a, b string) int {
		nameA, _, _ := strings.Cut(a, ":")
		nameB, _, _ := strings.Cut(b, ":")
		return strings.Compare(nameA, nameB)
	})
	return s.bytes()
}
