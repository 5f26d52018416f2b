package upstream

import (
	"bytes"
	"context"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// listenNarrow is listenH2 where the upstream's kernel takes no more than a few
// thousand bytes that its program has not read.
func listenNarrow(t *testing.T, scripts ...func(*h2wire)) (u *Upstream, done func()) {
	t.Helper()
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		cerr := c.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
		})
		if cerr != nil {
			err = cerr
		}
		return err
	}}
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, end := playH2(t, l, nil, scripts...)
	u = patient(newH2(t, l.Addr().String()))
	return u, func() { t.Helper(); u.Close(); end() }
}

// comesToo reports whether a request comes to its end.
func (w *h2wire) comesToo(id uint32) bool {
	for {
		f, err := w.fr.ReadFrame()
		if err != nil {
			return false
		}
		if d, ok := f.(*http2.DataFrame); ok && d.StreamID == id && d.StreamEnded() {
			return true
		}
	}
}

// givesUp waits until u has ended its connection by itself.
func givesUp(t *testing.T, u *Upstream) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(h2LostWrite / 10) {
		u.h2.mu.Lock()
		n := len(u.h2.conns)
		u.h2.mu.Unlock()
		switch {
		case n == 0:
			return
		case time.Now().After(end):
			t.Error("the connection goes on")
			return
		}
	}
}

// A write that the kernel has taken as a whole, and the upstream has not, when it
// is given up. The connection may live on for others.
func TestH2GivenUpNeverLeaves(t *testing.T) {
	for name, others := range map[string]bool{"alone": false, "beside another": true} {
		t.Run(name, func(t *testing.T) {
			lost, came := make(chan struct{}), make(chan bool, 1)
			u, done := listenNarrow(t, func(w *h2wire) {
				if others {
					w.say(w.request(), "200", false) // an answer that goes on
				}
				id := w.head().id
				<-lost
				came <- w.comesToo(id)
			})
			if others {
				a, err := u.Send(context.Background(), put())
				if err != nil {
					t.Fatal(err)
				}
				defer a.Close()
			}
			r := put()
			r.Body, r.Length = bytes.NewReader(make([]byte, 60<<10)), 60<<10
			r.Timeout = time.Second
			if res := exchangeOnce(t, context.Background(), u, r); res.outcome != unsettled(ReasonTimeout) {
				t.Fatalf("%v (%v)", res.outcome, res.err)
			}
			givesUp(t, u)
			close(lost)
			if <-came {
				t.Error("all of the write came to the upstream after it was given up")
			}
			done()
		})
	}
}

// The same of one whose answer came before, and does not prove that it is over, be
// it followed or only counted for its settle time.
func TestH2UnprovenNeverLeaves(t *testing.T) {
	for name, follow := range map[string]bool{"followed": true, "counted": false} {
		t.Run(name, func(t *testing.T) { unprovenNeverLeaves(t, follow) })
	}
}

func unprovenNeverLeaves(t *testing.T, follow bool) {
	lost, came := make(chan struct{}), make(chan bool, 1)
	u, done := listenNarrow(t, func(w *h2wire) {
		id := w.head().id
		w.say(id, "202", true)
		<-lost
		came <- w.comesToo(id)
	})
	r := put()
	r.Follow, r.Settles = follow, !follow
	r.Body, r.Length = bytes.NewReader(make([]byte, 60<<10)), 60<<10
	if res := exchangeOnce(t, context.Background(), u, r); res.outcome != unsettled(ReasonStatus(202)) {
		t.Fatalf("%v (%v)", res.outcome, res.err)
	}
	givesUp(t, u)
	close(lost)
	if <-came {
		t.Error("all of the write came to the upstream when its settle time may be over")
	}
	done()
}

// The same of a call that the upstream has ended while its client was still
// sending: what it had not read of that by then does not come to it later.
func TestH2EndedEarlyNeverLeaves(t *testing.T) {
	const size = 60 << 10
	lost, came := make(chan struct{}), make(chan bool, 1)
	u, done := listenNarrow(t, func(w *h2wire) {
		id := w.head().id
		w.say(id, "200", true, "grpc-status", "0")
		<-lost
		n := 0
		for n < size {
			f, err := w.fr.ReadFrame()
			if err != nil {
				break
			}
			if d, ok := f.(*http2.DataFrame); ok {
				n += len(d.Data())
			}
		}
		came <- n == size
	})
	r := put()
	r.Header.Set("Content-Type", "application/grpc")
	more, goOn := io.Pipe()
	r.Body, r.Length = io.MultiReader(bytes.NewReader(make([]byte, size)), more), -1
	r.Interrupt = func() { goOn.Close() }
	if res := exchangeOnce(t, context.Background(), u, r); res.outcome != unsettled(ReasonEarlyEnd) {
		t.Fatalf("%v (%v)", res.outcome, res.err)
	}
	givesUp(t, u)
	close(lost)
	if <-came {
		t.Error("all of the call came to the upstream when its settle time may be over")
	}
	done()
}
