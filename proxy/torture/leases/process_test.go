package leases

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore/servertest"
)

// memory is what a process has in memory that is its own, in bytes.
func memory(b *testing.B, pid int) int64 {
	b.Helper()
	for line := range strings.Lines(proc(b, pid, "status")) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return kb << 10
		}
	}
	b.Fatal("no RssAnon")
	return 0
}

// cpuOf is the time that a process uses of all cores while do runs.
func cpuOf(b *testing.B, pid int, do func()) time.Duration {
	b.Helper()
	before := cpu(b, pid)
	do()
	return cpu(b, pid) - before
}

func cpu(b *testing.B, pid int) time.Duration {
	b.Helper()
	text := proc(b, pid, "stat")
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:]) // from the state on, field 3
	var ticks int64
	for _, f := range fields[11:13] { // utime, stime: 14 and 15
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}

func proc(b *testing.B, pid int, file string) string {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		b.Fatalf("only Linux tells what a process uses: %v", err)
	}
	return string(text)
}

const bareVariable = "FENCEPROXY_TORTURE_BARE"

// bare is a net/http server that knows no leases, in a process of its own.
type bare struct {
	url string
	pid int
}

// serveBare is that process. It ends with its standard input.
func serveBare() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("http://" + l.Addr().String())
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"key":"`+strings.TrimPrefix(r.URL.Path, wire.LeasesPath)+`"}`)
	})}
	go func() { _ = server.Serve(l) }()
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

func startBare(b *testing.B) bare {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), bareVariable+"=1")
	url := servertest.Says(b, cmd)
	return bare{strings.TrimSpace(url), cmd.Process.Pid}
}
