package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// What the random test's proxies and their upstream do.
const (
	rSettle = 1500 * time.Millisecond
	rPause  = 400 * time.Millisecond // (linger + margin − settle) / 2 is 1.5s: the rest is for a busy machine
	rKeys   = 3
	slowKey = "slow" // a write on it is not over before sight of it is lost
)

func randomOptions(waited *atomic.Int64) session.Options {
	return session.Options{TTL: 6 * time.Second, Margin: 3 * time.Second, Linger: rSettle, OpTimeout: 5 * time.Second,
		SweepEvery: 200 * time.Millisecond, ReconcileEvery: time.Second,
		Observe: session.Observer{RemoteWait: func(time.Duration) {
			if waited != nil {
				waited.Add(1)
			}
		}}}
}

func upTo(d time.Duration) time.Duration { return rand.N(d) }

// driver lets random writes through one proxy's store.
type driver struct {
	store    *session.Store
	upstream string

	sent, stale, refused, cut atomic.Int64
}

func (d *driver) drive(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() {
		for range d.store.Raised() {
		}
	})
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(upTo(20 * time.Millisecond))
				d.write()
			}
		})
	}
	writers.Wait()
}

// write is the life of one write. Tokens follow the clock of the machine, which
// all proxies share here: some are a little older than others.
func (d *driver) write() {
	first := rand.IntN(rKeys)
	var marks []tokenstore.Mark
	for i := range 1 + rand.IntN(4)/3 {
		n := uint64(time.Now().UnixMilli()/200) - uint64(rand.IntN(2))
		marks = append(marks, mark(tokenstore.Key(fmt.Sprint("k", (first+i)%rKeys)), n))
	}
	d.writeOn(marks...)
}

func (d *driver) writeOn(marks ...tokenstore.Mark) {
	g, err := try(d.store, time.Second+upTo(3*time.Second), marks...)
	var stale *tokenstore.StaleError
	switch {
	case errors.As(err, &stale):
		d.stale.Add(1)
		return
	case err != nil:
		d.refused.Add(1)
		return
	}
	defer g.Release()
	if !g.MaySend() {
		return
	}
	d.send(g, marks)
}

// send follows a write to its end, or cuts it and waits until it is settled.
func (d *driver) send(g tokenstore.Grant, marks []tokenstore.Mark) {
	conn, err := net.Dial("tcp", d.upstream)
	if err != nil {
		return // nothing was sent
	}
	defer func() { _ = conn.Close() }()
	d.sent.Add(1)
	var line strings.Builder
	for _, m := range marks {
		fmt.Fprintf(&line, "%s %d ", m.Key, m.Token.Major)
	}
	fmt.Fprintln(&line)
	answered := make(chan bool, 1)
	go func() {
		_, err := conn.Write([]byte(line.String()))
		if err == nil {
			_, err = bufio.NewReader(conn).ReadString('\n')
		}
		answered <- err == nil
	}()
	timeout := time.NewTimer(6 * time.Second) // response_timeout
	defer timeout.Stop()
	select {
	case ok := <-answered:
		if ok {
			return
		}
	case <-g.Lost():
		d.cut.Add(1)
	case <-timeout.C:
	}
	_ = conn.Close()
	time.Sleep(rSettle)
}

// upstream applies writes, after a while. Once sight of one is lost it does so
// within settle, or never.
type upstream struct {
	t        testing.TB
	listener net.Listener
	wg       sync.WaitGroup
	slow     chan struct{} // closed when a write on slowKey is there
	sawSlow  sync.Once

	mu      sync.Mutex // guards what follows
	last    map[string]uint64
	applied int
	bad     []string
}

func newUpstream(t testing.TB) *upstream {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{t: t, listener: l, slow: make(chan struct{}), last: map[string]uint64{}}
	u.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			u.wg.Go(func() { u.serve(conn) })
		}
	})
	return u
}

func (u *upstream) close() {
	_ = u.listener.Close()
	u.wg.Wait()
}

func (u *upstream) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	if err != nil {
		return
	}
	takes := upTo(40 * time.Millisecond)
	if rand.IntN(20) == 0 {
		takes = upTo(3 * time.Second)
	}
	if strings.HasPrefix(line, slowKey) {
		takes = time.Hour
		u.sawSlow.Do(func() { close(u.slow) })
	}
	gone := make(chan struct{})
	go func() { _, _ = r.ReadByte(); close(gone) }()
	select {
	case <-time.After(takes):
	case <-gone:
		if rand.IntN(3) == 0 {
			return
		}
		time.Sleep(rSettle/4 + upTo(rSettle/4)) // the rest is for a busy machine
	}
	u.apply(line)
	_, _ = fmt.Fprintln(conn, "done")
}

func (u *upstream) apply(line string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.applied++
	fields := strings.Fields(line)
	for i := 0; i+1 < len(fields); i += 2 {
		var n uint64
		_, _ = fmt.Sscan(fields[i+1], &n)
		if n < u.last[fields[i]] {
			u.bad = append(u.bad, fmt.Sprintf("token %d is applied to %s after %d", n, fields[i], u.last[fields[i]]))
		}
		u.last[fields[i]] = n
	}
}
