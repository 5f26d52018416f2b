package differential

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// patience is how long a start or an answer may take on a machine that is busy.
const patience = 30 * time.Second

// program finds a program, also where Debian puts it and an ordinary user's
// PATH does not look. A server that is missing fails the test: without it,
// nothing is shown.
func program(t *testing.T, name, pkg string) string {
	t.Helper()
	for _, candidate := range []string{name, "/usr/sbin/" + name, "/usr/local/sbin/" + name} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path
		}
	}
	t.Fatalf("%s is not here, and this test asks the real one: run make deps, or on Debian apt-get install %s", name, pkg)
	return ""
}

// configure writes a configuration file from testdata into a directory of its
// own, with its words replaced.
func configure(t *testing.T, name string, words ...string) (dir, file string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	file = filepath.Join(dir, name)
	replaced := strings.NewReplacer(append(words, "DIR", dir)...).Replace(string(text))
	if err := os.WriteFile(file, []byte(replaced), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, file
}

// process is a server of this test's, killed by its id when the test ends.
type process struct {
	output bytes.Buffer // to be read when ended is closed
	ended  chan struct{}
}

// start starts a server in the foreground. Where stdout is not nil, the caller
// reads it; standard input stays open until the test ends.
func start(t *testing.T, env []string, stdout io.Writer, name string, args ...string) *process {
	t.Helper()
	p := &process{ended: make(chan struct{})}
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr, cmd.Stdout = &p.output, stdout
	if stdout == nil {
		cmd.Stdout = &p.output
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait(); close(p.ended) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-p.ended; stdin.Close() })
	return p
}

// ports starts a server that takes free ports and says them in its first line.
func ports(t *testing.T, advice string, env []string, name string, args ...string) []string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := start(t, env, w, name, args...)
	w.Close()
	if err := r.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	var line []byte
	for buf := make([]byte, 64); !bytes.HasSuffix(line, []byte("\n")); {
		n, err := r.Read(buf)
		line = append(line, buf[:n]...)
		if err != nil {
			select {
			case <-p.ended:
				t.Fatalf("%s ended before it served; %s\n%s", name, advice, &p.output)
			case <-time.After(time.Second):
				t.Fatalf("%s did not say its port: %v", name, err)
			}
		}
	}
	var addrs []string
	for port := range strings.FieldsSeq(string(line)) {
		addrs = append(addrs, "127.0.0.1:"+port)
	}
	return addrs
}

// freePorts returns ports on which nothing listens now, for servers that
// cannot take one by themselves. They are below those that the kernel gives to
// outgoing connections, which are many here.
func freePorts(t *testing.T, n int) (ports []string) {
	t.Helper()
	for try := 0; len(ports) < n; try++ {
		port := fmt.Sprint(12_000 + rand.IntN(18_000))
		ln, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			if try == 100 {
				t.Fatal(err)
			}
			continue
		}
		defer ln.Close() // none is given twice
		ports = append(ports, port)
	}
	return ports
}

// untilListens waits for a server at ports that were chosen for it.
func (p *process) untilListens(t *testing.T, log string, ports ...string) {
	t.Helper()
	end := time.Now().Add(patience)
	for _, port := range ports {
		for {
			c, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err == nil {
				c.Close()
				break
			}
			select {
			case <-p.ended:
				b, _ := os.ReadFile(log)
				t.Fatalf("the server ended before it served:\n%s%s", &p.output, b)
			case <-time.After(10 * time.Millisecond):
			}
			if time.Now().After(end) {
				t.Fatalf("the server does not listen after %v: %v", patience, err)
			}
		}
	}
}
