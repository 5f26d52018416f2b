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
	const stall = 2 * time.Second
	t.Run("takes nothing", func(t *testing.T) {
		t.Parallel()
		if _, err := writeTo(t, stall, 30*time.Second, false); !errors.Is(err, syscall.ETIMEDOUT) {
			t.Errorf("%v, want %v", err, syscall.ETIMEDOUT)
		}
	})
	t.Run("takes it slowly", func(t *testing.T) {
		t.Parallel()
		for range 10 {
			late, err := writeTo(t, stall, 2*stall, true)
			if errors.Is(err, os.ErrDeadlineExceeded) { // the test's own
				return
			}
			if late < stall/4 {
				t.Fatalf("%v, and the client was late by %v at most", err, late)
			}
		}
		t.Error("ended each time, if by a client that stood still itself")
	})
}

// writeTo writes for as long as patience to a client that reads from time to
// time, or not at all. It returns what ended it, and the client's longest pause.
func writeTo(t *testing.T, stall, patience time.Duration, reads bool) (late time.Duration, err error) {
	l, err := Listen(Options{Address: "127.0.0.1:0", Stall: stall, Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = client.(*net.TCPConn).SetReadBuffer(4096)
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	longest := make(chan time.Duration, 1)
	go func() {
		var most time.Duration
		defer func() { longest <- most }()
		last := time.Now()
		for buf := make([]byte, 256<<10); reads; time.Sleep(20 * time.Millisecond) {
			_, err := client.Read(buf)
			most = max(most, time.Since(last))
			if last = time.Now(); err != nil {
				return
			}
		}
	}()
	_ = c.SetWriteDeadline(time.Now().Add(patience))
	for err == nil {
		_, err = c.Write(make([]byte, 64<<10))
	}
	_ = c.Close()
	_ = client.Close()
	return <-longest, err
}
