package suites

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
)

// TestVarnishtest runs the scripts in testdata/vtc, each with a proxy of its
// own between varnishtest's server and its clients. They are written in
// varnishtest's language (man vtc), and know where things are from three
// macros: ${upstream}, where a server listens for the proxy, ${proxy}, where
// clients connect to, and ${admin}, the proxy's admin listener.
func TestVarnishtest(t *testing.T) {
	varnishtest := program(t, "varnishtest", "varnish")
	scripts, err := filepath.Glob("testdata/vtc/*.vtc")
	if err != nil || len(scripts) < 20 {
		t.Fatalf("found %d scripts (%v): this has shown nothing", len(scripts), err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".vtc"), func(t *testing.T) {
			t.Parallel() // they wait more than they work
			l := reserve(t)
			upstream := l.Addr().String()
			p := newProxy(t, upstream)
			_ = l.Close()
			cmd := exec.Command(varnishtest, "-t", "30",
				"-D", "upstream="+upstream, "-D", "proxy="+p.Addr, "-D", "admin="+host(p.Admin), script)
			cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir()) // where it works
			out, err := cmd.CombinedOutput()
			// It skips what needs a feature that is not there, and exits with 77.
			if err != nil || !strings.Contains(string(out), " passed ") {
				t.Errorf("%s: %v\n%s", script, err, out)
			}
		})
	}
}

// reserve keeps an address until a script's server listens there, so that the
// proxy does not take it.
func reserve(t *testing.T) net.Listener {
	t.Helper()
	for range 10 {
		addr, err := torture.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		// A process that is just being started holds, for a moment, a copy of
		// the socket that was closed meanwhile.
		if l, err := net.Listen("tcp", addr); err == nil {
			return l
		}
	}
	t.Fatal("no address stays free")
	return nil
}
