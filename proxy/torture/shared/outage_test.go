package shared

import (
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
)

// answer is one to a write of TestStoreGone.
type answer struct {
	torture.Reaction
	token uint64
	sent  time.Duration
}

// The store is gone for some seconds, under load. Writes with a token that their
// proxy holds go on until its deadline; then everything is refused, and nobody
// is called stale on a guess; when the store is back, so is the service, by
// itself, and it has forgotten nothing.
func TestStoreGone(t *testing.T) {
	everyEngine(t, func(t *testing.T, start func() (engine, error)) {
		f := newFleet(t, start, 2, torture.Settings{})
		f.ok(f.members[1], "k0", 4) // lower, and elsewhere
		for i, m := range f.members {
			f.ok(m, key(i), 5)
		}
		stop := make(chan struct{})
		var clients sync.WaitGroup
		var mu sync.Mutex // guards answers
		var answers []answer
		for i := range 8 {
			clients.Go(func() {
				m, k := f.members[i%2], key(i%2)
				for token := uint64(5); ; token ^= 1 { // 5, and now and then 4, which is stale
					select {
					case <-stop:
						return
					default:
					}
					sent := f.h.Now()
					r := f.do(m, f.write(k, token))
					mu.Lock()
					answers = append(answers, answer{r, token, sent})
					mu.Unlock()
					time.Sleep(3 * time.Millisecond)
				}
			})
		}
		time.Sleep(500 * time.Millisecond)
		f.fault("the store is ended")
		f.engine.Kill()
		down := f.h.Now()
		time.Sleep(ttl + 2*time.Second)
		for _, m := range f.members {
			if status, text := m.ask("/readyz"); status != 503 {
				t.Errorf("/readyz of %s without a store: %d, %q", m.name, status, text)
			}
		}
		up := f.fault("the store is started")
		if err := f.engine.Start(); err != nil {
			t.Fatal(err)
		}
		for _, m := range f.members {
			f.ready(m)
		}
		f.eventually(gone+prompt, "the service is resumed", func() bool {
			mu.Lock()
			defer mu.Unlock()
			n := 0
			for _, a := range answers[max(0, len(answers)-100):] {
				if a.Status == 200 && a.At > up {
					n++
				}
			}
			return n >= 20
		})
		close(stop)
		clients.Wait()
		var on, refused, wrong, resumed int
		for _, a := range answers {
			switch {
			case a.token == 4 && a.Status == 200:
				t.Errorf("token 4 was let in at %v", a.At)
			case a.Status == 200 && a.At > down+100*time.Millisecond && a.At < up:
				on++
				if a.sent > down+ttl { // however late an answer is read
					t.Errorf("a write was let in that was sent %v after the store was gone", a.sent-down)
				}
			case a.Status == 503 && a.Problem.Name() == storeUnavailable && a.At < up:
				refused++
			case a.Status == 200 && a.At > up:
				resumed++
			case a.token == 5 && a.Status != 200 && a.Problem.Name() != storeUnavailable && a.Problem.Name() != outcomeUnknown:
				wrong++
				t.Logf("at %v: %d %q, %v", a.At, a.Status, a.Problem.Name(), a.Err)
			}
		}
		t.Logf("without the store %d writes went on, %d were refused; with it again %d", on, refused, resumed)
		if on == 0 || refused < 20 || resumed < 20 || wrong > 0 {
			t.Errorf("and %d had another answer", wrong)
		}
		f.judge()
	})
}
