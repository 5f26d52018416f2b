package route

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// FuzzTemplate: whatever is accepted can be filled, without a panic, and two
// requests have one key exactly when all the values in it are the same. one and
// other are those of each request, parted by commas: the last stands for the rest.
func FuzzTemplate(f *testing.F) {
	for _, seed := range [][4]string{
		{"/a/{id}", "account:{id}", "1", "2"}, {"/a/{id:[0-9]{2}}/*", "{id}/{*}", "1", "2"}, {"/*", "{host}:{method}:{path}", "a/b", "a"},
		{"/a", "{query.x}|{header.X-To}", "a", "A"}, {"/a/{x}.{y}", "{x}-{y}", "1.2", "1-2"}, {`/{a:\{\}}`, "{a}", "{}", "{"}, {"/{a:(?i:B)|c}", "100%", "b", "c"},
		{"/a/{x}/{y}", "{x|int}:{y|lower}", "01/A", "1/a"}, {"/a/{x}", "{x|trim|uuid}:{query.x|trim}", "x", "y"},
		{"/a", "{json:/x}:{json:/y|lower}", "a", "A"}, {"/a/{x}", "{form.x}:{x}", "a:b", "a"}, {"/a", "{xml:/a/x}:{xml:/a/@y}", "1", "2"},
		{"/*", "{grpc.service}:{grpc.method}", "S/M", "S"},
		// What would be one key, were the template taken or a value not escaped.
		{"/a/{x}/{y}", "{x}-{y}", "1-2,3", "1,2-3"}, {"/a/{x}/{y}", "{x}:{y}", "1:2,3", "1,2:3"}, {"/a/{x}/*", "{*}/{x}", "1,2/3", "3/1,2"},
		{"/a", "{query.x}|{header.X-To}", "1|2,3", "1,2|3"}, {"/a", "{json:/x}:{json:/y}", "%3A,1", ":,1"}, {"/a/{x}/*", "{*}:{path}", "1,%2F", "1,/"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	f.Fuzz(func(t *testing.T, path, key, one, other string) {
		if strings.Contains(path, "{") && len(path) > 60 || max(len(one), len(other)) > 2*tokenstore.MaxKey {
			return // big expressions are slow, and not the subject; no key is as long
		}
		table, err := New([]Rule{{Name: "r", Paths: []string{path}, Keys: keyed(key)}}, Options{})
		var errs Errors
		if err != nil {
			if !errors.As(err, &errs) {
				t.Fatalf("the error %v is no Errors", err)
			}
			return
		}
		keyA, tupleA := fill(t, table, path, one)
		keyB, tupleB := fill(t, table, path, other)
		if keyA != "" && keyB != "" && (keyA == keyB) != slices.Equal(tupleA, tupleB) {
			t.Fatalf("%q makes the key %q of %q, and %q of %q", key, keyA, tupleA, keyB, tupleB)
		}
	})
}

// fill makes the key of a request that has the values in its path and everywhere
// else, and tells those that the key is made of; "" where it has none.
func fill(t *testing.T, table *Table, path, value string) (string, []string) {
	t.Helper()
	values, n := strings.Split(value, ","), -1
	next := func() string {
		n++
		return values[min(n, len(values)-1)]
	}
	target := ""
	for rest := path; rest != ""; {
		begin := strings.IndexByte(rest, '{')
		if begin < 0 {
			before, star := strings.CutSuffix(rest, "*")
			if target += before; star {
				target += next()
			}
			break
		}
		end := begin + closing(rest[begin:])
		target += rest[:begin] + next()
		rest = rest[end+1:]
	}
	one, two := values[0], values[min(1, len(values)-1)]
	r := byHand("PUT", string(appendValue(nil, target, true))+"?x="+url.QueryEscape(one), "X-To: "+two)
	m, err := table.Match(r)
	if err != nil || !m.Covered() {
		return "", nil
	}
	body := bodyWith(m.cover.body, one, two, r.Header)
	keys, err := table.Keys(&m, r, body)
	if err != nil {
		return "", nil
	}
	if len(keys[0]) == 0 || len(keys[0]) > 1024 {
		t.Fatalf("%q makes the key %q", path, keys[0])
	}
	var tuple []string
	for _, part := range table.Explain(r, body).Keys[0].Parts {
		tuple = append(tuple, part.Value)
	}
	return string(keys[0]), tuple
}

// bodyWith is a body that has two values as x and as y.
func bodyWith(kind source, x, y string, h http.Header) []byte {
	switch kind {
	case fromJSON:
		h.Set("Content-Type", "application/json")
		text, _ := json.Marshal(map[string]string{"x": x, "y": y})
		return text
	case fromForm:
		h.Set("Content-Type", "application/x-www-form-urlencoded")
		return []byte(url.Values{"x": {x}, "y": {y}}.Encode())
	case fromXML:
		h.Set("Content-Type", "application/xml")
		return []byte(`<a y="` + y + `"><x>` + x + `</x></a>`)
	}
	return nil
}
