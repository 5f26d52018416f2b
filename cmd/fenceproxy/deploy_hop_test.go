package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/fenceproxy/fenceproxy/config"
	"github.com/fenceproxy/fenceproxy/tokenstore/servertest"
)

// frontHop is a program that stands in front of the proxy, configured from
// deploy/hop.
type frontHop struct {
	name, file, pkg string
	// listen and server are what stands in the file; server is one line, which
	// is put there for each proxy.
	listen, server string
	check, run     func(file string) []string
	// edit is what its file says in words, done to it; nil for nothing.
	edit func(text string) string
}

var frontHops = []frontHop{
	{"nginx", "nginx.conf", "nginx", "listen 80;", "    server 127.0.0.1:8080 max_fails=0;\n",
		func(file string) []string { return []string{"-t", "-c", file} },
		func(file string) []string { return []string{"-c", file} }, nil},
	{"haproxy", "haproxy.cfg", "haproxy", "bind :80", "    server proxy1 127.0.0.1:8080 check port 9901 inter 2s fall 2 rise 1 pool-purge-delay 60s\n",
		func(file string) []string { return []string{"-c", "-f", file} },
		func(file string) []string { return []string{"-db", "-f", file} }, nil},
}

// start has the program check its file, then runs it in front of some
// addresses, and returns its own.
func (h frontHop) start(t *testing.T, admin string, behind ...string) (addr string) {
	t.Helper()
	program := davProgram(t, h.name, h.pkg)
	return servertest.Run(t, 1, func(addrs []string) *exec.Cmd {
		file := h.write(t, addrs[0], admin, behind)
		if out, err := exec.Command(program, h.check(file)...).CombinedOutput(); err != nil || strings.Contains(strings.ToLower(string(out)), "warn") {
			t.Fatalf("%s %v: %v\n%s", h.name, h.check(file), err, out)
		}
		return exec.Command(program, h.run(file)...)
	})[0]
}

// write writes its file.
func (h frontHop) write(t *testing.T, addr, admin string, behind []string) (file string) {
	t.Helper()
	text := string(readDeploy(t, "hop", h.file))
	if strings.Count(text, h.listen) != 1 || strings.Count(text, h.server) != 1 {
		t.Fatalf("deploy/hop/%s has not the lines %q and %q", h.file, h.listen, h.server)
	}
	servers := ""
	for i, b := range behind {
		servers += strings.NewReplacer("127.0.0.1:8080", b, "9901", portOf(admin), "proxy1", fmt.Sprint("proxy", i+1)).Replace(h.server)
	}
	listen := strings.NewReplacer("80;", addr+";", ":80", addr).Replace(h.listen)
	text = strings.Replace(strings.Replace(text, h.server, servers, 1), h.listen, listen, 1)
	if h.edit != nil {
		text = h.edit(text)
	}
	dir := t.TempDir()
	file = filepath.Join(dir, h.file)
	if h.name == "nginx" { // the file is one of conf.d
		davWrite(t, filepath.Join(dir, "site"), text)
		paths := ""
		for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			paths += fmt.Sprintf("%s_temp_path %s/%s; ", kind, dir, kind)
		}
		text = fmt.Sprintf("daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/log; events {} http { access_log off; %[2]s include %[1]s/site; }", dir, paths)
	}
	davWrite(t, file, text)
	return file
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// startFence runs the real binary in front of an upstream, with every write
// fenced by its path.
func startFence(t *testing.T, upstream string) (addr, admin string) {
	t.Helper()
	addrs := servertest.Run(t, 2, func(addrs []string) *exec.Cmd {
		return exec.Command(davProgram(t, "fenceproxy", ""), "serve", "--upstream", upstream, "--listen", addrs[0], "--admin", addrs[1], "--data", filepath.Join(t.TempDir(), "store"))
	})
	untilReady(t, addrs[1])
	return addrs[0], addrs[1]
}

// untilReady waits until a proxy's admin listener says that it admits writes.
func untilReady(t *testing.T, admin string) {
	t.Helper()
	for end := time.Now().Add(scriptPatience); ; time.Sleep(10 * time.Millisecond) {
		err := askReady(admin)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the proxy is not ready: %v", err)
		}
	}
}

// askReady asks once.
func askReady(admin string) error {
	resp, err := http.Get("http://" + admin + "/readyz")
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// put sends a write with its target as it stands.
func put(t *testing.T, addr, target, token string) (status int, result, body string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPut, "http://"+addr+"/", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	req.URL.RawPath, req.URL.RawQuery, _ = strings.Cut(target, "?")
	if req.URL.Path, err = url.PathUnescape(req.URL.RawPath); err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("X-Fencing-Token", token)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Fencing-Result"), string(b)
}

// TestDeployHop: the programs of deploy/hop in front of a real proxy hand on
// what it needs to see, and its answers.
func TestDeployHop(t *testing.T) {
	for _, h := range frontHops {
		t.Run(h.name, func(t *testing.T) {
			var seen atomic.Value
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				seen.Store(r.Host + " " + r.RequestURI + " " + r.Header.Get("X-Fencing-Token"))
				w.WriteHeader(http.StatusNoContent)
			}))
			defer api.Close()
			proxy, admin := startFence(t, api.URL)
			hop := h.start(t, admin, proxy)
			const unseen = ""
			for _, c := range []struct {
				target, token string
				status        int
				result, body  string
				seen          string
			}{
				{"/a?q=%41&r=a%2Fb", "7", 204, "admitted", "", hop + " /a?q=%41&r=a%2Fb 7"},
				{"/a", "6", 409, "rejected;reason=stale-token", `"highest":"7"`, unseen},
				{"/a", "", 428, "rejected;reason=token-required", "token-required", unseen},
				{"/a%2Fb", "9", 400, "rejected;reason=path-not-canonical", "path-not-canonical", unseen},
				{"//a", "9", 400, "rejected;reason=path-not-canonical", "path-not-canonical", unseen},
				{"/b/../a", "9", 400, "rejected;reason=path-not-canonical", "path-not-canonical", unseen},
				{"/a", "8", 204, "admitted", "", hop + " /a 8"},
			} {
				seen.Store(unseen)
				status, result, body := put(t, hop, c.target, c.token)
				if status != c.status || result != c.result || !strings.Contains(body, c.body) || seen.Load() != c.seen {
					t.Errorf("PUT %s with %q: %d %s %s, the API saw %q; want %d %s …%s…, %q", c.target, c.token, status, result, body, seen.Load(), c.status, c.result, c.body, c.seen)
				}
			}
		})
	}
}

// TestDeployHopSendsOnce: a write whose connection breaks is not sent once more,
// to this proxy or to the next one.
func TestDeployHopSendsOnce(t *testing.T) {
	for _, h := range frontHops {
		t.Run(h.name, func(t *testing.T) {
			ready := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			defer ready.Close()
			var writes atomic.Int64
			breaks := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPut {
					writes.Add(1)
				}
				_, _ = io.Copy(io.Discard, r.Body)
				panic(http.ErrAbortHandler)
			})
			one, two := httptest.NewServer(breaks), httptest.NewServer(breaks)
			defer one.Close()
			defer two.Close()
			hop := h.start(t, ready.Listener.Addr().String(), one.Listener.Addr().String(), two.Listener.Addr().String())
			if status, _, body := put(t, hop, "/a", "1"); status != http.StatusBadGateway || writes.Load() != 1 {
				t.Errorf("answered %d %s, and the write was sent %d times", status, body, writes.Load())
			}
		})
	}
}

// TestDeployHopEnvoy looks at what matters in a file that is not run.
func TestDeployHopEnvoy(t *testing.T) {
	text := readDeploy(t, "hop", "envoy.yaml")
	at := func(path string) (out any) {
		t.Helper()
		p, err := yaml.PathString(path)
		if err == nil {
			err = p.Read(strings.NewReader(string(text)), &out)
		}
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return out
	}
	const (
		hcm   = "$.static_resources.listeners[0].filter_chains[0].filters[0].typed_config."
		vhost = hcm + "route_config.virtual_hosts[0]."
	)
	for path, want := range map[string]any{
		hcm + "normalize_path": false, hcm + "merge_slashes": false, hcm + "path_with_escaped_slashes_action": "KEEP_UNCHANGED",
		hcm + "use_remote_address": true, hcm + "common_http_protocol_options.headers_with_underscores_action": "ALLOW",
		vhost + "routes[0].route.timeout": "120s",
	} {
		if got := at(path); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	if strings.Contains(string(text), "retry_policy:") {
		t.Error("envoy.yaml has a retry policy")
	}
}

// TestDeployHopPatience: no hop gives up on a write that may still be answered in
// good order, and none keeps an idle connection longer than the proxy does.
func TestDeployHopPatience(t *testing.T) {
	d := config.Default()
	for file, settings := range map[string]struct{ wait, idle string }{
		"nginx.conf":  {`proxy_read_timeout (\S+);`, `keepalive_timeout (\S+);`},
		"haproxy.cfg": {`timeout server (\S+)`, `pool-purge-delay (\S+)`},
		"envoy.yaml":  {` timeout: (\d\d\d+s)`, `common_http_protocol_options: {idle_timeout: (\S+)}`},
	} {
		set := func(pattern string) time.Duration {
			m := regexp.MustCompile(pattern).FindSubmatch(readDeploy(t, "hop", file))
			if m == nil {
				t.Fatalf("%s has no %s", file, pattern)
			}
			took, err := time.ParseDuration(string(m[1]))
			if err != nil {
				t.Fatal(err)
			}
			return took
		}
		if wait := set(settings.wait); wait <= d.Fencing.DrainTimeout+d.Upstream.ResponseTimeout {
			t.Errorf("%s waits %v for an answer, and that may take %v + %v", file, wait, d.Fencing.DrainTimeout, d.Upstream.ResponseTimeout)
		}
		if idle := set(settings.idle); idle >= d.Listen.IdleTimeout {
			t.Errorf("%s keeps idle connections for %v, and the proxy for %v", file, idle, d.Listen.IdleTimeout)
		}
	}
}
