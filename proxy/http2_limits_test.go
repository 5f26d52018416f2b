package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// A head that does not come to its end is not waited for for ever.
func TestHTTP2SlowHead(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.serve(ServerOptions{HeaderTimeout: time.Second, IdleTimeout: time.Minute, MaxHeader: 64 << 10})
	c := r.dialHTTP2()
	c.sent(c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}}))
	_ = c.SetReadDeadline(time.Now().Add(soon))
	var err error
	for err == nil {
		_, err = c.fr.ReadFrame()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection stays open")
	}
}

// A stream whose body stalls before it is admitted ends alone.
func TestHTTP2SlowBodyEndsItsStreamAlone(t *testing.T) {
	r := newRig(t, func(o *Options, _ []Rule) { o.BodyTimeout = 200 * time.Millisecond })
	c := r.dialHTTP2()
	id := c.put("1", "abc")
	if s := c.over(id); s.status != "" || s.reset == "" || c.goaway {
		t.Errorf("%+v, GOAWAY %v", s, c.goaway)
	}
	c.alive()
	r.nothing("its body did not come")
}

// An early answer ends its upload, and no other stream.
func TestHTTP2EarlyAnswer(t *testing.T) {
	r := newRig(t, nil)
	r.api.serve = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) }
	c := r.dialHTTP2()
	for range 3 {
		id := c.put("1", strings.Repeat("x", 20000))
		if s := c.over(id); s.status != "413" || !s.ended {
			t.Errorf("%+v", s)
		}
		if code := c.reset(id); code != "NO_ERROR" || c.goaway {
			t.Errorf("reset with %s, GOAWAY %v", code, c.goaway)
		}
		c.alive()
	}
}

// A client that still uploads has a moment to end it before it is reset: not every client keeps an answer over a reset.
func TestHTTP2RefusedUploadMayEnd(t *testing.T) {
	for _, by := range []string{"the proxy", "the upstream"} {
		t.Run(by, func(t *testing.T) {
			r := newRig(t, nil)
			token, status := "8", "413"
			if by == "the proxy" {
				r.raised("account:42", 9)
				status = "409"
			}
			r.api.serve = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) }
			for range 10 {
				c := r.dialHTTP2()
				start := time.Now()
				id := c.put(token, strings.Repeat("x", 20000))
				for c.stream[id].status == "" {
					c.frame()
				}
				time.Sleep(50 * time.Millisecond)
				c.data(id, "the rest", true)
				c.alive()
				late := time.Since(start) > lingerTime // it took its moment itself: another may be quicker
				code := c.stream[id].reset
				if code != "" && !late {
					t.Errorf("reset with %s", code)
				}
				if s := c.over(id); s.status != status || !s.ended && !late {
					t.Errorf("%+v", s)
				}
				if code == "" {
					return
				}
			}
			t.Error("reset each time, if ever so late")
		})
	}
}

// At a stop the streams in flight get their answers, and no new one begins.
func TestHTTP2Stop(t *testing.T) {
	r := newRig(t, nil)
	srv := r.serve(ServerOptions{HeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeader: 64 << 10})
	c := r.dialHTTP2()
	id := c.open(true, "x-fencing-token", "1")
	at := r.next()
	down := make(chan error, 1)
	go func() { down <- srv.Shutdown(t.Context()) }()
	for !c.goaway {
		c.frame()
	}
	c.open(true, "x-fencing-token", "1")
	r.nothing("the proxy stops")
	at.answer()
	if s := c.over(id); s.status != "200" || s.body != "done\n" {
		t.Errorf("%+v", s)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
}

// One head is no larger on HTTP/2 than on HTTP/1.
func TestHTTP2LargeHead(t *testing.T) {
	r := newRig(t, nil)
	c := r.dialHTTP2()
	var fields []string
	for range 9 {
		fields = append(fields, "x-fill", strings.Repeat("x", 8<<10))
	}
	id := c.open(true, fields...)
	if s := c.over(id); s.status != "431" {
		t.Errorf("%+v", s)
	}
	r.nothing("its head is too large")
}

// A connection that takes nothing at all holds its answers for a time only.
func TestHTTP2StuckConnection(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.serve(ServerOptions{HeaderTimeout: time.Second, IdleTimeout: time.Minute, MaxHeader: 64 << 10})
	gaveUp := make(chan struct{})
	r.api.serve = func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 65536)); err != nil {
				close(gaveUp)
				return
			}
		}
	}
	c := r.dialHTTP2(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
	c.sent(c.fr.WriteWindowUpdate(0, 1<<30))
	c.open(true, ":method", "GET", ":path", "/x")
	select {
	case <-gaveUp:
	case <-time.After(soon):
		t.Error("the answer is still held")
	}
}

// A stream whose client gives its answer no window holds the upstream for a time
// only, and ends alone; one that takes a little now and then goes on.
func TestHTTP2AnswerWithoutWindow(t *testing.T) {
	t.Parallel()
	const patience = 2 * time.Second
	onQuickMachine(t, patience/2, func() error {
		r := newRig(t, func(o *Options, _ []Rule) { o.ReadTimeout = patience })
		gaveUp := make(chan struct{})
		r.api.serve = func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/slow" {
				_, _ = w.Write(make([]byte, 200<<10))
				return
			}
			for {
				if _, err := w.Write(make([]byte, 65536)); err != nil {
					close(gaveUp)
					return
				}
			}
		}
		c := r.dialHTTP2(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		slow := c.open(true, ":method", "GET", ":path", "/slow")
		id := c.open(true, ":method", "GET", ":path", "/x")
		over := make(chan struct{})
		go func() {
			defer close(over)
			for range 20 { // 200 kB in all, and a second longer than is waited for nothing
				time.Sleep(150 * time.Millisecond)
				c.sent(c.fr.WriteWindowUpdate(0, 10240))
				c.sent(c.fr.WriteWindowUpdate(slow, 10240))
			}
		}()
		if s := c.over(id); s.status != "200" || s.reset == "" || c.goaway {
			t.Errorf("%+v, GOAWAY %v", s, c.goaway)
		}
		select {
		case <-gaveUp:
		case <-time.After(soon):
			t.Error("the answer is still held")
		}
		<-over
		if s := c.over(slow); s.status != "200" || s.reset != "" || len(s.body) != 200<<10 {
			return fmt.Errorf("the slow one: %s %s, %d bytes", s.status, s.reset, len(s.body))
		}
		return nil
	})
}

// The same of an answer so short that net/http sends it behind the handler's end,
// be it of the upstream's or a refusal of ours.
func TestHTTP2ShortAnswerWithoutWindow(t *testing.T) {
	r := newRig(t, func(o *Options, _ []Rule) { o.ReadTimeout = time.Second })
	r.api.serve = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("short")) }
	c := r.dialHTTP2(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	for _, id := range []uint32{c.open(true, ":method", "GET", ":path", "/x"), c.open(true, ":method", "PUT", ":path", "/accounts/1")} {
		if s := c.over(id); s.status == "" || s.reset == "" || c.goaway {
			t.Errorf("%+v, GOAWAY %v", s, c.goaway)
		}
	}
}
