package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestBehindServer shows that the promises about Request.Body and Interrupt can
// be kept with net/http in front: a client that stalls in its upload still gets
// an answer, at once, and nothing is left behind.
func TestBehindServer(t *testing.T) {
	for name, row := range map[string]struct {
		script func(*wire)
		cut    bool
		status string
		want   Outcome
	}{
		"refused early": {func(w *wire) { w.head(); w.say(refusal); w.wait() }, false, "413", settled},
		"cut":           {func(w *wire) { w.head(); close(w.event); w.wait() }, true, "409", unsettled(ReasonCut)},
		"reset":         {func(w *wire) { w.head(); w.reset() }, false, "502", unsettled(ReasonReset)},
	} {
		t.Run(name, func(t *testing.T) {
			u, event, done := listen(t, row.script)
			outcome := make(chan Outcome, 1)
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				rc := http.NewResponseController(w)
				if err := rc.EnableFullDuplex(); err != nil {
					t.Error(err)
				}
				req := &Request{
					Method: r.Method, Target: r.RequestURI, Host: r.Host, Header: r.Header, RemoteAddr: r.RemoteAddr, Scheme: "http",
					Body: r.Body, Length: r.ContentLength, Follow: true, Timeout: time.Minute,
					Interrupt: func() {
						if err := rc.SetReadDeadline(time.Unix(1, 0)); err != nil {
							t.Error(err)
						}
					},
				}
				if row.cut {
					req.Cut = event
				}
				w.Header().Set("Connection", "close")
				a, err := u.Send(context.WithoutCancel(r.Context()), req)
				var e *Error
				switch {
				case errors.Is(err, ErrCut):
					w.WriteHeader(http.StatusConflict)
				case err != nil:
					w.WriteHeader(http.StatusBadGateway)
				default:
					w.WriteHeader(a.Status)
					io.Copy(w, a)
					a.Close()
					outcome <- a.Outcome()
				}
				if errors.As(err, &e) {
					outcome <- e.Outcome
				}
			}))
			c, err := net.Dial("tcp", front.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			io.WriteString(c, "PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nabc")
			c.SetReadDeadline(time.Now().Add(30 * time.Second))
			line, err := bufio.NewReader(c).ReadString('\n')
			if !strings.HasPrefix(line, "HTTP/1.1 "+row.status) {
				t.Errorf("the client got %q, %v; want %s", line, err, row.status)
			}
			if got := <-outcome; got != row.want {
				t.Errorf("outcome %v, want %v", got, row.want)
			}
			front.Close()
			done()
		})
	}
}
