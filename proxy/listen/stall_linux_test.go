package listen

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
)

// A client that takes nothing of what is written to it is ended by the kernel;
// one that takes it slowly is not.
func TestStalledClient(t *testing.T) {
	const stall = 2 * time.Second // longer than a busy machine stands still
	for name, reads := range map[string]bool{"takes nothing": false, "takes it slowly": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := Listen(Options{Address: "127.0.0.1:0", Stall: stall, Log: zap.NewNop()})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			client, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			_ = client.(*net.TCPConn).SetReadBuffer(4096)
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			done := make(chan struct{})
			defer func() { <-done }()
			over := make(chan struct{})
			defer close(over)
			go func() {
				defer close(done)
				for buf := make([]byte, 256<<10); reads; time.Sleep(20 * time.Millisecond) {
					if _, err := client.Read(buf); err != nil {
						return
					}
					select {
					case <-over:
						return
					default:
					}
				}
			}()
			patience := 30 * time.Second
			if reads {
				patience = 2 * stall
			}
			_ = c.SetWriteDeadline(time.Now().Add(patience))
			for err == nil {
				_, err = c.Write(make([]byte, 64<<10))
			}
			var want error = syscall.ETIMEDOUT
			if reads {
				want = os.ErrDeadlineExceeded // the test's own
			}
			if !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		})
	}
}
