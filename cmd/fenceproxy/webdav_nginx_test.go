package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
	"github.com/fenceproxy/fenceproxy/tokenstore/servertest"
)

// davPatience is how long a start, a stop or a request may take on a machine
// that is busy.
const davPatience = 30 * time.Second

// davSettle is far longer than anything here that must not wait for it.
const davSettle = 10 * time.Minute

// The rules of a WebDAV server. MOVE and COPY name a second resource, in their
// Destination header, and this version makes keys of the target's path alone.
// A key for each file would therefore fence a MOVE's source and not what it
// overwrites. A lease that covers a whole share has no such hole as long as
// files are moved within their share: so the share is the resource. What is
// moved into another share is not fenced there.
const davConfig = `
listen: {address: "%s", trusted_proxies: [127.0.0.0/8]}
upstream: {%s, settle: %s}
admin: {address: "%s"}
store:
  embedded: {path: "%s"}
fencing: {drain_timeout: 3s}
rules:
  - name: shares
    path: ["/shares/{share}", "/shares/{share}/*"]
    key: share:{share}
unmatched_writes: reject
shutdown_timeout: 100s
`

const nginxConfig = `
daemon off;
master_process off;
pid %[1]s/nginx.pid;
error_log stderr notice;
events { worker_connections 128; }
http {
	log_format hop '$connection $connection_requests $ssl_protocol $ssl_client_verify $http_host $http_x_forwarded_for';
	access_log %[1]s/hop.log hop;
	log_format dav '$request_method $request_uri token=$http_x_fencing_token status=$status';
	access_log %[1]s/access.log dav;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	client_max_body_size 16m;
	server {
		%[2]s
		root %[1]s/www;
		location / {
			dav_methods PUT DELETE MKCOL MOVE COPY;
			create_full_put_path on;
		}
	}
}
`

// davSite is the real binary in front of a real nginx.
type davSite struct {
	*testing.T
	dir    string // nginx's, its files are in www
	nginx  string // its address
	proxy  string // the proxy's
	admin  string
	curl   string
	server *servertest.Server // the proxy's process
}

// newDavSite starts both, for the whole test, with clear text between them.
func newDavSite(t *testing.T) *davSite {
	t.Helper()
	return newDavSiteOver(t, func(s *davSite) (listen, upstream string) {
		return "listen " + s.nginx + ";", `url: "http://` + s.nginx + `"`
	})
}

// newDavSiteOver has them joined by a hop, which says what nginx listens to and
// how the proxy's upstream is set.
func newDavSiteOver(t *testing.T, hop func(*davSite) (listen, upstream string)) *davSite {
	t.Helper()
	s := &davSite{T: t, dir: t.TempDir(), curl: davProgram(t, "curl", "curl")}
	nginx := davProgram(t, "nginx", "nginx-extras")
	if out, err := exec.Command(nginx, "-V").CombinedOutput(); err != nil || !bytes.Contains(out, []byte("http_dav_module")) {
		t.Fatalf("%s has no WebDAV module: run make deps, or on Debian apt-get install nginx-extras (%v)\n%s", nginx, err, out)
	}
	binary, err := torture.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.nginx, s.proxy, s.admin = freeAddress(t), freeAddress(t), freeAddress(t)
	listen, upstream := hop(s)
	s.startNginx(nginx, listen)
	work := t.TempDir()
	config := filepath.Join(work, "fenceproxy.yaml")
	davWrite(t, config, fmt.Sprintf(davConfig, s.proxy, upstream, davSettle, s.admin, filepath.Join(work, "store")))
	s.server = davServer(t, "fenceproxy", []string{binary, "serve", "--config", config}, func(context.Context) error { return askReady(s.admin) })
	return s
}

// davServer starts a server, for the whole test.
func davServer(t *testing.T, name string, args []string, answers func(context.Context) error) *servertest.Server {
	t.Helper()
	s, err := servertest.New(servertest.Program{Name: name, Command: func() *exec.Cmd { return exec.Command(args[0], args[1:]...) }, Answers: answers})
	if err != nil {
		t.Fatal(err)
	}
	s.CloseAfter(t)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// davProgram finds a program, also where Debian puts it and an ordinary user's
// PATH does not look.
func davProgram(t *testing.T, name, pkg string) string {
	t.Helper()
	return servertest.Find(t, name, pkg)
}

func davWrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// startNginx starts it in the foreground, as one process of this user, with
// nothing outside of s.dir.
func (s *davSite) startNginx(nginx, listen string) {
	s.Helper()
	if err := os.Mkdir(filepath.Join(s.dir, "www"), 0o755); err != nil {
		s.Fatal(err)
	}
	config := filepath.Join(s.dir, "nginx.conf")
	davWrite(s.T, config, fmt.Sprintf(nginxConfig, s.dir, listen))
	davServer(s.T, "nginx", []string{nginx, "-p", s.dir, "-c", config}, func(context.Context) error {
		network := "tcp"
		if strings.HasPrefix(s.nginx, "/") {
			network = "unix"
		}
		c, err := net.Dial(network, s.nginx)
		if err == nil {
			c.Close()
		}
		return err
	})
}

// davAnswer is what curl tells of an exchange.
type davAnswer struct {
	status   int
	uploaded int // bytes of the body that curl sent
	header   http.Header
	body     string
	took     time.Duration
}

// problem is the name of the problem that the proxy answered with, and "" for
// the API's own answers.
func (a davAnswer) problem() string {
	var p struct{ Type string }
	if json.Unmarshal([]byte(a.body), &p) != nil {
		return ""
	}
	return strings.TrimPrefix(p.Type, "urn:fenceproxy:problem:")
}

func (a davAnswer) String() string {
	return fmt.Sprintf("%d, %s, %s, %q", a.status, a.header.Get("Fencing-Result"), a.header.Get("Fencing-Forwarded"), a.body)
}

// do has curl send a request to the proxy. token 0 stands for none.
func (s *davSite) do(method, path string, token uint64, args ...string) davAnswer {
	s.Helper()
	dir := s.T.TempDir()
	body, head := filepath.Join(dir, "body"), filepath.Join(dir, "head")
	line := []string{"-q", "-sS", "--noproxy", "*", "--max-time", strconv.Itoa(int(davPatience.Seconds())),
		"-o", body, "-D", head, "-w", "%{http_code} %{size_upload}"}
	if method == http.MethodHead {
		line = append(line, "-I")
	} else {
		line = append(line, "-X", method)
	}
	if token > 0 {
		line = append(line, "-H", fmt.Sprintf("X-Fencing-Token: %d", token))
	}
	cmd := exec.Command(s.curl, append(append(line, args...), "http://"+s.proxy+path)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	start := time.Now()
	out, err := cmd.Output()
	if err != nil {
		s.Fatalf("%s: %v\n%s", cmd, err, &stderr)
	}
	a := davAnswer{took: time.Since(start), header: davHeader(s.T, head)}
	if _, err := fmt.Sscan(string(out), &a.status, &a.uploaded); err != nil {
		s.Fatalf("curl printed %q: %v", out, err)
	}
	if b, err := os.ReadFile(body); err == nil { // without a body there is no file
		a.body = string(b)
	}
	return a
}

// davHeader reads the last of the heads that curl wrote down: 100 Continue has
// one of its own.
func davHeader(t *testing.T, path string) http.Header {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "HTTP/") {
			h = http.Header{}
		} else if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			h.Add(name, strings.TrimSpace(value))
		}
	}
	return h
}

// put uploads text.
func (s *davSite) put(path string, token uint64, text string, args ...string) davAnswer {
	s.Helper()
	from := filepath.Join(s.T.TempDir(), "upload")
	davWrite(s.T, from, text)
	return s.do(http.MethodPut, path, token, append([]string{"-T", from}, args...)...)
}

// on is the site for the requests of a subtest.
func (s *davSite) on(t *testing.T) *davSite {
	here := *s
	here.T = t
	return &here
}

// file is where nginx keeps what it serves at path.
func (s *davSite) file(path string) string {
	return filepath.Join(s.dir, "www", filepath.FromSlash(path))
}

// read returns a file's content from nginx's own side; ok is false where there
// is none.
func (s *davSite) read(path string) (text string, ok bool) {
	b, err := os.ReadFile(s.file(path))
	return string(b), err == nil
}

// asked is what nginx says it was asked, a line for each request.
func (s *davSite) asked() string {
	b, err := os.ReadFile(filepath.Join(s.dir, "access.log"))
	if err != nil {
		s.Fatal(err)
	}
	return string(b)
}
