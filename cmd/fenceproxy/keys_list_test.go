package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/client"
)

// Two pages make one table: what stands beside the keys is told once.
func TestListOfBusyKeys(t *testing.T) {
	until := time.Now().Add(time.Hour).Format(time.RFC3339)
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		body := `{"keys":[{"key":"a\u001b[2J","rule":"r","highest":"7","waiting":3}],"next":"b","quarantined_until":"` + until + `","without_key":{"key":"","unsettled":{"count":2,"until":"` + until + `","why":"reset"}}}`
		if r.URL.Query().Has("after") {
			body = `{"keys":[{"key":"c","in_flight":{"count":1,"since":"2026-01-31T00:00:00Z"}}],"quarantined_until":"` + until + `"}`
		}
		_, _ = w.Write([]byte(body))
	}))
	defer server.Close()
	admin, err := client.NewAdmin(client.AdminOptions{Address: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	var out, errors bytes.Buffer
	call := keysCall{ctx: t.Context(), out: &out, errors: &errors, admin: admin}
	if err := (listing{prefix: "p", busy: true}).list(call); err != nil {
		t.Fatal(err)
	}
	want := `^KEY +HIGHEST +IN FLIGHT +UNSETTLED +WAITING +RULE +WHY
\(not known\) +- +- +2 for (1h0m0s|59m.*) more +- +- +reset
"a\\x1b\[2J" +7 +- +- +3 +r +-
c +- +1 for [0-9]+d +- +- +- +-
$`
	if !regexp.MustCompile(want).Match(out.Bytes()) {
		t.Errorf("%s", &out)
	}
	if len(asked) != 2 || asked[0] != "busy=true&limit=1000&prefix=p" || asked[1] != "after=b&busy=true&limit=1000&prefix=p" {
		t.Errorf("%q", asked)
	}
	if got := errors.String(); !regexp.MustCompile(`^keys are quarantined after a crash, for [^\n]* more; [^\n]*\n$`).MatchString(got) {
		t.Errorf("%q", got)
	}

	// A limit is one of the whole, and scripts get a line for each.
	out.Reset()
	call.json = true
	if err := (listing{busy: true, limit: 1}).list(call); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^{"key":"","unsettled":{"count":2,[^\n]*}\n{"key":"a[^\n]*,"waiting":3}\n$`).Match(out.Bytes()) || len(asked) != 3 || asked[2] != "busy=true&limit=1" {
		t.Errorf("%q %s", asked, &out)
	}
}
