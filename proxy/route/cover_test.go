package route

import (
	"net/http"
	"strings"
	"testing"
)

// A read that carries a token is covered where a rule fences reads, by all the
// checks that see a covered request; one that carries none passes untouched.
func TestFencedReads(t *testing.T) {
	table := mustNew(t,
		Rule{Name: "fenced", Paths: []string{"/a/{id}"}, Methods: []string{"PUT"}, FenceReads: true,
			Keys: []KeySpec{{Key: "a:{id}", Header: "x-fencing-token"}, {Key: "b:{id}", Header: "X-Other-Token"}}},
		Rule{Name: "post", Paths: []string{"/a/{id}"}, Methods: []string{"POST"}, Keys: keyed("post:{id}")},
		Rule{Name: "plain", Paths: []string{"/b/{id}"}, Keys: keyed("b:{id}")},
		Rule{Name: "get", Paths: []string{"/c/{id}"}, Methods: []string{"GET", "PUT"}, Keys: keyed("c:{id}"), FenceReads: true},
	)
	const token, other = "X-Fencing-Token: 1", "X-Other-Token: 1"
	for _, test := range []struct {
		method, target string
		headers        []string
		want           string
		read           bool
	}{
		{"GET", "/a/1", []string{token}, "a:1 b:1", true},
		{"HEAD", "/a/1", []string{other}, "a:1 b:1", true},
		{"OPTIONS", "/a/1?x", []string{"X-Fencing-Token: "}, "a:1 b:1", true},
		{"TRACE", "/a/1", []string{token}, "a:1 b:1", true},
		{"GET", "/a/1", nil, "-", false},
		{"GET", "/a/1", []string{"X-Fencing-Tokens: 1"}, "-", false},
		{"GET", "/a//%31", nil, "-", false},
		{"GET", "/a//%31", []string{token}, "path-not-canonical", false},
		{"GET", "/A/1", []string{token}, "path-alias", false},
		{"GET", "/a/1", []string{"X_Fencing_Token: 1"}, "header-alias", false},
		{"GET", "/a/1", []string{"X.Other.Token: 1"}, "header-alias", false},
		{"GET", "/a/1", []string{token, "Connection: x-other-token"}, "connection-option", false},
		{"PUT", "/a/1", []string{token}, "a:1 b:1", false},
		{"POST", "/a/1", []string{token}, "post:1", false},
		{"PATCH", "/a/1", []string{token}, "-", false}, // a write that the methods leave out
		{"GET", "/a/1?_method=PUT", []string{token}, "key-unresolvable", false},
		{"GET", "/b/1", []string{token}, "-", false},
		{"GET", "/c/1", []string{token}, "c:1", false}, // its methods name it: held like a write
		{"OPTIONS", "/c/1", []string{token}, "c:1", true},
		{"GET", "/c/1", nil, "c:1", false},
		{"GET", "/x", []string{token}, "-", false},
	} {
		t.Run(strings.Join(append([]string{test.method, test.target}, test.headers...), " "), func(t *testing.T) {
			for how, r := range map[string]*http.Request{"by hand": byHand(test.method, test.target, test.headers...), "parsed": parsed(test.method, test.target, test.headers...)} {
				if got, detail := result(t, table, r); got != test.want {
					t.Fatalf("%s: got %s (%s), want %s", how, got, detail, test.want)
				}
				if m, err := table.Match(r); err == nil && m.Read != test.read {
					t.Fatalf("%s: Read is %v", how, m.Read)
				}
			}
		})
	}
}

// Two rules of one path fence reads by their own headers.
func TestFencedReadsSideBySide(t *testing.T) {
	table := mustNew(t,
		Rule{Paths: []string{"/a"}, Methods: []string{"PUT"}, FenceReads: true, Keys: []KeySpec{{"put", "X-Put-Token"}}},
		Rule{Paths: []string{"/a"}, Methods: []string{"POST"}, FenceReads: true, Keys: []KeySpec{{"post", "X-Post-Token"}}},
	)
	for headers, want := range map[string]string{"X-Put-Token": "put", "X-Post-Token": "post", "X-Put-Token X-Post-Token": "key-unresolvable", "X": "-"} {
		r := byHand("GET", "/a")
		for name := range strings.FieldsSeq(headers) {
			r.Header[name] = []string{"1"}
		}
		if got, detail := result(t, table, r); got != want {
			t.Errorf("%s: got %s (%s), want %s", headers, got, detail, want)
		}
	}
}

func TestWebSocket(t *testing.T) {
	table := mustNew(t,
		Rule{Name: "feed", Paths: []string{"/feed/{id}"}, Methods: []string{"PUT"}, Keys: keyed("feed:{id}"), WebSocket: true},
		Rule{Name: "open", Paths: []string{"/open"}, NoKey: true, WebSocket: true},
		Rule{Name: "plain", Paths: []string{"/plain"}, Keys: keyed("plain")},
	)
	good := []string{"Connection: keep-alive, Upgrade", "Upgrade: WebSocket"}
	with := func(more ...string) []string { return append(good[:2:2], more...) }
	for _, test := range []struct {
		name, method, target string
		headers              []string
		change               func(r *http.Request)
		want                 string
	}{
		{"handshake", "GET", "/feed/1", good, nil, "feed:1"},
		{"no rule", "GET", "/other", good, nil, "upgrade-refused"},
		{"a rule without", "GET", "/plain", good, nil, "upgrade-refused"},
		{"PUT", "PUT", "/feed/1", good, nil, "upgrade-refused"},
		{"get", "get", "/feed/1", good, nil, "upgrade-refused"},
		{"h2c", "GET", "/feed/1", []string{"Connection: Upgrade", "Upgrade: h2c"}, nil, "-"},
		{"h2c, misspelt", "GET", "/feed/1", []string{"Connection: Upgrade", "Upgrade: h2c;x"}, nil, "upgrade-refused"},
		{"a list", "GET", "/feed/1", []string{"Connection: Upgrade", "Upgrade: websocket, h2c"}, nil, "upgrade-refused"},
		{"two lines", "GET", "/feed/1", with("Upgrade: h2c"), nil, "upgrade-refused"},
		{"a version", "GET", "/feed/1", []string{"Connection: Upgrade", "Upgrade: websocket/13"}, nil, "upgrade-refused"},
		{"no Connection", "GET", "/feed/1", good[1:], nil, "upgrade-refused"},
		{"override", "GET", "/feed/1", with("X-HTTP-Method: PUT"), nil, "upgrade-refused"},
		{"override in the query", "GET", "/feed/1?_method=PUT", good, nil, "upgrade-refused"},
		{"a body", "GET", "/feed/1", good, func(r *http.Request) { r.ContentLength = 1 }, "upgrade-refused"},
		{"a chunked body", "GET", "/feed/1", good, func(r *http.Request) { r.ContentLength = -1 }, "upgrade-refused"},
		{"HTTP/1.0", "GET", "/feed/1", good, func(r *http.Request) { r.ProtoMajor, r.ProtoMinor = 1, 0 }, "upgrade-refused"},
		{"HTTP/2", "GET", "/feed/1", good, func(r *http.Request) { r.ProtoMajor = 2 }, "upgrade-refused"},
		{"alias of the path", "GET", "/FEED/1", good, nil, "path-alias"},
		{"not canonical", "GET", "/feed//1", good, nil, "path-not-canonical"},
		{"alias of the token", "GET", "/feed/1", with("X_Fencing_Token: 1"), nil, "header-alias"},
		{"token in Connection", "GET", "/feed/1", with("Connection: X-Fencing-Token"), nil, "connection-option"},
		{"no Upgrade", "GET", "/feed/1", nil, nil, "-"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := byHand(test.method, test.target, test.headers...)
			if test.change != nil {
				test.change(r)
			}
			if got, detail := result(t, table, r); got != test.want {
				t.Fatalf("got %s (%s), want %s", got, detail, test.want)
			}
			if m, err := table.Match(r); err == nil && (m.Upgrade != (test.want == "feed:1") || m.Write != m.Upgrade || m.Read) {
				t.Fatalf("%+v", m)
			}
		})
	}
	if m, err := table.Match(byHand("GET", "/open", good...)); err != nil || !m.Upgrade || m.Rule != 1 {
		t.Errorf("a rule without a key: %+v, %v", m, err)
	}
}
