package gate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// walk lists the busy keys page by page.
func (r *rig) walk(prefix string, limit int) (all []Busy, pages int) {
	r.Helper()
	for after := tokenstore.Key(""); ; {
		page, next := r.gate.Busy(prefix, after, limit)
		if len(page) > limit {
			r.Errorf("a page has %d keys", len(page))
		}
		all = append(all, page...)
		if pages++; next == "" {
			return all, pages
		}
		if next <= after {
			r.Fatalf("behind %q comes %q", after, next)
		}
		after = next
	}
}

func keysOf(all []Busy) string {
	var keys []string
	for _, b := range all {
		keys = append(keys, string(b.Key))
	}
	return strings.Join(keys, " ")
}

func TestBusy(t *testing.T) {
	inTime(t, func(r *rig) {
		r.startOn("over", time.Hour, on("idle", 1)).mustBeSent().answer() // rests in memory
		since := time.Now()
		for _, later := range []time.Duration{time.Second, 0, time.Minute} {
			w := r.startOn("flying", time.Hour, on("b", 5)).mustBeSent()
			w.ticket.since = since.Add(later).UnixNano()
		}
		r.startOn("first lost", time.Hour, on("a", 1)).mustBeSent().lose()
		time.Sleep(time.Second)
		last := r.startOn("last lost", time.Hour, on("a", 1)).mustBeSent()
		last.ticket.Unsettle("timeout")
		r.startOn("new holder", time.Hour, on("a", 2)).mustWait()

		all, _ := r.walk("", 10)
		if len(all) != 2 {
			t.Fatalf("busy are %q", keysOf(all))
		}
		a, b := all[0], all[1]
		if a.Key != "a" || a.Unsettled != 2 || a.Why != "timeout" || time.Until(a.Until) != settle || a.Waiting != 1 || a.InFlight != 0 || a.Highest != tok(2) || !a.Exists {
			t.Errorf("%+v", a)
		}
		if b.Key != "b" || b.InFlight != 3 || !b.Since.Equal(since) || b.Unsettled != 0 || b.Waiting != 0 {
			t.Errorf("%+v", b)
		}
		after(settle) // now the new holder is sent
		if all, _ = r.walk("", 10); keysOf(all) != "a b" || all[0].InFlight != 1 || all[0].Unsettled != 0 || all[0].Waiting != 0 {
			t.Errorf("later %+v", all)
		}
	})
}

// Every key that stays busy is in exactly one page, in order, whatever the
// shards that they are in.
func TestBusyPages(t *testing.T) {
	inTime(t, func(r *rig) {
		var want []string
		for n := range 300 {
			key := fmt.Sprintf("%c:%03d", "xyz"[n%3], n)
			w := r.startOn(key, time.Hour, on(key, 1)).mustBeSent()
			switch {
			case n%5 == 0:
				w.answer()
			case n%2 == 0:
				w.lose()
				fallthrough
			default:
				want = append(want, key)
			}
		}
		slices.Sort(want)
		for _, limit := range []int{1, 7, len(want) - 1, len(want), len(want) + 1} {
			all, pages := r.walk("", limit)
			if keysOf(all) != strings.Join(want, " ") || pages != (len(want)+limit-1)/limit {
				t.Errorf("limit %d: %d keys in %d pages, want %d", limit, len(all), pages, len(want))
			}
		}
		ofY := slices.DeleteFunc(slices.Clone(want), func(key string) bool { return key[0] != 'y' })
		if all, _ := r.walk("y:", 9); keysOf(all) != strings.Join(ofY, " ") {
			t.Errorf("with a prefix: %s", keysOf(all))
		}
	})
}

// A write with several keys makes each of them busy; one whose key nobody knows
// is told beside the pages.
func TestBusyElsewhere(t *testing.T) {
	inTime(t, func(r *rig) {
		r.opts.Unordered = true
		r.gate.Change(r.opts)
		if _, ok := r.gate.BusyNowhere(); ok {
			t.Error("nothing goes on")
		}
		r.startOn("both", time.Hour, on("to", 1), on("from", 1)).mustBeSent().lose()
		r.startOn("nowhere", time.Hour, Claim{Unordered: true}).mustBeSent().lose()
		if all, pages := r.walk("", 1); keysOf(all) != "from to" || pages != 2 {
			t.Errorf("%s in %d pages", keysOf(all), pages)
		}
		if b, ok := r.gate.BusyNowhere(); !ok || b.Unsettled != 1 || b.Why != "reset" {
			t.Errorf("%+v", b)
		}
	})
}

// Over a shared store a write waits on its keys without a token, too: for the store
// where there is no other key, and else for what that one waits for.
func TestBusyUnordered(t *testing.T) {
	inFleetTime(t, func(r *rig, f *fleet) {
		tell := func(want string) {
			t.Helper()
			got := ""
			all, _ := r.walk("", 10)
			for _, b := range all {
				got += fmt.Sprintf("%s: %d in flight, %d waiting. ", b.Key, b.InFlight, b.Waiting)
				if st := r.gate.Status(b.Key, b.Exists); st.Waiting != b.Waiting {
					t.Errorf("Status says that %d wait", st.Waiting)
				}
			}
			if got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		release := f.disk.hold(&f.disk.holdSync)
		u := r.bare("u").mustWait()
		tell("k: 0 in flight, 1 waiting. ")
		release()
		synctest.Wait()
		u.mustBeSent()
		w := r.startOn("w", time.Hour, on("a", 1), Claim{Key: "b", Unordered: true}).mustWait()
		tell("a: 0 in flight, 1 waiting. b: 0 in flight, 1 waiting. k: 1 in flight, 0 waiting. ")
		inUse := (*tokenstore.InUseError)(nil)
		if _, err := r.gate.Forget(t.Context(), "b", nil); !errors.As(err, &inUse) || inUse.Why != "a write is waiting" {
			t.Errorf("forgotten: %v", err)
		}
		close(f.last.drained)
		synctest.Wait()
		w.mustBeSent()
		tell("a: 1 in flight, 0 waiting. b: 1 in flight, 0 waiting. k: 1 in flight, 0 waiting. ")
		u.answer()
		w.answer()
		tell("")
	})
}

// A quarantine holds every key of before, and makes none of them busy.
func TestBusyInQuarantine(t *testing.T) {
	inTime(t, func(r *rig) {
		r.start("w1", 1).mustBeSent()
		if end := r.gate.QuarantinedUntil(); !end.IsZero() {
			t.Errorf("until %v", end)
		}
		r.crash()
		if all, _ := r.walk("", 10); len(all) > 0 || time.Until(r.gate.QuarantinedUntil()) != settle {
			t.Errorf("%+v, until %v", all, r.gate.QuarantinedUntil())
		}
		r.start("w2", 2).mustWait()
		if all, _ := r.walk("", 10); len(all) != 1 || all[0].Waiting != 1 || all[0].InFlight+all[0].Unsettled != 0 {
			t.Errorf("%+v", all)
		}
		after(settle)
		if end := r.gate.QuarantinedUntil(); !end.IsZero() {
			t.Errorf("until %v", end)
		}
	})
}
