package torture

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// visit is one write at the backend.
type visit struct {
	b     *Backend
	c     net.Conn            // nil over HTTP/2, where
	w     http.ResponseWriter // is its stream
	plan  Plan
	event Event         // its ID, key and token
	gone  chan struct{} // closed when the proxy has left

	mu       sync.Mutex // guards what follows
	ended    bool       // the first of Respond, Drop and Lost is recorded
	deadline time.Duration
}

// serve reads one request after the other and does what each one's plan says.
func (b *Backend) serve(c net.Conn) {
	br := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		v, err := b.visit(c, req)
		if err != nil {
			fmt.Fprintf(c, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nX-Why: %q\r\nConnection: close\r\n\r\n", err)
			return
		}
		if !b.h.AddIf(v.of(Arrive), func(now time.Duration) bool { return !b.blind(now) }) {
			b.h.Add(Event{Kind: Fault, Name: "the test stood still, and breaks a write off"})
			breakOff(c)
			return
		}
		m := b.mark(v.event.ID)
		m.once[0].Do(func() { close(m.arrived) })
		if v.plan.Refuse {
			v.answer(false)
			v.end(Lost, 0) // where the proxy has left before it had all of the answer
			return
		}
		if strings.EqualFold(req.Header.Get("Expect"), "100-continue") {
			io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			v.end(Lost, 0)
			if v.plan.Cut > 0 && b.sleep(v.plan.Cut) {
				v.apply()
			}
			return
		}
		if !v.run(br, m.release) {
			return
		}
	}
}

func (b *Backend) visit(c net.Conn, req *http.Request) (*visit, error) {
	id, err := strconv.ParseUint(req.Header.Get(IDHeader), 10, 32)
	if err != nil {
		return nil, fmt.Errorf("header %s: %w", IDHeader, err)
	}
	text := req.Header.Get(tokenHeader)
	token, err := strconv.ParseUint(text, 10, 64)
	if err != nil && text != "" {
		return nil, fmt.Errorf("header %s: %w", tokenHeader, err)
	}
	plan, err := decodePlan(req.Header.Get(PlanHeader))
	if err != nil {
		return nil, err
	}
	key := req.URL.Path[strings.LastIndexByte(req.URL.Path, '/')+1:]
	return &visit{b: b, c: c, plan: plan, event: Event{ID: uint32(id), Key: key, Token: token, Bare: text == ""}, gone: make(chan struct{}), deadline: 1 << 62}, nil
}

// run carries the plan out, with the whole request here. It reports whether
// the connection can take another request.
func (v *visit) run(br *bufio.Reader, release <-chan struct{}) bool {
	v.whole()
	// A proxy that leaves, or whose process is killed, is noticed here, while
	// the plan waits or writes.
	peeked := make(chan error, 1)
	v.b.wg.Go(func() {
		_, err := br.Peek(1)
		if err != nil {
			v.end(Lost, 0)
			close(v.gone)
		}
		peeked <- err
	})
	again := v.act(release)
	v.late()
	return again && <-peeked == nil
}

// act reports whether the write was answered in full, and the connection can
// take another request. Over HTTP/2 a stream that was not answered is still to
// be reset.
func (v *visit) act(release <-chan struct{}) bool {
	if v.plan.Hold {
		select {
		case <-release:
		case <-v.gone:
		case <-v.b.done:
			return false
		}
	}
	if !v.b.sleep(v.plan.Delay) {
		return false
	}
	if v.plan.Late == 0 && !v.plan.Skip && !v.apply() && v.plan.Status < 300 {
		v.reset() // it came to this so late that it may not be done any more: no word of success
		return false
	}
	again := false
	switch v.plan.End {
	case Reply:
		again = v.answer(false)
	case Break:
		v.answer(true)
	case Reset:
		v.reset()
	case Hang, HalfClose:
		if tcp, ok := v.c.(*net.TCPConn); ok && v.plan.End == HalfClose {
			v.end(Drop, 0)
			tcp.CloseWrite()
		}
		select {
		case <-v.gone:
		case <-v.b.done:
		}
	}
	return again
}

// late applies what is to take effect behind the write's end.
func (v *visit) late() {
	if v.plan.Late > 0 && !v.plan.Skip && v.b.sleep(v.plan.Late) {
		v.apply()
	}
}

// whole is called when all of the request is here: it may not stay for ever.
func (v *visit) whole() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.ended {
		v.deadline = v.b.h.Now() + v.b.opts.Patience
	}
}

// apply makes the write take effect, unless it is too late for that. The
// question and the effect are one step of the history, so being scheduled late
// between them cannot break A1.
func (v *visit) apply() bool {
	return v.b.h.AddIf(v.of(Apply), func(now time.Duration) bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return now <= v.deadline
	})
}

// end records how the write ended, the first time; from then on it may be
// applied for as long as the backend's settle. Without an answer in full, that
// counts from when the proxy may have left at the earliest.
func (v *visit) end(kind Kind, status uint16) bool {
	e := v.of(kind)
	e.Status = status
	if kind != Respond { // whatever the backend does, the proxy may have left before
		e.Since = v.b.pulse.since(v.b.h.Now())
	}
	return v.b.h.AddIf(e, func(now time.Duration) bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.ended {
			return false
		}
		v.ended = true
		if kind != Respond {
			now = e.Since
		}
		v.deadline = min(v.deadline, now+v.b.opts.Settle)
		return true
	})
}

func (v *visit) of(kind Kind) Event {
	e := v.event
	e.Kind = kind
	return e
}

// reset breaks the connection so that the other side sees an error, not an
// end.
func (v *visit) reset() {
	v.end(Drop, 0)
	if v.c != nil { // a stream is reset by who serves it
		breakOff(v.c)
	}
}
