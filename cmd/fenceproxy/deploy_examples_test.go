package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fenceproxy/fenceproxy/tokenstore/etcd/etcdtest"
	"github.com/fenceproxy/fenceproxy/tokenstore/redis/redistest"
)

// exampleWorker is a client of deploy/examples: it takes a lock, says "token N",
// reads its file (the work), and writes that to the URL.
type exampleWorker struct {
	// command is the client's, with what stands in front of URL and FILE.
	command []string
	env     []string
	// lose takes the lock away from the worker that has it, without its
	// knowing. Empty where pausing it is enough.
	lose func()
}

// startedWorker is one that holds the lock, and waits for its work.
type startedWorker struct {
	*testing.T
	cmd   *exec.Cmd
	token uint64
	work  string // a pipe
	said  *workerSays
	ended chan error
}

// workerSays gathers standard error, and passes the token on.
type workerSays struct {
	mu    sync.Mutex
	text  bytes.Buffer
	token chan uint64
}

func (s *workerSays) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(b)
	if s.token != nil {
		for line := range strings.Lines(s.text.String()) {
			if n, ok := strings.CutPrefix(line, "token "); ok && strings.HasSuffix(line, "\n") {
				token, _ := strconv.ParseUint(strings.TrimSpace(n), 10, 64)
				s.token <- token
				s.token = nil
				break
			}
		}
	}
	return len(b), nil
}

func (s *workerSays) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// start returns when the worker holds the lock.
func (w *exampleWorker) start(t *testing.T, url string) *startedWorker {
	t.Helper()
	s := &startedWorker{T: t, work: filepath.Join(t.TempDir(), "work"), said: &workerSays{token: make(chan uint64, 1)}, ended: make(chan error, 1)}
	if err := syscall.Mkfifo(s.work, 0o600); err != nil {
		t.Fatal(err)
	}
	args := append(append([]string{}, w.command[1:]...), url, s.work)
	s.cmd = exec.Command(w.command[0], args...)
	s.cmd.Env = append(os.Environ(), w.env...)
	s.cmd.Stdout, s.cmd.Stderr = s.said, s.said
	// etcdctl and sh have children: they all end with the test.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.cmd.WaitDelay = 10 * time.Second
	token := s.said.token
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { s.ended <- s.cmd.Wait(); close(done) }()
	t.Cleanup(func() { _ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL); <-done })
	select {
	case s.token = <-token:
	case err := <-s.ended:
		t.Fatalf("%v ended (%v) before it had the lock:\n%s", s.cmd.Args, err, s.said)
	case <-time.After(2 * scriptPatience):
		t.Fatalf("%v does not get the lock:\n%s", s.cmd.Args, s.said)
	}
	return s
}

// finish gives the worker its work, and waits for its end.
func (s *startedWorker) finish(text string) error {
	s.Helper()
	go func() { // opens when the worker does
		if f, err := os.OpenFile(s.work, os.O_WRONLY, 0); err == nil {
			_, _ = f.WriteString(text)
			_ = f.Close()
		}
	}()
	select {
	case err := <-s.ended:
		return err
	case <-time.After(2 * scriptPatience):
		s.Fatalf("%v does not end:\n%s", s.cmd.Args, s.said)
		return nil
	}
}

// story is the one of the README: A holds the lock and loses it, B takes it and
// writes, A writes. A's write must be refused as stale, and say so.
func (w *exampleWorker) story(t *testing.T) {
	t.Helper()
	var mu sync.Mutex
	kept := "draft"
	api := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPut {
			rw.WriteHeader(http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		kept = string(b)
		rw.WriteHeader(http.StatusNoContent)
	}))
	defer api.Close()
	holds := func(want string) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if kept != want {
			t.Errorf("the API holds %q, want %q", kept, want)
		}
	}
	proxy, _ := startFence(t, api.URL)
	url := "http://" + proxy + "/accounts/42"

	a := w.start(t, url)
	if w.lose == nil {
		_ = syscall.Kill(-a.cmd.Process.Pid, syscall.SIGSTOP)
	} else {
		w.lose()
	}
	b := w.start(t, url)
	if b.token <= a.token {
		t.Fatalf("A has the token %d, and B behind it %d", a.token, b.token)
	}
	if err := b.finish("B's balance"); err != nil {
		t.Fatalf("B: %v\n%s", err, b.said)
	}
	holds("B's balance")
	if w.lose == nil {
		_ = syscall.Kill(-a.cmd.Process.Pid, syscall.SIGCONT)
	}
	if err := a.finish("A's balance"); err == nil || !strings.Contains(a.said.String(), "lost the lease: ") || !strings.Contains(a.said.String(), `"highest":"`+fmt.Sprint(b.token)+`"`) {
		t.Errorf("A, which is stale, ends with %v, and says\n%s", err, a.said)
	}
	holds("B's balance")
	c := w.start(t, url) // B gave the lock back
	if c.token <= b.token {
		t.Errorf("B had the token %d, and C behind it has %d", b.token, c.token)
	}
	if err := c.finish("C's balance"); err != nil {
		t.Errorf("C: %v\n%s", err, c.said)
	}
	holds("C's balance")
}

// example is the path of a client.
func example(t *testing.T, parts ...string) string {
	return deployDir(t, append([]string{"examples"}, parts...)...)
}

// buildExample builds a client in Go.
func buildExample(t *testing.T, name string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), name)
	cmd := exec.Command("go", "build", "-o", binary, "./deploy/examples/"+name)
	cmd.Dir = moduleRoot(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

func TestExampleEtcd(t *testing.T) {
	etcd, err := etcdtest.New()
	if err != nil {
		t.Fatal(err)
	}
	etcd.CloseAfter(t)
	client, err := etcd.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	// lose revokes the lease of the first in the queue, as its running out does.
	lose := func(prefix string) func() {
		return func() {
			t.Helper()
			resp, err := client.Get(t.Context(), prefix+"/", clientv3.WithFirstCreate()...)
			if err != nil || len(resp.Kvs) != 1 {
				t.Fatalf("the lock's key: %v %v", resp, err)
			}
			if _, err := client.Revoke(t.Context(), clientv3.LeaseID(resp.Kvs[0].Lease)); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Run("etcdctl", func(t *testing.T) {
		davProgram(t, "etcdctl", "etcd-client")
		davProgram(t, "curl", "curl")
		w := exampleWorker{command: []string{example(t, "etcdctl", "write.sh"), "shell"},
			env: []string{"ETCDCTL_API=3", "ETCDCTL_ENDPOINTS=" + etcd.Endpoint}, lose: lose("shell")}
		w.story(t)
	})
	t.Run("concurrency", func(t *testing.T) {
		w := exampleWorker{command: []string{buildExample(t, "etcd"), etcd.Endpoint, "go"}, lose: lose("/locks/go")}
		w.story(t)
	})
}

// TestExampleEtcdTraps: a second Mutex of one session is locked too, with the same
// create revision, and a header that is higher.
func TestExampleEtcdTraps(t *testing.T) {
	etcd, err := etcdtest.New()
	if err != nil {
		t.Fatal(err)
	}
	etcd.CloseAfter(t)
	client, err := etcd.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	session, err := concurrency.NewSession(client)
	if err != nil {
		t.Fatal(err)
	}
	var created, header [2]int64
	for i := range 2 {
		m := concurrency.NewMutex(session, "/locks/a")
		if err := m.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		resp, err := client.Get(t.Context(), m.Key())
		if err != nil {
			t.Fatal(err)
		}
		created[i], header[i] = resp.Kvs[0].CreateRevision, m.Header().Revision
		if _, err := client.Put(t.Context(), "another", ""); err != nil {
			t.Fatal(err)
		}
	}
	if created[0] != created[1] || header[0] >= header[1] {
		t.Errorf("create revisions %v, headers %v: etcd/main.go says otherwise", created, header)
	}
}

func TestExampleRedis(t *testing.T) {
	node := davProgram(t, "node", "nodejs")
	cli := davProgram(t, "redis-cli", "redis-tools")
	server, err := redistest.New()
	if err != nil {
		t.Fatal(err)
	}
	server.CloseAfter(t)
	addr := server.Address()
	env := []string{"NODE_PATH=/usr/share/nodejs"}
	probe := exec.Command(node, "-e", "require('redis')")
	probe.Env = append(os.Environ(), env...)
	if out, err := probe.CombinedOutput(); err != nil {
		t.Fatalf("node has no redis: run make deps, or on Debian apt-get install node-redis\n%s", out)
	}
	w := exampleWorker{command: []string{node, example(t, "redis", "worker.js"), "redis://" + addr, "node"}, env: env, lose: func() {
		if out, err := exec.Command(cli, "-p", portOf(addr), "DEL", "{lock:node}").CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "1" {
			t.Fatalf("the lock was not there: %v %s", err, out)
		}
	}}
	w.story(t)
}
