package etcd_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/etcd"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// The test binary runs itself as a proxy of its own, so that it can be paused,
// with the store and the upstream that these variables name, until its input
// ends.
const (
	childEndpoint = "FENCEPROXY_ETCD_TEST_ENDPOINT"
	childPrefix   = "FENCEPROXY_ETCD_TEST_PREFIX"
	childUpstream = "FENCEPROXY_ETCD_TEST_UPSTREAM"
)

// What is promised of the child: what it lost sight of is applied within
// settle, and no step of it that is due takes longer than patience (P in R9).
const (
	settle   = 500 * time.Millisecond
	patience = 2 * time.Second
)

var childSession = session.Options{TTL: 4 * time.Second, Margin: 2 * time.Second, Linger: settle + 2*patience - 2*time.Second, OpTimeout: 5 * time.Second, SweepEvery: 200 * time.Millisecond}

// worker is the child: writes with tokens that grow with the time of day.
type worker struct {
	store *session.Store

	mu    sync.Mutex // guards what follows, and the writing to up
	up    net.Conn
	next  int
	waits map[int]chan struct{} // closed when the write is answered
	tally map[string]int
}

func runChild() int {
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1
	}
	return 0
}

func work() error {
	ctx := context.Background()
	b, err := etcd.Open(ctx, etcd.Options{Endpoints: []string{os.Getenv(childEndpoint)}, Prefix: os.Getenv(childPrefix)})
	if err != nil {
		return err
	}
	w := &worker{waits: map[int]chan struct{}{}, tally: map[string]int{}}
	if w.store, err = session.Open(ctx, b, childSession); err != nil {
		return err
	}
	if w.up, err = net.Dial("tcp", os.Getenv(childUpstream)); err != nil {
		return err
	}
	defer w.up.Close()
	go w.answers()
	go func() {
		for range w.store.Raised() {
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for ctx.Err() == nil {
				w.count(w.write(ctx))
				time.Sleep(rand.N(20 * time.Millisecond))
			}
		})
	}
	wg.Wait()
	for what, n := range w.tally {
		fmt.Println(what, n)
	}
	return w.store.Close(true)
}

func (w *worker) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tally[what]++
}

// answers reads what the upstream has applied.
func (w *worker) answers() {
	for sc := bufio.NewScanner(w.up); sc.Scan(); {
		var n int
		_, _ = fmt.Sscan(sc.Text(), &n)
		w.mu.Lock()
		close(w.waits[n])
		delete(w.waits, n)
		w.mu.Unlock()
	}
}

// write is the life of one write, and says how it ended.
func (w *worker) write(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	key := rand.IntN(3)
	token := uint64(time.Now().UnixMilli())/[]uint64{100, 400, 1500}[key] - rand.Uint64N(2)
	m := mark(tokenstore.Key(fmt.Sprint("k", key)), token)
	g, err := w.store.Acquire(ctx, []tokenstore.Mark{m})
	if err != nil {
		return refusal(err)
	}
	defer g.Release()
	if err := g.Drained(ctx); err != nil {
		return refusal(err)
	}
	if !g.MaySend() {
		return "not-sent"
	}
	answered, err := w.send(m)
	if err != nil {
		time.Sleep(settle)
		return "broken"
	}
	select {
	case <-answered:
		return "answered"
	case <-g.Lost():
		time.Sleep(settle)
		return "cut"
	}
}

func refusal(err error) string {
	var stale *tokenstore.StaleError
	if errors.As(err, &stale) {
		return "stale"
	}
	return "refused"
}

// send hands a write to the upstream.
func (w *worker) send(m tokenstore.Mark) (answered chan struct{}, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next++
	answered = make(chan struct{})
	w.waits[w.next] = answered
	_, err = fmt.Fprintln(w.up, w.next, m.Key, m.Token.Major)
	return answered, err
}
