package etcd_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore/etcd"
)

// upstream applies writes after a while, and is the judge: per key, the tokens
// that it applies never decrease.
type upstream struct {
	t  *testing.T
	ln net.Listener

	mu      sync.Mutex // guards what follows
	last    map[string]uint64
	from    map[string]int // which proxy has sent it
	applied [2]int
	handed  int // from one proxy to the other
}

// serve takes one connection, which is that of either proxy.
func (u *upstream) serve(proxy int) {
	conn, err := u.ln.Accept()
	if err != nil {
		return
	}
	defer conn.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	for sc := bufio.NewScanner(conn); sc.Scan(); {
		line := sc.Text()
		takes := rand.N(30 * time.Millisecond)
		if rand.IntN(20) == 0 {
			takes = rand.N(settle - 100*time.Millisecond)
		}
		wg.Go(func() {
			time.Sleep(takes)
			var n, token uint64
			var key string
			_, _ = fmt.Sscan(line, &n, &key, &token)
			u.apply(proxy, key, token)
			_, _ = fmt.Fprintln(conn, n)
		})
	}
}

// both reports whether each proxy has come to write.
func (u *upstream) both() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.applied[0] > 0 && u.applied[1] > 0
}

func (u *upstream) apply(proxy int, key string, token uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if token < u.last[key] {
		u.t.Errorf("%s: token %d of connection %d is applied after %d of connection %d", key, token, proxy, u.last[key], u.from[key])
	}
	if u.from[key] != proxy {
		u.handed++
	}
	u.last[key], u.from[key] = token, proxy
	u.applied[proxy]++
}

// proxy is a child that runs.
type proxy struct {
	cmd   *exec.Cmd
	stop  io.Closer
	tally strings.Builder
}

func startProxy(t *testing.T, o etcd.Options, upstream string) *proxy {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{cmd: exec.Command(exe)}
	p.cmd.Env = append(os.Environ(), childEndpoint+"="+o.Endpoints[0], childPrefix+"="+o.Prefix, childUpstream+"="+upstream)
	p.cmd.Stdout, p.cmd.Stderr = &p.tally, os.Stderr
	if p.stop, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

func (p *proxy) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// TestRandom: two proxies, each a process of its own, one of which is paused
// now and then, for no longer than is allowed, and the other cut off from the
// store.
func TestRandom(t *testing.T) {
	s := server(t)
	o := place(t, s)
	r, far := relayed(t, s, o)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{t: t, ln: ln, last: map[string]uint64{}, from: map[string]int{}}
	var wg sync.WaitGroup
	var proxies []*proxy
	for i, o := range []etcd.Options{o, far} {
		proxies = append(proxies, startProxy(t, o, ln.Addr().String()))
		wg.Go(func() { u.serve(i) })
	}
	defer wg.Wait()
	defer ln.Close()
	wg.Go(func() {
		for range 3 {
			time.Sleep(1300 * time.Millisecond)
			proxies[0].signal(syscall.SIGSTOP)
			time.Sleep(700 * time.Millisecond)
			proxies[0].signal(syscall.SIGCONT)
		}
	})
	for end := time.Now().Add(20 * time.Second); !u.both(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a proxy does not write")
		}
	}
	time.Sleep(time.Second)
	r.Hold(true, true)
	time.Sleep(3500 * time.Millisecond)
	r.Hold(false, false)
	time.Sleep(2 * time.Second)
	for i, p := range proxies {
		_ = p.stop.Close()
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("proxy %d: %v", i, err)
		}
		t.Logf("proxy %d: %s", i, strings.Join(strings.Fields(p.tally.String()), " "))
		for _, what := range []string{"answered", "stale", "refused"} {
			if i == 0 && what == "refused" {
				continue // it was paused for too short a time
			}
			if !strings.Contains(p.tally.String(), what) {
				t.Errorf("proxy %d: nothing was %s: this has shown nothing", i, what)
			}
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	t.Logf("applied %v, handed over %d times", u.applied, u.handed)
	if u.handed < 10 {
		t.Errorf("the keys changed hands %d times: this has shown nothing", u.handed)
	}
}
