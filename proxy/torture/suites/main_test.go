package suites

import (
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
)

func TestMain(m *testing.M) { torture.Main(m) }

// newProxy starts the proxy in front of an upstream, which need not listen yet.
// Writes that are lost from sight stay unsettled for as long as the test runs,
// and others wait for them for a moment only: as long as a raise may take on a
// disk that is busy, which drain_timeout bounds too.
func newProxy(t *testing.T, upstream string) *torture.Proxy {
	t.Helper()
	binary, err := torture.Binary()
	if err != nil {
		t.Fatal(err)
	}
	p, err := torture.NewProxy(torture.NewHistory(), binary, t.TempDir(), torture.Settings{
		Upstream: "http://" + upstream, Settle: 10 * time.Minute, Drain: 5 * time.Second, Response: 20 * time.Second,
	})
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.KillAfter(t, "the proxy")
	return p
}

// host is the host:port of a URL.
func host(url string) string { return strings.TrimPrefix(url, "http://") }
