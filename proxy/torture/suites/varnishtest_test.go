package suites

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
	"github.com/fenceproxy/fenceproxy/tokenstore/servertest"
)

// TestVarnishtest runs the scripts in testdata/vtc, each with a proxy of its
// own between varnishtest's server and its clients. They are written in
// varnishtest's language (man vtc), and know where things are from three
// macros: ${upstream}, where a server listens for the proxy, ${proxy}, where
// clients connect to, and ${admin}, the proxy's admin listener.
func TestVarnishtest(t *testing.T) {
	varnishtest := servertest.Find(t, "varnishtest", "varnish")
	scripts, err := filepath.Glob("testdata/vtc/*.vtc")
	if err != nil || len(scripts) < 20 {
		t.Fatalf("found %d scripts (%v): this has shown nothing", len(scripts), err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".vtc"), func(t *testing.T) {
			t.Parallel() // they wait more than they work
			upstream, err := torture.FreeAddress()
			if err != nil {
				t.Fatal(err)
			}
			p := newProxy(t, upstream)
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
