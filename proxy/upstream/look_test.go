package upstream

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
)

// connected returns both ends of a connection over loopback.
func connected(t *testing.T) (near, far net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	far, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	return near, far
}

// writeNow counts exactly what the other end gets, however little of it the
// kernel takes: what "not sent" rests on.
func TestWriteNow(t *testing.T) {
	near, far := connected(t)
	p := bytes.Repeat([]byte("0123456789"), 100_000)
	var wrote []byte
	for {
		n, err := writeNow(near, p)
		wrote = append(wrote, p[:n]...)
		if err == nil && n == len(p) {
			continue
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || n == len(p) {
			t.Fatalf("a full socket: %d bytes, %v", n, err)
		}
		if n == 0 {
			break
		}
	}
	near.Close()
	if got, err := io.ReadAll(far); err != nil || !bytes.Equal(got, wrote) {
		t.Errorf("%d bytes were counted and %d came: %v", len(wrote), len(got), err)
	}
	if n, err := writeNow(near, p); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("a connection that we closed: %d bytes, %v", n, err)
	}
}

func TestWriteNowBroken(t *testing.T) {
	near, far := connected(t)
	far.(*net.TCPConn).SetLinger(0)
	far.Close()
	near.Read(make([]byte, 1)) // until the reset is here
	if n, err := writeNow(near, []byte("x")); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) {
		t.Errorf("a connection that the other end broke: %d bytes, %v", n, err)
	}
}
