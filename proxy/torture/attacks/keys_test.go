package attacks

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/embedded"
)

// Clients choose keys. A million of them, as long as keys may be, against a
// limit of ten thousand: the gate and its store keep ten thousand and the
// memory of so many, the disk likewise, and the first keys go on.
func TestMillionKeys(t *testing.T) {
	const limit, longest = 10_000, 1024
	dir := t.TempDir()
	store, err := embedded.Open(embedded.Options{Path: dir, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close(true) }()
	g, err := gate.New(store, gate.Options{Settle: time.Second, MaxKeys: limit, MaxWaiting: 4096, MaxWaitingPerKey: 64})
	if err != nil {
		t.Fatal(err)
	}
	enter := func(n int, token uint64) error {
		key := fmt.Sprintf("%d:", n)
		key += strings.Repeat("k", longest-len(key))
		var ticket gate.Ticket
		err := g.Enter(context.Background(), gate.Request{
			Claims:       []gate.Claim{{Key: tokenstore.Key(key), Token: tokenstore.Token{Major: token}}},
			DrainTimeout: patience, Settle: time.Second,
		}, &ticket)
		if err == nil {
			ticket.Settle()
		}
		return err
	}
	var wg sync.WaitGroup
	for part := range 100 {
		wg.Go(func() {
			for n := part; n < limit; n += 100 {
				if err := enter(n, 1); err != nil && !errors.Is(err, gate.ErrTooManyKeys) {
					t.Errorf("key %d, within the limit: %v", n, err)
				}
			}
		})
	}
	wg.Wait()
	for n := range limit { // of those that came together some were refused the last places
		if err := enter(n, 1); err != nil {
			t.Errorf("key %d, within the limit: %v", n, err)
		}
	}
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) { // a fold needs the room of what it folds
		if logs, _ := filepath.Glob(filepath.Join(dir, "raises.*")); len(logs) == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the raises are not folded into the store")
		}
	}
	memory, disk := heap(), size(t, dir)
	for part := range 4 {
		wg.Go(func() {
			for n := limit + part; n < floodKeys; n += 4 {
				if err := enter(n, 1); !errors.Is(err, gate.ErrTooManyKeys) {
					t.Errorf("key %d, above the limit: %v", n, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := store.Keys(); n != limit {
		t.Errorf("the store has %d keys, want %d", n, limit)
	}
	// 65,536 marks of idle keys are kept in memory, of those too that have no
	// record: with keys of this size 70 MB or so.
	if grown := heap() - memory; grown > 200*megabyte {
		t.Errorf("memory grew by %.0f MB", grown/megabyte)
	} else {
		t.Logf("memory grew by %.0f MB", grown/megabyte)
	}
	if grown := size(t, dir) - disk; grown > megabyte {
		t.Errorf("the store grew by %.1f MB on the disk, though it took no key", grown/megabyte)
	}
	if c := g.Counts(); c.InFlight+c.Unsettled+c.Waiting != 0 {
		t.Errorf("%+v stay behind", c)
	}
	if err := enter(7, 2); err != nil {
		t.Errorf("a key that is there does not go on: %v", err)
	}
}

// heap is what is in use once everything else is collected.
func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapInuse)
}

// size is what the files of a directory take.
func size(t *testing.T, dir string) (n float64) {
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil // a log that was folded meanwhile
		}
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := d.Info(); err == nil {
			n += float64(info.Size())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// crowded are rules by which a request names up to sixteen keys, each as it
// likes.
func crowded() string {
	var b strings.Builder
	b.WriteString("\nrules:\n  - {name: things, path: \"/things/{id}\", key: \"thing:{id}\"}\n  - name: many\n    path: /many\n    keys:\n")
	for i := range 16 {
		fmt.Fprintf(&b, "      - {key: \"many:{header.X-Key-%d}\", header: X-Token-%d}\n", i, i)
	}
	b.WriteString("limits: {max_keys: 200, max_waiting_per_key: 64, max_waiting: 256}\n")
	return b.String()
}

// The same over the wire: keys of every length, one or sixteen in a request,
// pipelined as fast as they are taken. Those of the witness were there before.
func TestFloodOfKeys(t *testing.T) {
	a := newAPI(t)
	p := newProxy(t, "http://"+a.addr, crowded())
	w := watch(t, p, a, false)
	p.eventually("the witness has its keys", func() bool { return p.metrics("fenceproxy_keys_stored")[0] == 2 })
	before := size(t, p.dir)
	const each, conns = 1000, 8 // requests on a connection
	long := strings.Repeat("k", 900)
	statuses := map[int]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for conn := range conns {
		wg.Go(func() {
			got := p.pipeline(t, each, func(n int) string {
				name := fmt.Sprintf("%d-%d", conn, n)
				switch n % 4 {
				case 0:
					return "PUT /things/" + name + " HTTP/1.1\r\nHost: a\r\nX-Fencing-Token: 1\r\nContent-Length: 0\r\n\r\n"
				case 1:
					return "PUT /things/" + name + long + " HTTP/1.1\r\nHost: a\r\nX-Fencing-Token: 1\r\nContent-Length: 0\r\n\r\n"
				case 2:
					return "PUT /things/" + name + long + long + " HTTP/1.1\r\nHost: a\r\nX-Fencing-Token: 1\r\nContent-Length: 0\r\n\r\n"
				}
				var b strings.Builder
				b.WriteString("PUT /many HTTP/1.1\r\nHost: a\r\n")
				for i := range 16 {
					fmt.Fprintf(&b, "X-Key-%d: %s-%d%s\r\nX-Token-%d: 1\r\n", i, name, i, long, i)
				}
				return b.String() + "Content-Length: 0\r\n\r\n"
			})
			mu.Lock()
			defer mu.Unlock()
			for status, n := range got {
				statuses[status] += n
			}
		})
	}
	wg.Wait()
	t.Logf("answers: %v", statuses)
	// A key of more than 1,024 bytes is none.
	if statuses[200] == 0 || statuses[200] > 200 || statuses[400] != conns*each/4 || statuses[503] == 0 || statuses[200]+statuses[400]+statuses[503] != conns*each {
		t.Errorf("answers: %v", statuses)
	}
	if keys := p.metrics("fenceproxy_keys_stored")[0]; keys != 200 {
		t.Errorf("the store has %.0f keys, the limit is 200", keys)
	}
	// 65,536 marks of idle keys, of 1,024 bytes each and as much again until they
	// are collected.
	w.end(300 * megabyte)
	if grown := size(t, filepath.Join(p.dir, "store")) - before; grown > 10*megabyte {
		t.Errorf("the store grew by %.0f MB", grown/megabyte)
	}
}

// pipeline sends n requests on one connection without waiting for answers, and
// counts these by status.
func (p *proxy) pipeline(t *testing.T, n int, request func(i int) string) map[int]int {
	c, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer c.Close()
	go func() {
		for i := range n {
			if _, err := io.WriteString(c, request(i)); err != nil {
				return
			}
		}
	}()
	statuses := map[int]int{}
	br := bufio.NewReader(c)
	for i := range n {
		_ = c.SetReadDeadline(time.Now().Add(patience))
		res, err := http.ReadResponse(br, &http.Request{Method: http.MethodPut})
		if err != nil {
			t.Errorf("answer %d of %d: %v", i, n, err)
			return statuses
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Errorf("answer %d of %d: %v", i, n, err)
			return statuses
		}
		statuses[res.StatusCode]++
	}
	return statuses
}

// Very many writes for one key that is held up: some wait, as the limit says,
// the rest are told so at once, and nobody else notices.
func TestFloodOfWaiters(t *testing.T) {
	a := newAPI(t)
	a.stuck = make(chan struct{})
	p := newProxy(t, "http://"+a.addr, crowded()+"upstream: {url: UPSTREAM, settle: 300ms, response_timeout: 60s}\n")
	w := watch(t, p, a, false)
	held := make(chan struct{})
	go func() { // in flight for as long as the API holds it
		defer close(held)
		w.put("stuck", 1)
	}()
	p.eventually("a write is in flight on the key", func() bool { return strings.Contains(p.admin("/v1/keys?prefix=thing:stuck"), "thing:stuck") })
	const all, wait = 500, 64
	var mu sync.Mutex
	statuses, answered := map[int]int{}, 0
	var wg sync.WaitGroup
	for range all {
		wg.Go(func() {
			got := p.pipeline(t, 1, func(int) string {
				return "PUT /things/stuck HTTP/1.1\r\nHost: a\r\nX-Fencing-Token: 2\r\nContent-Length: 0\r\n\r\n"
			})
			mu.Lock()
			defer mu.Unlock()
			for status, n := range got {
				statuses[status] += n
			}
			answered++
		})
	}
	p.eventually("those who do not wait are told so, and the witness is served", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return answered == all-wait && a.served("/things/witness") >= 10
	})
	close(a.stuck)
	wg.Wait()
	<-held
	t.Logf("answers: %v", statuses)
	if statuses[503] == 0 || statuses[200] == 0 || statuses[503]+statuses[200] != all {
		t.Errorf("answers: %v; some should have waited, and some should have been refused", statuses)
	}
	w.end(100 * megabyte)
}
