package suites

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
)

// built is the proxy's binary, made once, when the first test asks for it.
var built func() (string, error)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "fenceproxy-suites-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		built = sync.OnceValues(func() (string, error) { return torture.Build(dir) })
		return m.Run()
	}())
}

// newProxy starts the proxy in front of an upstream, which need not listen yet.
// Writes that are lost from sight stay unsettled for as long as the test runs,
// and others wait for them for a moment only: as long as a raise may take on a
// disk that is busy, which drain_timeout bounds too.
func newProxy(t *testing.T, upstream string) *torture.Proxy {
	t.Helper()
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	p, err := torture.NewProxy(torture.NewHistory(), binary, t.TempDir(), torture.Settings{
		Upstream: "http://" + upstream, Settle: 10 * time.Minute, Drain: 2 * time.Second, Response: 20 * time.Second,
	})
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if bad := p.Complaints(); bad != "" {
			t.Errorf("the proxy's log has:\n%s", bad)
		}
		if t.Failed() {
			t.Logf("the proxy's log ends with:\n%s", p.Log(4<<10))
		}
	})
	return p
}

// program finds a program, or says which Debian package has it.
func program(t *testing.T, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is not here, and this test needs the real one: run make deps, or on Debian apt-get install %s", name, pkg)
	}
	return path
}

// host is the host:port of a URL.
func host(url string) string { return strings.TrimPrefix(url, "http://") }
