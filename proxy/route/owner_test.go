package route

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

func TestOwners(t *testing.T) {
	keys := func(templates ...string) (specs []KeySpec) {
		for _, text := range templates {
			specs = append(specs, KeySpec{Key: text, Header: "X-Fencing-Token"})
		}
		return specs
	}
	table, err := New([]Rule{
		{Name: "accounts", Paths: []string{"/accounts/{id}"}, Keys: keys("account:{id}")},
		{Name: "files", Paths: []string{"/files/*"}, Keys: keys("/files/{*}")},
		{Name: "open", Paths: []string{"/login"}, NoKey: true},
		{Name: "transfer", Paths: []string{"/transfer"}, Keys: keys("account:{query.from}", "account:{query.to}")},
		{Name: "paths", Paths: []string{"/all/*"}, Keys: keys("{path}")},
		{Name: "one", Paths: []string{"/one"}, Keys: keys("a.b")},
	}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"account:42":     "0 3",
		"account:4%2F2":  "0 3",
		"account:4/2":    "",
		"account:4%2f2":  "", // no key has a lower-case escape
		"account:":       "",
		"accounts:42":    "",
		"xaccount:42":    "",
		"account:42\n":   "",
		"/files/a/b.txt": "1 4",
		"/all/x":         "4",
		"a.b":            "5",
		"axb":            "",
		"":               "",
	} {
		var got []string
		for _, i := range table.Owners(tokenstore.Key(key)) {
			got = append(got, string(rune('0'+i)))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("Owners(%q) = %v, want %s", key, got, want)
		}
	}
}

// Every key that a rule makes has that rule among its owners.
func FuzzOwners(f *testing.F) {
	f.Add("42")
	f.Add("a b/ü%2F\x00:")
	f.Add("A-b_c.d~9/é")
	table, err := New([]Rule{{Name: "r", Paths: []string{"/x"}, Keys: []KeySpec{{Key: "k:{query.id}:{query.id}/{path}", Header: "T"}}}}, Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, id string) {
		r := httptest.NewRequest("PUT", "/x", nil)
		q := r.URL.Query()
		q.Set("id", id)
		r.URL.RawQuery = q.Encode()
		r.RequestURI = r.URL.RequestURI()
		m, err := table.Match(r)
		if err != nil {
			return
		}
		keys, err := table.Keys(&m, r, nil)
		if err != nil {
			return
		}
		if !slices.Contains(table.Owners(keys[0]), 0) {
			t.Errorf("the rule made the key %q and is not among its owners", keys[0])
		}
	})
}
