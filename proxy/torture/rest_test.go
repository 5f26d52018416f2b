package torture

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// rest is what a proxy has while it has nothing to do.
type rest struct {
	goroutines, files, heap float64
}

// What a proxy at rest may have more than it had at its start.
const (
	moreGoroutines = 3
	moreFiles      = 3
	moreHeap       = 24 << 20 // what is not collected yet, above all
)

// atRest warms the proxy up and measures it.
func (o *ordeal) atRest() rest {
	o.Helper()
	for i := range o.run.Keys {
		w := Write{ID: 1<<31 + uint32(i), Key: keyName(i), Token: 1}
		r := o.do(w)
		for tries := uint32(1); tries < 100 && r.Problem.Name() == "outcome-unknown"; tries++ { // the test itself stood still, or was too busy for response_timeout
			time.Sleep(100 * time.Millisecond)
			w.ID = 1<<31 + tries<<16 + uint32(i)
			r = o.do(w)
		}
		o.wants(r, 200, "", "yes", "admitted")
	}
	time.Sleep(1500 * time.Millisecond) // idle connections to the backend are kept for a second
	return o.rest()
}

func (o *ordeal) rest() rest {
	o.Helper()
	return rest{o.proxy.figure(o.T, "go_goroutines"), o.proxy.figure(o.T, "process_open_fds"), o.proxy.figure(o.T, "go_memstats_heap_alloc_bytes")}
}

// nothingLeft waits until the proxy is as it was before the storm.
func (o *ordeal) nothingLeft(before rest) {
	o.Helper()
	var left string
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if left = o.left(before); left == "" {
			now := o.rest()
			o.Logf("at rest: %.0f goroutines, %.0f files, %.1f MB of heap; before %.0f, %.0f, %.1f",
				now.goroutines, now.files, now.heap/(1<<20), before.goroutines, before.files, before.heap/(1<<20))
			return
		}
	}
	o.Errorf("this is left behind: %s", left)
}

// left names what a proxy at rest must not have; "" for nothing.
func (o *ordeal) left(before rest) string {
	o.Helper()
	for _, name := range []string{"fenceproxy_writes_in_flight", "fenceproxy_writes_unsettled", "fenceproxy_waiting"} {
		if n := o.proxy.figure(o.T, name); n != 0 {
			return fmt.Sprintf("%s is %v", name, n)
		}
	}
	if n := o.proxy.figure(o.T, "fenceproxy_keys_stored"); int(n) != o.run.Keys {
		return fmt.Sprintf("%v keys in the store, of %d", n, o.run.Keys)
	}
	for i := range o.run.Keys {
		if text := o.key(i); text != "" {
			return text
		}
	}
	return before.exceeded(o.rest())
}

// exceeded names what is more than it was; "" for nothing.
func (before rest) exceeded(now rest) string {
	switch {
	case now.goroutines > before.goroutines+moreGoroutines:
		return fmt.Sprintf("%v goroutines, of %v", now.goroutines, before.goroutines)
	case now.files > before.files+moreFiles:
		return fmt.Sprintf("%v open files, of %v", now.files, before.files)
	case now.heap > before.heap+moreHeap:
		return fmt.Sprintf("%v bytes of heap, of %v", now.heap, before.heap)
	}
	return ""
}

func TestRest(t *testing.T) {
	before := rest{goroutines: 12, files: 15, heap: 40 << 20}
	for _, c := range []struct {
		name string
		now  rest
		left bool
	}{
		{"the same", before, false},
		{"less", rest{10, 14, 30 << 20}, false},
		{"a little more", rest{14, 17, 50 << 20}, false},
		{"goroutines", rest{16, 15, 40 << 20}, true},
		{"files", rest{12, 19, 40 << 20}, true},
		{"memory", rest{12, 15, 65 << 20}, true},
	} {
		if left := before.exceeded(c.now); (left != "") != c.left {
			t.Errorf("%s: %q", c.name, left)
		}
	}
}

// key asks for what the proxy knows of a key; "" where nothing goes on.
func (o *ordeal) key(i int) string {
	o.Helper()
	resp, err := o.proxy.web.Get(o.proxy.Admin + "/v1/keys/thing:" + keyName(i))
	if err != nil {
		o.Fatal(err)
	}
	defer resp.Body.Close()
	var k struct {
		Highest          string            `json:"highest"`
		InFlight         []json.RawMessage `json:"in_flight"`
		Unsettled        []json.RawMessage `json:"unsettled"`
		Waiting          int               `json:"waiting"`
		QuarantinedUntil string            `json:"quarantined_until"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&k); err != nil || resp.StatusCode != http.StatusOK {
		o.Fatalf("key %d: %s, %v", i, resp.Status, err)
	}
	if len(k.InFlight)+len(k.Unsettled)+k.Waiting > 0 || k.QuarantinedUntil != "" || k.Highest == "" {
		return fmt.Sprintf("key %d: %+v", i, k)
	}
	return ""
}
