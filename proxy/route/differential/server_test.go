package differential

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore/servertest"
)

// mark parts the fields of an answer. It is another one in every run, so that
// no request can have it.
var mark = "<" + rand.Text() + ">"

// fields are what a server answers: what an application behind it is given.
// nil is an answer that is none, as a 400.
type fields map[string]string

// server is a real server, and what it has answered so far.
type server struct {
	name    string
	addr    string
	answers map[string]fields // by the request's bytes
}

// startServers starts all of them.
func startServers(t *testing.T) map[string]*server {
	t.Helper()
	all := map[string]*server{}
	add := func(name, addr string) { all[name] = &server{name, addr, map[string]fields{}} }

	php := startPHP(t, add)
	startNginx(t, php, add)
	startApache(t, php, add)
	startLighttpd(t, add)
	startJava(t, add)
	startScripts(t, add)
	return all
}

// startNginx starts nginx by itself and in front of PHP.
func startNginx(t *testing.T, php string, add func(name, addr string)) {
	t.Helper()
	names := []string{"nginx", "lenient nginx", "nginx and PHP", "nginx with the path in the query"}
	addrs := servertest.Run(t, len(names), func(addrs []string) *exec.Cmd {
		words := []string{"MARK", mark, "APPLICATION", php}
		for i, addr := range addrs {
			words = append(words, fmt.Sprintf("ADDRESS%d", i), addr)
		}
		dir, file := configure(t, "nginx.conf", words...)
		copyFile(t, filepath.Join("testdata", "php.php"), filepath.Join(dir, "php.php"))
		return exec.Command(servertest.Find(t, "nginx", "nginx"), "-p", dir, "-c", file, "-e", "stderr")
	})
	for i, name := range names {
		add(name, addrs[i])
	}
}

// startLighttpd starts lighttpd in front of an application of this test's.
func startLighttpd(t *testing.T, add func(name, addr string)) {
	t.Helper()
	application := scgiApplication(t)
	add("lighttpd", servertest.Run(t, 1, func(addrs []string) *exec.Cmd {
		_, port, _ := net.SplitHostPort(addrs[0])
		_, file := configure(t, "lighttpd.conf", "PORT0", port, "APPLICATION", application)
		return exec.Command(servertest.Find(t, "lighttpd", "lighttpd"), "-D", "-f", file)
	})[0])
}

// startScripts starts the servers that Python and Node have with them.
func startScripts(t *testing.T, add func(name, addr string)) {
	t.Helper()
	add("wsgi", ports(t, "it needs Python's standard library: on Debian apt-get install python3", nil,
		servertest.Find(t, "python3", "python3"), filepath.Join("testdata", "wsgi.py"), mark)[0])

	addrs := ports(t, "it needs Express: run make deps, on Debian apt-get install node-express, elsewhere npm install express and name its directory in NODE_PATH",
		// Where Debian has its modules, also for a node that is not Debian's.
		[]string{"NODE_PATH=" + strings.Trim(os.Getenv("NODE_PATH")+":/usr/share/nodejs:/usr/lib/nodejs", ":")},
		servertest.Find(t, "node", "nodejs"), filepath.Join("testdata", "node.js"), mark)
	add("node", addrs[0])
	add("express", addrs[1])
}

// ask asks a server everything that it was not asked before, byte for byte,
// each on a connection of its own: what breaks one must not hide the next.
func (s *server) ask(t *testing.T, requests map[string]bool) {
	t.Helper()
	work := make(chan string)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range 6 {
		wg.Go(func() {
			for raw := range work {
				f, err := exchange(s.addr, raw)
				if err != nil {
					t.Errorf("%s is gone: %v", s.name, err)
				}
				mu.Lock()
				s.answers[raw] = f
				mu.Unlock()
			}
		})
	}
	for raw := range requests {
		mu.Lock()
		_, known := s.answers[raw]
		mu.Unlock()
		if !known && !t.Failed() {
			work <- raw
		}
	}
	close(work)
	wg.Wait()
}

// exchange sends one request and reads its answer. The error says that the
// server is not there; whatever it says, or does not, is an answer.
func exchange(addr, raw string) (fields, error) {
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	_ = c.(*net.TCPConn).SetLinger(0) // or the ports would run out
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(c, raw); err != nil {
		return nil, nil
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		if nerr, ok := err.(net.Error); ok && nerr.Timeout() {
			return nil, err
		}
		return nil, nil
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil, nil
	}
	f := fields{}
	for field := range strings.SplitSeq(string(body), mark) {
		name, value, _ := strings.Cut(field, "=")
		f[name] = value
	}
	return f, nil
}
