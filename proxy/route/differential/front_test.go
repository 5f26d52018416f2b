package differential

import (
	"bufio"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// front is net/http's server, set up as the proxy's: it decides which bytes
// are a request at all, and how they are read.
type front struct {
	addr string
	seen chan *http.Request
}

func startFront(t *testing.T) *front {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &front{addr: ln.Addr().String(), seen: make(chan *http.Request, 1)}
	s := &http.Server{Handler: f, DisableGeneralOptionsHandler: true, ReadHeaderTimeout: patience, ErrorLog: log.New(io.Discard, "", 0)}
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Serve(ln) })
	t.Cleanup(func() { s.Close(); wg.Wait() })
	return f
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.seen <- r }

// read returns the request that the handler gets of some bytes, or nil where
// net/http refuses them by itself. One at a time.
func (f *front) read(t *testing.T, raw string) *http.Request {
	t.Helper()
	c, err := net.DialTimeout("tcp", f.addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, raw); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("net/http does not answer %q: %v", raw, err)
	}
	resp.Body.Close()
	select {
	case r := <-f.seen:
		return r
	default:
		return nil
	}
}
