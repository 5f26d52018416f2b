package proxy

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// A write counts for its settle time when it was lost from sight. Its body and its
// header do not stay for so long: nothing bounds how many such writes there are.
func TestUnsettledWritesAreSmall(t *testing.T) {
	const writes, size = 200, 50 << 10
	for name, answer := range map[string]string{"reset": "", "202": "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.leaves = true
			r.raw(func(c net.Conn, _ *bufio.Reader) {
				if answer == "" {
					_ = c.(*net.TCPConn).SetLinger(0)
				}
				_, _ = c.Write([]byte(answer))
			}, func(o *Options, rules []Rule) {
				o.MaxBodyBuffer, o.MaxBuffered = 64<<10, 1<<20
				rules[0].Settle = time.Hour
			})
			heap := func() int64 {
				runtime.GC()
				runtime.GC() // what pools have kept
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				return int64(m.HeapAlloc)
			}
			big := strings.Repeat("x", size)
			write := func(id int) {
				c := r.dial()
				c.send(fmt.Sprintf("PUT /accounts/%d HTTP/1.1\nHost: a\nX-Fencing-Token: 1\nX-Big: %s\nContent-Length: %d\n\n%s", id, big, size, big))
				if res := c.receive(); res.StatusCode != http.StatusBadGateway && res.StatusCode != http.StatusAccepted {
					t.Errorf("%s", res.Status)
				}
				_ = c.Close()
				c.br.Reset(nil)
			}
			write(writes)
			before := heap()
			for id := range writes {
				write(id)
			}
			r.eventually("the handlers have ended", func() bool { return r.handler.buffered.Load() == 0 })
			if n := r.gate.Counts().Unsettled; n != writes+1 {
				t.Errorf("%d are unsettled, want %d", n, writes+1)
			}
			var each int64
			for end := time.Now().Add(soon); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
				if each = (heap() - before) / writes; each < size/4 {
					return
				}
			}
			t.Errorf("each of them keeps %d bytes", each)
		})
	}
}
