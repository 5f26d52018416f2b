package route

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// keyed are the keys of a rule, their tokens in X-Fencing-Token.
func keyed(templates ...string) (specs []KeySpec) {
	for _, t := range templates {
		specs = append(specs, KeySpec{Key: t, Header: "X-Fencing-Token"})
	}
	return specs
}

// accounts are rules as a user would write them.
func accounts() []Rule {
	return []Rule{
		{Name: "accounts", Paths: []string{"/accounts/{id}", "/accounts/{id}/*"}, Methods: []string{"PUT", "PATCH", "DELETE"}, Keys: keyed("account:{id}")},
		{Name: "transfer", Paths: []string{"/transfer"}, Keys: keyed("transfer:{query.from}:{header.X-To}")},
	}
}

// broad are the same with one rule that covers everything else.
func broad() []Rule {
	return append(accounts(), Rule{Name: "all", Paths: []string{"/*"}, Keys: keyed("path:{path}")})
}

func mustNew(t testing.TB, rules ...Rule) *Table {
	t.Helper()
	table, err := New(rules, Options{Headers: []string{"X-Fencing-Token"}})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// byHand makes a request without net/http's parser, which refuses some of the
// hostile ones by itself.
func byHand(method, target string, headers ...string) *http.Request {
	r := &http.Request{Method: method, RequestURI: target, Host: "example.com", Header: http.Header{}}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header[name] = append(r.Header[name], value)
	}
	return r
}

// parsed makes a request from raw bytes; nil where net/http refuses them.
func parsed(method, target string, headers ...string) *http.Request {
	raw := method + " " + target + " HTTP/1.1\r\nHost: example.com\r\n"
	for _, h := range headers {
		raw += h + "\r\n"
	}
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw + "\r\n")))
	if err != nil {
		return nil
	}
	return r
}

// bodyOf reads the body of a request, and leaves it as it was.
func bodyOf(t testing.TB, r *http.Request) []byte {
	t.Helper()
	if r.Body == nil {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body
}

func join(keys []tokenstore.Key) string {
	all := make([]string, len(keys))
	for i, k := range keys {
		all[i] = string(k)
	}
	return strings.Join(all, " ")
}

// result is the key of a request, `-` where no rule covers it, or the kind of
// the refusal.
func result(t testing.TB, table *Table, r *http.Request) (string, string) {
	t.Helper()
	m, err := table.Match(r)
	if err == nil && !m.Covered() {
		return "-", ""
	}
	if err == nil {
		keys, keyErr := table.Keys(&m, r, bodyOf(t, r))
		if keyErr == nil {
			return join(keys), ""
		}
		err = keyErr
	}
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		t.Fatalf("error %v is no *Refusal", err)
	}
	if refusal.Detail == "" || strings.HasPrefix(refusal.Error(), ":") {
		t.Errorf("a refusal without words: %#v", refusal)
	}
	return refusal.Kind.String(), refusal.Detail
}
