package lease

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/memory"
)

const manyLeases = 10_000

// newMany grants many leases, and returns their keys and IDs.
func newMany(tb testing.TB) (i *Issuer, ids map[tokenstore.Key]string) {
	start := time.Now()
	i, err := New(context.Background(), Options{Store: &table{Store: memory.New()}, Clock: func() time.Duration { return time.Since(start) },
		Owners: func(tokenstore.Key) []Owner { return nil }, DefaultTTL: 30 * time.Second, MaxTTL: time.Hour})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(i.Close)
	ids = map[tokenstore.Key]string{}
	for n := range manyLeases {
		key := tokenstore.Key(fmt.Sprintf("account:%012d", n))
		h, err := i.Acquire(context.Background(), Request{Key: key, Holder: fmt.Sprintf("worker-%d.jobs.internal:%d", n, n)})
		if err != nil {
			tb.Fatal(err)
		}
		ids[key] = h.ID
	}
	return i, ids
}

// What 10,000 held leases take, the store's copy of them included.
func TestSize(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector has a size of its own")
	}
	used := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := used()
	i, ids := newMany(t)
	grown := used() - before
	t.Logf("%d leases take %.1f MB; %d goroutines", i.Counts().Held, float64(grown)/1e6, runtime.NumGoroutine())
	if grown > 50e6 {
		t.Errorf("%d bytes", grown)
	}
	runtime.KeepAlive(ids)
}

// What it costs to renew a lease over real HTTP, client and server together.
// With 10,000 leases that are renewed each 10 s there are 1,000 of them in a
// second: core% is what these take of one core.
func BenchmarkRenewHTTP(b *testing.B) {
	i, ids := newMany(b)
	srv := httptest.NewServer(NewHandler(HandlerOptions{Issuer: i, Loopback: true}))
	defer srv.Close()
	type lease struct {
		key tokenstore.Key
		id  string
	}
	all := make(chan lease, manyLeases)
	for key, id := range ids {
		all <- lease{key, id}
	}
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	before := cpu(b)
	b.ResetTimer()
	var group sync.WaitGroup
	work := make(chan struct{})
	for range 16 {
		group.Go(func() {
			for range work {
				l := <-all
				body := fmt.Sprintf(`{"id": %q}`, l.id)
				req, _ := http.NewRequest(http.MethodPut, srv.URL+"/v1/leases/"+string(l.key), strings.NewReader(body))
				req.Header.Set("Content-Type", "application/json")
				resp, err := web.Do(req)
				if err != nil {
					b.Error(err)
					return
				}
				var told struct{ Detail string }
				if err := json.NewDecoder(resp.Body).Decode(&told); err != nil || resp.StatusCode != http.StatusOK {
					b.Errorf("%s %s %v", resp.Status, told.Detail, err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				all <- l
			}
		})
	}
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	group.Wait()
	b.StopTimer()
	took := cpu(b) - before
	b.ReportMetric(float64(took.Microseconds())/float64(b.N), "cpu-µs/renewal")
	b.ReportMetric(took.Seconds()/float64(b.N)*1000*100, "core%")
}

// cpu is what this process has used.
func cpu(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The issuer alone.
func BenchmarkRenew(b *testing.B) {
	i, ids := newMany(b)
	b.ResetTimer()
	for n := 0; n < b.N; {
		for key, id := range ids {
			if _, err := i.Renew(context.Background(), key, id, 0); err != nil {
				b.Fatal(err)
			}
			if n++; n == b.N {
				break
			}
		}
	}
}

// From the release to the next holder's lease, over HTTP: one in a hundred takes
// longer than p99.
func BenchmarkHandOverHTTP(b *testing.B) {
	i, _ := newMany(b)
	srv := httptest.NewServer(NewHandler(HandlerOptions{Issuer: i, Loopback: true}))
	defer srv.Close()
	call := func(method, body string) (id string) {
		req, _ := http.NewRequest(method, srv.URL+"/v1/leases/handed", strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		resp, err := srv.Client().Do(req)
		if err != nil {
			b.Error(err)
			return ""
		}
		defer resp.Body.Close()
		var told struct{ ID, Detail string }
		if err := json.NewDecoder(resp.Body).Decode(&told); err != nil && resp.StatusCode != http.StatusNoContent || resp.StatusCode > 299 {
			b.Errorf("%s %s %v", resp.Status, told.Detail, err)
		}
		return told.ID
	}
	id := call(http.MethodPost, `{"fence": false}`)
	var took []time.Duration
	for b.Loop() {
		next := make(chan string)
		go func() { next <- call(http.MethodPost, `{"fence": false, "wait": "1m"}`) }()
		for i.Counts().Waiting == 0 {
			time.Sleep(100 * time.Microsecond)
		}
		start := time.Now()
		call(http.MethodDelete, fmt.Sprintf(`{"id": %q}`, id))
		id = <-next
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[(len(took)*99+99)/100-1].Microseconds()), "p99-µs")
}
