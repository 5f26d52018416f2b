package torture

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"time"
)

// listenH2 serves HTTP/2, where a write is a stream: to leave, to break and to
// reset is said of the stream, and its connection goes on.
func (b *Backend) listenH2() {
	srv := http.Server{Handler: http.HandlerFunc(b.stream), Protocols: new(http.Protocols)}
	srv.Protocols.SetUnencryptedHTTP2(true)
	b.wg.Go(func() {
		<-b.done
		srv.Close()
	})
	srv.Serve(b.ln)
}

// enter counts a stream in, as long as there is no Close.
func (b *Backend) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.done:
		return false
	default:
		b.wg.Add(1)
		return true
	}
}

// stream is serve for one stream. It ends with a reset of the stream where it
// panics.
func (b *Backend) stream(w http.ResponseWriter, req *http.Request) {
	if !b.enter() {
		panic(http.ErrAbortHandler)
	}
	defer b.wg.Done()
	v, err := b.visit(nil, req)
	if err != nil {
		w.Header().Set("X-Why", err.Error())
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	v.w = w
	if !b.h.AddIf(v.of(Arrive), func(now time.Duration) bool { return !b.blind(now) }) {
		b.h.Add(Event{Kind: Fault, Name: "the test stood still, and breaks a write off"})
		panic(http.ErrAbortHandler)
	}
	m := b.mark(v.event.ID)
	m.once[0].Do(func() { close(m.arrived) })
	b.wg.Go(func() { // the proxy gives it up, or its process is killed; or it is over
		<-req.Context().Done()
		v.end(Lost, 0)
		close(v.gone)
	})
	if v.plan.Refuse {
		v.answer(false)
		return
	}
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		v.end(Lost, 0)
		if v.plan.Cut > 0 {
			b.wg.Go(func() {
				if b.sleep(v.plan.Cut) {
					v.apply()
				}
			})
		}
		panic(http.ErrAbortHandler)
	}
	v.whole()
	answered := v.act(m.release)
	b.wg.Go(v.late) // the end of the stream is not sent before this returns
	if !answered {
		panic(http.ErrAbortHandler)
	}
}

// answerH2 is answer for a stream, whose end follows when the handler returns.
func (v *visit) answerH2(broken bool) bool {
	p := v.plan
	flush := http.NewResponseController(v.w).Flush
	v.w.Header().Set("Content-Type", "text/plain")
	if p.Pieces <= 1 {
		v.w.Header().Set("Content-Length", strconv.Itoa(p.Size))
	}
	// It retires the connection that all share, and its GOAWAY promises that a later
	// stream is not processed: for some of those that ask for it.
	if p.KeepOff && v.event.ID%8 == 0 {
		v.w.Header().Set("Connection", "close")
	}
	v.w.WriteHeader(p.status())
	parts := split(p.Size, p.Pieces)
	for i, n := range parts {
		if i > 0 && !v.b.sleep(p.Pause) {
			return false
		}
		if i == len(parts)-1 { // the last byte comes behind the record of the end
			n = max(0, n-1)
		}
		if _, err := v.w.Write(bytes.Repeat([]byte{'a'}, n)); err != nil {
			return false
		}
		if (broken || i < len(parts)-1) && flush() != nil {
			return false
		}
	}
	if broken {
		v.reset()
		return false
	}
	if !v.end(Respond, uint16(p.status())) {
		return false
	}
	_, err := v.w.Write(bytes.Repeat([]byte{'a'}, min(1, parts[len(parts)-1])))
	return err == nil
}
