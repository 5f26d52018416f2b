package servertest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// childVariable makes a process of this test's out of the test binary: it starts
// a server, says what port it has itself, and stands still.
const childVariable = "FENCEPROXY_SERVERTEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	addr, err := FreeAddress()
	if err == nil {
		cmd := exec.Command("sleep", "1000")
		cmd.Stdout = os.Stdout
		_, err = Start(cmd)
	}
	fmt.Println(addr, err)
	select {}
}

// child runs such a process, which ends with the test at the latest.
func child(t *testing.T) (cmd *exec.Cmd, out *bufio.Reader, addr string) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"=1")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = r.Close()
	})
	_ = r.SetReadDeadline(time.Now().Add(Patience))
	out = bufio.NewReader(r)
	line, err := out.ReadString('\n')
	addr, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	if err != nil || rest != "<nil>" {
		t.Fatalf("the child says %q: %v", line, err)
	}
	return cmd, out, addr
}

// TestOutlives: a server ends with a test that is killed. The server has the
// child's standard output, which ends with the last who has it.
func TestOutlives(t *testing.T) {
	cmd, out, _ := child(t)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(out); err != nil || len(rest) > 0 {
		t.Fatalf("the server runs on: %v %q", err, rest)
	}
}

func TestAddresses(t *testing.T) {
	seen := map[string]bool{}
	for range block / 2 {
		addr, err := FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		if seen[addr] {
			t.Fatalf("%s is given twice", addr)
		}
		seen[addr] = true
	}
	if ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", ours.base)); err == nil {
		t.Error("the block is not kept from others")
		_ = ln.Close()
	}
	if _, _, addr := child(t); seen[addr] {
		t.Errorf("another process is given %s, too", addr)
	}
	taken := ""
	for addr := range seen {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		taken = addr
		break
	}
	for range 2 * block { // round and round
		if addr, err := FreeAddress(); err != nil || addr == taken {
			t.Fatalf("%s %v, and somebody listens there", addr, err)
		}
	}
}

func TestOnFree(t *testing.T) {
	taken := errors.New("bind: Address already in use")
	for _, c := range []struct {
		name  string
		says  []error // to one start after the other
		tries int
	}{
		{"free", []error{nil}, 1},
		{"taken twice", []error{taken, taken, nil}, 3},
		{"taken for ever", []error{taken, taken, taken, taken, taken}, 5},
		{"ended by itself", []error{errors.New("bad option")}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := map[string]bool{}
			tries := 0
			err := OnFree(2, func(addrs []string) error {
				tries++
				seen[addrs[0]], seen[addrs[1]] = true, true
				return c.says[tries-1]
			})
			if tries != c.tries || len(seen) != 2*tries || !errors.Is(err, c.says[tries-1]) {
				t.Errorf("%d tries at %v: %v", tries, seen, err)
			}
		})
	}
}

// TestRunTaken: a real server finds its first address taken, and gets another.
func TestRunTaken(t *testing.T) {
	if _, err := os.Stat("/proc/self/net/tcp"); err != nil {
		t.Skip("the system does not tell who listens")
	}
	tries := 0
	addrs := Run(t, 1, func(addrs []string) *exec.Cmd {
		tries++
		cmd := exec.Command(Find(t, "python3", "python3"), "-c", listener, addrs[0])
		if tries == 1 {
			ln, err := net.Listen("tcp", addrs[0])
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = ln.Close() })
		}
		return cmd
	})
	c, err := net.Dial("tcp", addrs[0])
	if tries != 2 || err != nil {
		t.Fatalf("%d tries, and then it listens to %v: %v", tries, addrs, err)
	}
	_ = c.Close()
}

const listener = `
import socket, sys
host, port = sys.argv[1].split(":")
s = socket.create_server((host, int(port)))
s.listen()
sys.stdin.read()
`

func TestProcess(t *testing.T) {
	p, err := Start(exec.Command("sh", "-c", "read line; exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Ended():
		t.Fatalf("its standard input has ended, and it with that: %v", p.State())
	case <-time.After(50 * time.Millisecond):
	}
	p.Signal(syscall.SIGSTOP)
	p.End(syscall.SIGTERM)
	if s, ok := p.State().Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v, want SIGTERM", p.State())
	}

	p, err = Start(exec.Command("sh", "-c", "exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	<-p.Ended()
	if code := p.State().ExitCode(); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
	answers := func(context.Context) error { return nil }
	if err := p.Until(answers); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("it has ended, and another answers: %v", err)
	}
}
