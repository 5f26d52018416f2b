package postgres

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// TestRandom: three proxies over one PostgreSQL, one of them a process of its
// own that is paused again and again, another one cut off, and the database
// crashes in the middle. The tokens that the upstream applies never decrease.
func TestRandom(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	o := place(t, s)
	r := newRelay(t, s)
	up := newUpstream(t)
	ctx, stop := context.WithTimeout(t.Context(), 14*time.Second)
	defer stop()

	var waited atomic.Int64
	var drivers []*driver
	var wg sync.WaitGroup
	for _, way := range []Options{o, o.through(r.address())} {
		store, err := session.Open(t.Context(), open(t, way), randomOptions(&waited))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close(false) }()
		d := &driver{store: store, upstream: up.listener.Addr().String()}
		drivers = append(drivers, d)
		wg.Go(func() { d.drive(ctx) })
	}
	paused, printed := startPaused(t, ctx, &wg, o, up)
	wg.Go(func() {
		for !isClosed(up.slow) && ctx.Err() == nil { // it may not be let in at once
			drivers[1].writeOn(mark(slowKey, 1))
		}
	})
	wg.Go(func() { // cut off for longer than a session lives, and then for less
		select {
		case <-up.slow:
		case <-ctx.Done():
		}
		sleep(ctx, 2*time.Second)
		r.setCut(true)
		sleep(ctx, 4*time.Second)
		r.setCut(false)
		sleep(ctx, 3*time.Second)
		r.setCut(true)
		sleep(ctx, time.Second)
		r.setCut(false)
	})
	sleep(ctx, 10*time.Second)
	s.Kill()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	r.setCut(false)

	// Nothing is left for which a new holder would wait for long.
	last := proxy(t, open(t, o), randomOptions(nil))
	for _, key := range []tokenstore.Key{"k0", "k1", "k2", slowKey} {
		admit(t, last, 30*time.Second, mark(key, 1<<50)).Release()
	}
	up.close()
	for _, bad := range up.bad {
		t.Error(bad)
	}
	t.Logf("applied %d, waited for others %d, paused %d times; the paused one: %s", up.applied, waited.Load(), paused.Load(), bytes.TrimSpace(printed.Bytes()))
	var sent, stale int64
	for i, d := range drivers {
		t.Logf("proxy %d: sent %d, stale %d, refused %d, cut %d", i, d.sent.Load(), d.stale.Load(), d.refused.Load(), d.cut.Load())
		sent, stale = sent+d.sent.Load(), stale+d.stale.Load()
	}
	if sent == 0 || stale == 0 || drivers[1].cut.Load() == 0 || drivers[1].refused.Load() == 0 || waited.Load() == 0 || paused.Load() == 0 || !bytes.Contains(printed.Bytes(), []byte("sent ")) {
		t.Error("nothing was sent, stale, cut, waited for, or paused: this has shown nothing")
	}
}

// startPaused runs a proxy as a process, and pauses it for as long as it may be.
func startPaused(t *testing.T, ctx context.Context, wg *sync.WaitGroup, o Options, up *upstream) (paused *atomic.Int64, printed *bytes.Buffer) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childRole+"=proxy", childURL+"="+o.URL, childPrefix+"="+o.TablePrefix, childUpstream+"="+up.listener.Addr().String())
	printed, paused = &bytes.Buffer{}, &atomic.Int64{}
	cmd.Stdout, cmd.Stderr = printed, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	wg.Go(func() {
		for sleep(ctx, 2*rPause+upTo(time.Second)) {
			_ = cmd.Process.Signal(syscall.SIGSTOP)
			time.Sleep(rPause)
			_ = cmd.Process.Signal(syscall.SIGCONT)
			paused.Add(1)
		}
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the child: %v", err)
		}
	})
	return paused, printed
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
