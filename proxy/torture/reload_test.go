package torture

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// reloads is how often the rules change under load.
const reloads = 50

// While the rules change no write is lost, refused or sent twice, over HTTP/1.1
// and HTTP/2, whether its fence stays, comes or goes; and nothing is left behind.
func TestReloadsUnderLoad(t *testing.T) {
	bin, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	var got sync.Map // targets, each of which is written to once
	var twice atomic.Int64
	up := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if _, before := got.LoadOrStore(r.RequestURI, true); before {
			twice.Add(1)
		}
		time.Sleep(time.Millisecond) // so that each reload finds some in flight
	}))
	t.Cleanup(up.Close)
	p, err := NewProxy(NewHistory(), bin, t.TempDir(), Settings{Upstream: up.URL, Settle: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	p.KillAfter(t, "the proxy")
	first, err := os.ReadFile(p.config)
	if err != nil {
		t.Fatal(err)
	}
	fences := func(token string) string {
		return string(first) + fmt.Sprintf("  - {name: gate, path: \"/gate/{id}\", key: \"gate:{id}\", token: %s}\n", token)
	}
	write := func(text string) {
		if err := os.WriteFile(p.config+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(p.config+".new", p.config); err != nil {
			t.Fatal(err)
		}
	}
	write(fences("none"))
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	before := p.figure(t, "go_goroutines")

	var stop atomic.Bool
	var sent atomic.Int64
	var clients sync.WaitGroup
	for i := range 8 {
		tr := &http.Transport{Protocols: new(http.Protocols)}
		tr.Protocols.SetHTTP1(i%4 < 2)
		tr.Protocols.SetUnencryptedHTTP2(i%4 >= 2)
		web := &http.Client{Transport: tr, Timeout: 20 * time.Second}
		clients.Go(func() {
			defer tr.CloseIdleConnections()
			path := []string{"/things/", "/gate/"}[i%2] + strconv.Itoa(i%4) // two clients for each key
			for n := 1; !stop.Load(); n++ {
				target := fmt.Sprintf("%s?%d.%d", path, i, n)
				req, _ := http.NewRequest(http.MethodPut, "http://"+p.Addr+target, strings.NewReader("x"))
				req.Header.Set("X-Fencing-Token", "7")
				resp, err := web.Do(req)
				if err != nil {
					t.Errorf("%s: %v", target, err)
					return
				}
				body, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if _, arrived := got.Load(target); resp.StatusCode != http.StatusOK || !arrived {
					t.Errorf("%s: %s %s", target, resp.Status, body)
					return
				}
				sent.Add(1)
			}
		})
	}
	done := regexp.MustCompile(`"msg":"the configuration was reloaded"`)
	await := func(what string, f func() bool) {
		for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(time.Millisecond) {
			if t.Failed() || time.Now().After(end) {
				stop.Store(true)
				clients.Wait()
				t.Fatal(what)
			}
		}
	}
	for i := range reloads {
		now := sent.Load()
		await("no write goes through", func() bool { return sent.Load() >= now+40 })
		write(fences([]string{"required", "none"}[i%2]))
		p.Hangup()
		await(fmt.Sprintf("reload %d does not come", i), func() bool { return len(done.FindAllString(p.Log(1<<20), -1)) > i })
	}
	stop.Store(true)
	clients.Wait()
	if n := twice.Load(); n > 0 {
		t.Errorf("%d writes came twice", n)
	}
	t.Logf("%d writes through %d reloads", sent.Load(), reloads)
	await("goroutines are left behind", func() bool { return p.figure(t, "go_goroutines") <= before+20 })
	p.Terminate()
	if code, err := p.Wait(10 * time.Second); code != 0 {
		t.Errorf("the stop ended with %d: %v", code, err)
	}
}

// figure is a metric without labels.
func (p *Proxy) figure(t *testing.T, name string) float64 {
	t.Helper()
	resp, err := p.web.Get(p.Admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("there is no %s in\n%s", name, text)
	}
	f, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
