package proxy

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// I over HTTP/2: the reset of an admitted write's stream changes nothing.
func TestHTTP2StoryI(t *testing.T) {
	r := newRig(t, nil)
	c := r.dialHTTP2()
	w1 := c.open(true, "x-fencing-token", "1")
	at := r.next()
	c.sent(c.fr.WriteRSTStream(w1, http2.ErrCodeCancel))
	w2 := c.open(true, "x-fencing-token", "2")
	r.nothing("w1 is still in flight")
	if at.r.Context().Err() != nil {
		t.Error("the write was cancelled at the API")
	}
	at.answer()
	r.next().answer()
	if s := c.over(w2); s.status != "200" || s.header.Get("Fencing-Result") != "admitted" {
		t.Errorf("%+v", s)
	}
}

// A write that still waits when its stream is reset, or its connection is
// closed, is never sent.
func TestHTTP2ClientLeavesWhileItWaits(t *testing.T) {
	for _, body := range []string{"", "abc", strings.Repeat("x", 50000)} {
		for _, leave := range []string{"reset", "close"} {
			t.Run(leave, func(t *testing.T) {
				r := newRig(t, nil)
				r.dial().put("1", "")
				w1 := r.next()
				c := r.dialHTTP2()
				w2 := c.open(body == "", "x-fencing-token", "2")
				if body != "" {
					c.data(w2, body, len(body) == 3)
				}
				r.eventually("w2 waits", func() bool { return r.gate.Counts().Waiting == 1 })
				if leave == "reset" {
					c.sent(c.fr.WriteRSTStream(w2, http2.ErrCodeCancel))
				} else {
					_ = c.Close()
				}
				r.eventually("w2 is forgotten", func() bool { return r.gate.Counts().Waiting == 0 })
				w1.answer()
				r.nothing("w2's client has left")
			})
		}
	}
}

// L1 over HTTP/2: a raise cuts a stalled upload and its client is told, on a
// connection that stays good for its other streams.
func TestHTTP2StoryL1(t *testing.T) {
	r := newRig(t, nil)
	got := make(chan struct{}, 10)
	r.api.serve = func(w http.ResponseWriter, req *http.Request) {
		got <- struct{}{}
		_, _ = io.Copy(io.Discard, req.Body)
	}
	c := r.dialHTTP2()
	w1 := c.put("1", strings.Repeat("x", 5000))
	<-got // it stalls in its upload
	start := time.Now()
	w2 := c.open(true, "x-fencing-token", "2")
	s := c.over(w1)
	if s.status != "409" || s.header.Get("Fencing-Result") != "rejected;reason=stale-token" || s.header.Get("Fencing-Forwarded") != "unknown" {
		t.Errorf("w1: %+v", s)
	}
	if s := c.over(w2); s.status != "200" {
		t.Errorf("w2: %+v", s)
	}
	if took := time.Since(start); took < testSettle {
		t.Errorf("w2 took %v, and w1 may be applied within the settle time %v", took, testSettle)
	}
	if code := c.reset(w1); code != "NO_ERROR" || c.goaway {
		t.Errorf("w1 is reset with %s, GOAWAY %v", code, c.goaway)
	}
	c.alive()
}

// L2 over HTTP/2: a raise detaches an older answer from a client that gives
// its stream no window, and from one that does not even read its connection.
func TestHTTP2StoryL2(t *testing.T) {
	for _, slow := range []string{"window", "connection"} {
		t.Run(slow, func(t *testing.T) {
			const size = 64 << 20
			r := newRig(t, nil)
			r.api.serve = func(w http.ResponseWriter, req *http.Request) {
				if req.Header.Get("X-Fencing-Token") != "1" {
					return
				}
				for range size / 65536 {
					if _, err := w.Write(make([]byte, 65536)); err != nil {
						t.Error("the answer is not read to its end")
						return
					}
				}
			}
			var settings []http2.Setting
			if slow == "connection" {
				settings = append(settings, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
			}
			c := r.dialHTTP2(settings...)
			if slow == "connection" {
				c.sent(c.fr.WriteWindowUpdate(0, 1<<30))
			}
			w1 := c.open(true, "x-fencing-token", "1")
			r.eventually("w1 is in flight", func() bool { return r.gate.Counts().InFlight == 1 })
			time.Sleep(100 * time.Millisecond) // its client does not read
			b := r.dial().put("2", "")
			if res := b.receive(); res.StatusCode != 200 { // within its patience
				t.Errorf("w2: %s", res.Status)
			}
			if s := c.over(w1); s.status != "200" || s.ended || s.reset == "" || len(s.body) >= size {
				t.Errorf("the slow reader got %d bytes, ended %v, reset %q: it must see a broken answer", len(s.body), s.ended, s.reset)
			}
			c.alive()
		})
	}
}

// A client that reads as fast as it can keeps its answer after a raise.
func TestHTTP2FastReaderKeepsItsAnswer(t *testing.T) {
	onQuickMachine(t, grace/2, func() error {
		return readFast(newRig(t, nil), func(r *rig) *http.Response {
			res, err := r.clientHTTP2().Do(r.request("PUT", "/accounts/42", "1", nil))
			if err != nil {
				t.Fatal(err)
			}
			return res
		})
	})
}

// A stale upload that stalls has its 409 at once; its stream alone ends.
func TestHTTP2StaleUploadsNothing(t *testing.T) {
	r := newRig(t, nil)
	r.raised("account:42", 8)
	c := r.dialHTTP2()
	other := c.open(true, "x-fencing-token", "8", ":path", "/accounts/1")
	at := r.next()
	for _, tt := range []struct{ name, value, body string }{
		{"content-length", "100000", "abc"},
		{"expect", "100-continue", ""},
		{"x-none", "", "abc"},
	} {
		id := c.open(false, "x-fencing-token", "7", tt.name, tt.value)
		if tt.body != "" {
			c.data(id, tt.body, false)
		}
		if s := c.over(id); s.status != "409" || !s.ended || len(s.informed) > 0 {
			t.Errorf("%s: %+v", tt.name, s)
		}
		if code := c.reset(id); code != "NO_ERROR" {
			t.Errorf("%s: reset with %s", tt.name, code)
		}
	}
	at.answer()
	if s := c.over(other); s.status != "200" || c.goaway {
		t.Errorf("the other stream: %+v, GOAWAY %v", s, c.goaway)
	}
}

// Uploads that wait in the gate, each with all that its window takes, leave
// room for the other streams of their connection; so does a slow reader.
func TestHTTP2StreamsDoNotBlockEachOther(t *testing.T) {
	const keys, each = 6, 3
	r := newRig(t, nil)
	c := r.dialHTTP2()
	var older []*arrival
	var waiting []uint32
	for i := range keys {
		path := "/accounts/" + strconv.Itoa(i)
		c.open(true, "x-fencing-token", "1", ":path", path)
		older = append(older, r.next())
		for range each {
			id := c.open(false, "x-fencing-token", "2", ":path", path)
			c.data(id, strings.Repeat("x", int(c.window)), false)
			waiting = append(waiting, id)
		}
	}
	r.eventually("they wait", func() bool { return r.gate.Counts().Waiting == keys*each })
	id := c.open(false, "x-fencing-token", "1")
	c.data(id, strings.Repeat("y", int(c.window)), true)
	at := r.next()
	if at.r.RequestURI != "/accounts/42" || len(at.body) != int(c.window) {
		t.Errorf("%s with %d bytes", at.r.RequestURI, len(at.body))
	}
	at.answer()
	if s := c.over(id); s.status != "200" {
		t.Errorf("%+v", s)
	}
	for _, id := range waiting {
		c.data(id, "", true)
	}
	for _, at := range older {
		at.answer()
	}
	for range waiting {
		r.next().answer()
	}
	for _, id := range waiting {
		if s := c.over(id); s.status != "200" {
			t.Errorf("a waiter: %+v", s)
		}
	}
}
