package proxy

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/upstream"
)

// slowDeadline is an answer whose deadline takes its time to be set.
type slowDeadline struct {
	http.ResponseWriter
	set chan struct{}
}

func (s slowDeadline) SetWriteDeadline(time.Time) error { <-s.set; return nil }

// A deadline that is being set on another goroutine is waited for: behind the
// handler's end net/http has taken the stream away, and setting it is a panic
// that nobody catches.
func TestNoDeadlineOutlivesTheHandler(t *testing.T) {
	for name, begin := range map[string]func(x *exchange) (stop func()){
		"no window": func(x *exchange) func() {
			c := x.newClient()
			return c.patiently()
		},
		"a reload": func(x *exchange) func() {
			x.cutAnswer(func() {})
			x.book.hurry()
			return func() { x.leaveBook(false) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := slowDeadline{httptest.NewRecorder(), make(chan struct{})}
				x := &exchange{h: &Handler{ReadTimeout: time.Second}, w: w, r: &http.Request{ProtoMajor: 2}, book: newBook(Rulebook{})}
				stop := begin(x)
				time.Sleep(2 * time.Second)
				ended, end := context.WithCancel(t.Context())
				go func() {
					defer end()
					stop()
				}()
				synctest.Wait()
				if ended.Err() != nil {
					t.Error("it was not waited for")
				}
				close(w.set)
				<-ended.Done()
			})
		})
	}
}

// A 1xx that its client did not take, and that was left behind in the middle, may
// still read the header: a map that is written to meanwhile ends the process.
func TestHeaderOfALeftHintIsLeftAlone(t *testing.T) {
	w := httptest.NewRecorder()
	x := &exchange{h: &Handler{}, w: w, r: &http.Request{ProtoMajor: 2}, fenced: true, book: newBook(Rulebook{})}
	x.client = x.newClient()
	x.client.leaveBehind(make(chan error))
	defer func() {
		if p := recover(); p != http.ErrAbortHandler {
			t.Errorf("it ended with %v, want a broken answer", p)
		}
		if len(w.Header()) > 0 {
			t.Errorf("the header was written to: %v", w.Header())
		}
	}()
	x.undelivered(&upstream.Error{Outcome: upstream.Outcome{Fate: upstream.Unsettled, Reason: upstream.ReasonReset}, Err: net.ErrClosed})
}
