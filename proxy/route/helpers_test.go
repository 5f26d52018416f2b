package route

import (
	"bufio"
	"errors"
	"net/http"
	"strings"
	"testing"
)

// accounts are rules as a user would write them.
func accounts() []Rule {
	return []Rule{
		{Name: "accounts", Paths: []string{"/accounts/{id}", "/accounts/{id}/*"}, Methods: []string{"PUT", "PATCH", "DELETE"}, Key: "account:{id}"},
		{Name: "transfer", Paths: []string{"/transfer"}, Key: "transfer:{query.from}:{header.X-To}"},
	}
}

// broad are the same with one rule that covers everything else.
func broad() []Rule {
	return append(accounts(), Rule{Name: "all", Paths: []string{"/*"}, Key: "path:{path}"})
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

// result is the key of a request, `-` where no rule covers it, or the kind of
// the refusal.
func result(t testing.TB, table *Table, r *http.Request) (string, string) {
	t.Helper()
	m, err := table.Match(r)
	if err == nil && !m.Covered() {
		return "-", ""
	}
	if err == nil {
		key, keyErr := table.Key(&m, r)
		if keyErr == nil {
			return string(key), ""
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
