package servertest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// listens asks whether it listens at all the addresses. Another one who has
// taken an address would be connected to as well, for as long as it takes this
// one to notice.
func (p *Process) listens(ctx context.Context, addrs []string) error {
	for _, addr := range addrs {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		_ = c.Close()
		if !p.has(addr) {
			return fmt.Errorf("another process listens at %s", addr)
		}
	}
	return nil
}

// has reports whether the socket that listens at a port is among its files. It is
// taken for granted where the system does not tell.
func (p *Process) has(addr string) bool {
	four, err := os.ReadFile("/proc/self/net/tcp") // its own cannot be read when it has just ended
	if err != nil {
		return true
	}
	six, _ := os.ReadFile("/proc/self/net/tcp6")
	_, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(port)
	local := fmt.Sprintf(":%04X", n)
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.PID()))
	for line := range strings.Lines(string(four) + string(six)) {
		const listening = "0A"
		f := strings.Fields(line)
		if len(f) < 10 || !strings.HasSuffix(f[1], local) || f[3] != listening {
			continue
		}
		socket := "socket:[" + f[9] + "]"
		if slices.ContainsFunc(files, func(file string) bool { to, _ := os.Readlink(file); return to == socket }) {
			return true
		}
	}
	return false
}
