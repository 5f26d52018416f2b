package torture

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// gated starts the proxy in front of an API that takes everything, and returns
// its configuration with one more rule, which tests switch: every write below
// /gate/ is fenced or is not.
func gated(t *testing.T, place func(p *Proxy)) (p *Proxy, fenced func(bool) string) {
	t.Helper()
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	t.Cleanup(api.Close)
	if p, err = NewProxy(NewHistory(), binary, t.TempDir(), Settings{Upstream: api.URL, Settle: time.Second}); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(p.config)
	if err != nil {
		t.Fatal(err)
	}
	place(p)
	p.KillAfter(t, "the proxy")
	return p, func(on bool) string {
		token := "none"
		if on {
			token = "required"
		}
		return string(first) + fmt.Sprintf("  - {name: gate, path: \"/gate/{id}\", key: \"gate:{id}\", token: %s}\n", token)
	}
}

// writeGate sends a write without a token to the gate.
func writeGate(t *testing.T, addr string) int {
	t.Helper()
	req, err := http.NewRequest(http.MethodPut, "http://"+addr+"/gate/1", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

// A file that is swapped as Kubernetes swaps a ConfigMap, a link to a directory
// that is turned to another, is in force within two seconds, each time.
func TestConfigMapSwap(t *testing.T) {
	const swaps = 5
	limit := 2 * time.Second
	if raceEnabled {
		limit = 10 * time.Second // it is the machine then that is measured
	}
	var dir string
	p, fenced := gated(t, func(p *Proxy) {
		dir = filepath.Dir(p.config)
		if err := os.Remove(p.config); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..data", filepath.Base(p.config)), p.config); err != nil {
			t.Fatal(err)
		}
	})
	version := 0
	// As the kubelet does it: a new directory, a link to it, which takes the place
	// of the old link, and the old directory goes.
	swap := func(text string) {
		t.Helper()
		old := fmt.Sprintf("..version_%d", version)
		version++
		now := fmt.Sprintf("..version_%d", version)
		if err := os.Mkdir(filepath.Join(dir, now), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, now, filepath.Base(p.config)), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(now, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(dir, old)); err != nil {
			t.Fatal(err)
		}
	}
	swap(fenced(false))
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	for i := range swaps {
		want := []int{http.StatusPreconditionRequired, http.StatusOK}[i%2]
		swap(fenced(i%2 == 0))
		start := time.Now()
		for writeGate(t, p.Addr) != want {
			if time.Since(start) > 3*limit {
				t.Fatalf("swap %d is not seen", i+1)
			}
			time.Sleep(5 * time.Millisecond)
		}
		took := time.Since(start)
		t.Logf("swap %d was in force after %v", i+1, took.Round(time.Millisecond))
		if took > limit {
			t.Errorf("swap %d was in force after %v, later than %v", i+1, took, limit)
		}
	}
}

// A thousand SIGHUPs in a second, with a file that changes meanwhile, lose no
// write and leave the last file in force.
func TestSIGHUPStorm(t *testing.T) {
	const hangUps = 1000
	p, fenced := gated(t, func(*Proxy) {})
	// Moved over: half of a file is not what this is about.
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(p.config+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(p.config+".new", p.config); err != nil {
			t.Fatal(err)
		}
	}
	write(fenced(false))
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	var n atomic.Int64
	var stop atomic.Bool
	answered, wait := load(t, p.Addr, until(&stop, func() (int64, int64) { return n.Add(1) % 100, 1 }))
	defer stop.Store(true)
	for answered.Load() < 100 && !t.Failed() {
		time.Sleep(time.Millisecond)
	}
	before, start := answered.Load(), time.Now()
	reloads := func() int { return strings.Count(p.Log(64<<20), `"msg":"the configuration was reloaded"`) }
	// A busy machine needs longer until something was tried.
	tried := func() bool { return reloads() >= 10 && answered.Load()-before >= 100 }
	for i := 0; i < hangUps || i < 20*hangUps && (i%100 != 0 || !tried()); i++ {
		if i%100 == 0 {
			write(fenced(i%200 == 0))
		}
		p.Hangup()
		time.Sleep(time.Until(start.Add(time.Duration(i+1) * time.Second / hangUps)))
	}
	took, sent := time.Since(start), answered.Load()-before
	write(fenced(true))
	p.Hangup()
	for end := time.Now().Add(startPatience); writeGate(t, p.Addr) != http.StatusPreconditionRequired; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the last file is not in force")
		}
	}
	stop.Store(true)
	wait()
	t.Logf("%d SIGHUPs and more in %v, %d reloads, %d writes meanwhile, %.0f in a second, none lost", hangUps, took.Round(time.Millisecond), reloads(), sent, float64(sent)/took.Seconds())
	if reloads() < 10 || sent < 100 || strings.Contains(p.Log(64<<20), "not reloaded") {
		t.Errorf("%d reloads, %d writes: nothing was tried", reloads(), sent)
	}
	p.Terminate()
	if code, err := p.Wait(startPatience); code != 0 {
		t.Errorf("the stop ended with %d: %v", code, err)
	}
}
