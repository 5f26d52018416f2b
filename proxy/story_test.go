package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// I: the client's leaving changes nothing once its write is admitted: the
// newer write waits for it all the same.
func TestStoryI(t *testing.T) {
	r := newRig(t, nil)
	a := r.dial().put("1", "old")
	w1 := r.next()
	_ = a.Close()
	b := r.dial().put("2", "new")
	r.nothing("w1 is still in flight")
	if w1.r.Context().Err() != nil {
		t.Error("the write was cancelled at the API")
	}
	w1.answer()
	w2 := r.next()
	w2.answer()
	if res := b.receive(); res.StatusCode != 200 || res.Header.Get("Fencing-Result") != "admitted" || res.Header.Get("Fencing-Forwarded") != "yes" {
		t.Errorf("%s %v", res.Status, res.Header)
	}
}

// A write that still waits when its client leaves is never sent.
func TestClientLeavesWhileItWaits(t *testing.T) {
	for _, tt := range []struct{ name, write string }{
		{"no body", "PUT /accounts/42 HTTP/1.1\nHost: a\nX-Fencing-Token: 2\nContent-Length: 0\n\n"},
		{"small body", "PUT /accounts/42 HTTP/1.1\nHost: a\nX-Fencing-Token: 2\nContent-Length: 3\n\nabc"},
		{"unfinished upload", "PUT /accounts/42 HTTP/1.1\nHost: a\nX-Fencing-Token: 2\nContent-Length: 100000\n\n" + strings.Repeat("x", 50000)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.dial().put("1", "")
			w1 := r.next()
			b := r.dial().send(tt.write)
			r.eventually("w2 waits", func() bool { return r.gate.Counts().Waiting == 1 })
			_ = b.Close()
			r.eventually("w2 is forgotten", func() bool { return r.gate.Counts().Waiting == 0 })
			w1.answer()
			r.nothing("w2's client has left")
		})
	}
}

// L1: a raise cuts an older upload that is not wholly sent, and its client is
// told. The upstream may apply what it got, within the settle time.
func TestStoryL1(t *testing.T) {
	r := newRig(t, nil)
	got := make(chan struct{}, 10)
	r.api.serve = func(w http.ResponseWriter, req *http.Request) {
		got <- struct{}{}
		_, _ = io.Copy(io.Discard, req.Body)
	}
	a := r.dial().send("PUT /accounts/42 HTTP/1.1\nHost: a\nX-Fencing-Token: 1\nContent-Length: 100000\n\n" + strings.Repeat("x", 5000))
	<-got // it stalls in its upload
	start := time.Now()
	b := r.dial().put("2", "")
	res := a.receive()
	p := a.problem(res)
	if p.Name() != wire.StaleToken || p.Forwarded != wire.ForwardedUnknown || p.Highest != "2" ||
		res.Header.Get("Fencing-Result") != "rejected;reason=stale-token" || res.Header.Get("Fencing-Forwarded") != "unknown" {
		t.Errorf("%s: %s", res.Status, res.body)
	}
	if res := b.receive(); res.StatusCode != 200 {
		t.Errorf("w2: %s", res.Status)
	}
	if took := time.Since(start); took < testSettle {
		t.Errorf("w2 took %v, and w1 may be applied within the settle time %v", took, testSettle)
	}
}

// The upload goes on as long as nobody overtakes it, however slow.
func TestSlowUploadIsLeftAlone(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second // the API has it for its answer
	r := newRig(t, func(_ *Options, rules []Rule) { rules[0].ResponseTimeout = timeout })
	c := r.dial().send("PUT /accounts/42 HTTP/1.1\nHost: a\nX-Fencing-Token: 1\nContent-Length: 3000\n\n" + strings.Repeat("x", 2000))
	time.Sleep(timeout * 11 / 10)
	c.send(strings.Repeat("x", 1000))
	w := r.next()
	w.answer()
	if res := c.receive(); res.StatusCode != 200 || len(w.body) != 3000 {
		t.Errorf("%s, %d bytes", res.Status, len(w.body))
	}
}

// A slow client that has not sent its small body yet holds no key.
func TestSlowSmallBodyHoldsNoKey(t *testing.T) {
	r := newRig(t, nil)
	a := r.dial().send("PUT /accounts/42 HTTP/1.1\nHost: a\nX-Fencing-Token: 1\nContent-Length: 10\n\nabc")
	b := r.dial().put("2", "")
	r.next().answer()
	if res := b.receive(); res.StatusCode != 200 {
		t.Errorf("w2: %s", res.Status)
	}
	a.send("defghij")
	if p := a.problem(a.receive()); p.Name() != wire.StaleToken {
		t.Errorf("w1: %+v", p)
	}
	r.nothing("w1 is stale")
}

// L2: a raise detaches an older answer from a client that does not read it:
// the newer write waits for the upstream only. The slow reader then gets a
// broken answer, never a short one that looks whole.
func TestStoryL2(t *testing.T) {
	for _, framing := range []string{"length", "chunked"} {
		t.Run(framing, func(t *testing.T) {
			const size = 20 << 20 // more than the sockets' buffers take
			r := newRig(t, nil)
			r.api.serve = func(w http.ResponseWriter, req *http.Request) {
				if req.Header.Get("X-Fencing-Token") != "1" {
					return
				}
				if framing == "length" {
					w.Header().Set("Content-Length", strconv.Itoa(size))
				}
				for range size / 65536 {
					if _, err := w.Write(make([]byte, 65536)); err != nil {
						t.Error("the answer is not read to its end")
						return
					}
				}
			}
			a := r.dial().put("1", "")
			r.eventually("w1 is in flight", func() bool { return r.gate.Counts().InFlight == 1 })
			time.Sleep(100 * time.Millisecond) // its client does not read
			b := r.dial().put("2", "")
			if res := b.receive(); res.StatusCode != 200 { // within its patience
				t.Errorf("w2: %s", res.Status)
			}
			res := a.receive()
			if res.StatusCode != 200 || res.err == nil {
				t.Errorf("the slow reader got %d bytes, err %v: it must see a broken answer", len(res.body), res.err)
			}
		})
	}
}

// A client that reads as fast as it can keeps its answer after a raise.
func TestFastReaderKeepsItsAnswer(t *testing.T) {
	onQuickMachine(t, grace/2, func() error {
		return readFast(newRig(t, nil), func(r *rig) *http.Response {
			a := r.dial().put("1", "")
			res, err := http.ReadResponse(a.br, nil)
			if err != nil {
				t.Fatal(err)
			}
			return res
		})
	})
}

// readFast raises the key of a write while its answer, which write begins, is
// read as fast as it comes.
func readFast(r *rig, write func(r *rig) *http.Response) error {
	raised := make(chan struct{})
	r.api.serve = func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("X-Fencing-Token") != "1" {
			return
		}
		_, _ = w.Write(make([]byte, 1<<20))
		_ = http.NewResponseController(w).Flush()
		<-raised
		for range 60 { // for longer than the grace, and no faster than a busy machine reads
			_, _ = w.Write(make([]byte, 32<<10))
			_ = http.NewResponseController(w).Flush()
			time.Sleep(10 * time.Millisecond)
		}
	}
	res := write(r)
	defer res.Body.Close()
	read := make(chan error, 1)
	go func() {
		n, err := io.Copy(io.Discard, res.Body)
		if err == nil && n != 1<<20+60*32<<10 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			err = fmt.Errorf("after %d bytes: %w", n, err)
		}
		read <- err
	}()
	b := r.dial().put("2", "")
	r.eventually("w2 waits", func() bool { return r.gate.Counts().Waiting == 1 })
	close(raised)
	err := <-read
	b.receive()
	return err
}

// A token that is stale already is refused before its body is read.
func TestStaleUploadsNothing(t *testing.T) {
	for _, tt := range []struct{ name, head, body string }{
		{"expect", "Content-Length: 100000\nExpect: 100-continue\n", ""},
		{"three bytes of many", "Content-Length: 100000\n", "abc"},
		{"chunked", "Transfer-Encoding: chunked\n", "3\nabc\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.raised("account:42", 8)
			c := r.dial().send("PUT /accounts/42 HTTP/1.1\nHost: a\nX-Fencing-Token: 7\n" + tt.head + "\n" + tt.body)
			res := c.receive() // within its patience, while nothing more of the body comes
			if res.StatusCode != 409 || !res.Close {
				t.Errorf("%s, close %v", res.Status, res.Close)
			}
		})
	}
}

// The whole upload still gets its 409 across, though nobody wants its body.
func TestStaleUploadInFullGetsItsAnswer(t *testing.T) {
	r := newRig(t, nil)
	r.raised("account:42", 8)
	for range 20 {
		c := r.dial().put("7", strings.Repeat("x", 200_000))
		time.Sleep(10 * time.Millisecond) // and reads late
		if res := c.receive(); res.StatusCode != 409 {
			t.Fatal(res.Status)
		}
	}
}
