package route

import (
	"fmt"
	"net/http"
	"testing"
)

// benchRules are 200 rules with two parameters each.
func benchRules() []Rule {
	var rules []Rule
	for i := range 200 {
		rules = append(rules, Rule{
			Name:  fmt.Sprintf("r%d", i),
			Paths: []string{fmt.Sprintf("/api/v%d/service%d/{tenant}/items/{item}", i%4, i)},
			Keys:  keyed(fmt.Sprintf("s%d:{tenant}:{item}", i)),
		})
	}
	return rules
}

func benchRequest(target string) *http.Request {
	return byHand("PUT", target, "X-Fencing-Token: 42", "User-Agent: bench/1.0", "Accept: */*", "Content-Type: application/json",
		"Content-Length: 256", "Accept-Encoding: gzip", "X-Request-Id: 7e1f", "Authorization: Bearer x")
}

// Match and Key of the common request, and of the spellings that cost more.
func BenchmarkMatchAndKey(b *testing.B) {
	table := mustNew(b, benchRules()...)
	for _, bench := range []struct{ name, target string }{
		{"plain", "/api/v1/service137/acme/items/0000042"},
		{"query", "/api/v1/service137/acme/items/0000042?verbose=1&fields=id,name"},
		{"capitals", "/api/v1/service137/Acme/items/01J9ZQ3X"},
		{"escapes", "/api/v1/service137/caf%C3%A9/items/it%27s"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			r := benchRequest(bench.target)
			b.ReportAllocs()
			for b.Loop() {
				m, err := table.Match(r)
				if err != nil || m.Rule != 137 {
					b.Fatal(m, err)
				}
				if _, err := table.Keys(&m, r, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The allocations of the README, held by a test.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		return // the race detector makes pools forget on purpose
	}
	table := mustNew(t, benchRules()...)
	for target, most := range map[string]float64{
		"/api/v1/service137/acme/items/0000042?verbose=1": 2,
		"/api/v1/service137/Acme/items/01J9ZQ3X":          3,
		"/api/v1/service137/caf%C3%A9/items/it%27s":       3,
	} {
		r := benchRequest(target)
		got := testing.AllocsPerRun(200, func() {
			m, _ := table.Match(r)
			_, _ = table.Keys(&m, r, nil)
		})
		if got > most {
			t.Errorf("%s costs %v allocations, at most %v are wanted", target, got, most)
		}
	}
}
