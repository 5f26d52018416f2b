package route

import (
	"strings"
	"testing"
	"time"
)

// What a client may send costs time in proportion to its length, before anybody
// has looked at its token: no more than a second for each of these, on a machine
// that is busy. What grew with the square took minutes.
func TestCost(t *testing.T) {
	const size, hangs = 256 << 10, time.Minute
	table := mustNew(t, relaxedRules()...)
	fill := func(piece string) string { return strings.Repeat(piece, size/len(piece)) }
	in := func(name string, do func()) {
		t.Run(name, func(t *testing.T) {
			done := make(chan struct{})
			go func() { defer close(done); do() }()
			select {
			case <-done:
			case <-time.After(hangs):
				t.Error("costs more than its length")
			}
		})
	}
	for _, piece := range []string{"%2e", ".%2e", "%2e/", "../", "%2f..", ";..", "%25", "%5c..", "%E2%84%AA", "/a", "a.", "//", "%00"} {
		in("path of "+piece, func() { _, _ = table.Match(byHand("PUT", "/U/"+fill(piece))) })
	}
	for _, piece := range []string{"&", "[&", "%5b", "a=%2e&", ";", "?"} {
		in("query of "+piece, func() { _, _ = queryValue("id=1&"+fill(piece), "id", nil); _ = hasMethodField(fill(piece)) })
	}
	for _, piece := range []string{` b=""`, ` x:b=""`, ` xmlns:b=""`} {
		in("attributes"+piece, func() { _, _ = xmlValue([]byte("<a"+fill(piece)+"/>"), []string{"a"}, "b") })
	}
	for _, piece := range []string{"<a>", "<b/>", "&lt;", "<!---->"} {
		in("XML of "+piece, func() { _, _ = xmlValue([]byte("<a>"+fill(piece)+"</a>"), []string{"a", "b"}, "") })
	}
	for _, piece := range []string{"[", `{"a":`, `{},`, `"",`, "1,"} {
		in("JSON of "+piece, func() { _, _ = jsonValue([]byte("["+fill(piece)+"0]"), []string{"a"}) })
	}
}
