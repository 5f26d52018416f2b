package torture

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// brokenProxy is the real proxy with one thing taken out of its source.
type brokenProxy struct {
	name, file, old, new string
	judges               []string // that have to find it
	http2                bool     // over TestTortureHTTP2
}

var brokenProxies = []brokenProxy{
	{"without the drain", "proxy/gate/state.go",
		"\tcase s.older > 0 || before > 0:\n", "\tcase false:\n",
		[]string{"a newer write waits until every older one is over", "applied tokens never decrease"}, false},
	{"without a disk", "tokenstore/embedded/rotate.go",
		"\tif err := s.log.append(s.hooks.afterSync); err != nil {\n", "\tif err := error(nil); err != nil {\n",
		[]string{"what was told is in the store", "a stale token is refused for ever"}, false},
	{"telling before it is on the disk", "tokenstore/embedded/commit.go",
		"\tanswer(requests, s.apply(requests, cleared))\n", "\tanswer(requests, nil)\n\t_ = s.apply(requests, cleared)\n",
		[]string{"what was told is in the store"}, false},
	{"with a second attempt", "proxy/upstream/send.go",
		"\treturn u.attempt(ctx, r, nc, first, whole)\n}",
		"\ta, err := u.attempt(ctx, r, nc, first, whole)\n\tif err == nil {\n\t\treturn a, nil\n\t}\n\tif nc, err = u.dial(ctx); err != nil {\n\t\treturn nil, u.notSent(r, dialReason(ctx, err), err)\n\t}\n\treturn u.attempt(ctx, r, nc, first, whole)\n}",
		[]string{"no write is sent or applied twice"}, false},
	{"taking every reset for a refusal", "proxy/upstream/h2stream.go",
		"\tcase code == http2.ErrCodeRefusedStream:\n", "\tcase code == http2.ErrCodeRefusedStream || !s.ended:\n",
		[]string{"what was not forwarded never arrived", "a newer write waits until every older one is over"}, true},
}

// TestBrokenProxiesAreCaught: the torture in its short form, over binaries that
// are wrong in one way each, finds it, by the judge of that promise. Each run
// ends when it has.
func TestBrokenProxiesAreCaught(t *testing.T) {
	for _, b := range brokenProxies {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			o := newOrdeal(t, b.build(t), b.http2, 1, 20_000, 12)
			begin := time.Now()
			found, err := caught(t.Context(), &o.run, o.lim, b.judges)
			took := time.Since(begin)
			if err != nil {
				t.Error(err)
			}
			tally := Count(o.h.Events())
			t.Logf("after %v, %d writes and %d starts:\n%s", took.Round(time.Millisecond), tally.Sent, tally.Starts, strings.Join(found, "\n"))
		})
	}
}

// build makes the binary from the module's sources, but for the file that is
// broken. It has no race detector: that is not what has to find it.
func (b brokenProxy) build(t *testing.T) string {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(filepath.Dir(strings.TrimSpace(string(out))), filepath.FromSlash(b.file))
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), b.old); n != 1 {
		t.Fatalf("%s has %d times the text\n%s", b.file, n, b.old)
	}
	dir := t.TempDir()
	broken, overlay, binary := filepath.Join(dir, "broken.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "fenceproxy")
	files, err := json.Marshal(map[string]any{"Replace": map[string]string{source: broken}})
	if err == nil {
		err = errors.Join(os.WriteFile(broken, []byte(strings.Replace(string(text), b.old, b.new, 1)), 0o600), os.WriteFile(overlay, files, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-overlay", overlay, "-o", binary, "github.com/fenceproxy/fenceproxy/cmd/fenceproxy")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("building the proxy %s: %w\n%s", b.name, err, out))
	}
	return binary
}
