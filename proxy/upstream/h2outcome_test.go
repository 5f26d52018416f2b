package upstream

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// TestH2Outcome is the table of rule 10 over HTTP/2. Every row plays on a real
// socket.
func TestH2Outcome(t *testing.T) {
	after := func(end func(*h2wire, uint32)) func(*h2wire) {
		return func(w *h2wire) { end(w, w.request()) }
	}
	within := func(end func(*h2wire, uint32)) func(*h2wire) {
		return func(w *h2wire) { end(w, w.head().id) }
	}
	get := func(r *Request) { r.Method, r.Body, r.Length = "GET", nil, 0 }
	head := func(r *Request) { get(r); r.Method = "HEAD" }
	grpc := func(r *Request) {
		stalled(r)
		r.Method, r.Length = "POST", -1
		r.Header.Set("Content-Type", "application/grpc")
	}

	rows := []struct {
		name   string
		req    func(*Request)
		script func(*h2wire)
		want   Outcome
		status int // 0: Send fails
		body   string
		err    error // matched with errors.Is; nil: a whole answer
	}{
		// Answered in full.
		{"a length and END_STREAM", nil, after((*h2wire).ok), settled, 200, "ok", nil},
		{"no length", nil, after(func(w *h2wire, id uint32) { w.say(id, "200", false); w.data(id, "o", false); w.data(id, "k", true) }), settled, 200, "ok", nil},
		{"an empty last frame", nil, after(func(w *h2wire, id uint32) { w.say(id, "200", false); w.data(id, "ok", false); w.data(id, "", true) }), settled, 200, "ok", nil},
		{"head only", nil, after(func(w *h2wire, id uint32) { w.say(id, "204", true) }), settled, 204, "", nil},
		{"trailers", nil, after(func(w *h2wire, id uint32) {
			w.say(id, "200", false)
			w.data(id, "ok", false)
			w.say(id, "", true, "x-sum", "1")
		}), settled, 200, "ok", nil},
		{"trailers only", nil, after(func(w *h2wire, id uint32) { w.say(id, "200", false); w.say(id, "", true, "x-sum", "1") }), settled, 200, "", nil},
		{"padding", nil, after(func(w *h2wire, id uint32) {
			w.say(id, "200", false)
			w.fr.WriteDataPadded(id, true, []byte("ok"), make([]byte, 200))
		}), settled, 200, "ok", nil},
		{"HEAD with a length", head, after(func(w *h2wire, id uint32) { w.say(id, "200", true, "content-length", "9") }), settled, 200, "", nil},
		{"304 with a length", get, after(func(w *h2wire, id uint32) { w.say(id, "304", true, "content-length", "9") }), settled, 304, "", nil},
		{"103, then 200", nil, after(func(w *h2wire, id uint32) { w.say(id, "103", false, "link", "</a>"); w.ok(id) }), settled, 200, "ok", nil},
		{"a reset after the end", nil, after(func(w *h2wire, id uint32) { w.ok(id); w.rst(id, http2.ErrCodeInternal) }), settled, 200, "ok", nil},
		{"the connection ends after it", nil, after(func(w *h2wire, id uint32) { w.ok(id); w.Close() }), settled, 200, "ok", nil},
		{"GOAWAY above the stream, then the answer", nil, after(func(w *h2wire, id uint32) { w.fr.WriteGoAway(id, http2.ErrCodeNo, nil); w.ok(id) }), settled, 200, "ok", nil},
		{"refused with 500", nil, after(func(w *h2wire, id uint32) { w.say(id, "500", true) }), settled, 500, "", nil},
		// Answered in full, but the status proves nothing.
		{"202", nil, after(func(w *h2wire, id uint32) { w.say(id, "202", true) }), unsettled("status-202"), 202, "", nil},
		{"early 502", large, within(func(w *h2wire, id uint32) { w.say(id, "502", true) }), unsettled("status-502"), 502, "", nil},
		// The upstream promises that it did nothing.
		{"REFUSED_STREAM", nil, after(func(w *h2wire, id uint32) { w.rst(id, http2.ErrCodeRefusedStream) }), notSent(ReasonUnprocessed), 0, "", nil},
		{"REFUSED_STREAM within the upload", large, within(func(w *h2wire, id uint32) { w.rst(id, http2.ErrCodeRefusedStream) }), notSent(ReasonUnprocessed), 0, "", nil},
		{"GOAWAY below the stream", nil, after(func(w *h2wire, id uint32) { w.fr.WriteGoAway(0, http2.ErrCodeNo, nil); w.wait() }), notSent(ReasonUnprocessed), 0, "", nil},
		{"GOAWAY below the stream, for an error", nil, after(func(w *h2wire, id uint32) { w.fr.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, nil) }), notSent(ReasonUnprocessed), 0, "", nil},
		// Promises that were broken before they were given.
		{"REFUSED_STREAM after a head", nil, after(func(w *h2wire, id uint32) { w.say(id, "200", false); w.rst(id, http2.ErrCodeRefusedStream) }), unsettled(ReasonReset), 200, "", errAny},
		{"REFUSED_STREAM after a 103", nil, after(func(w *h2wire, id uint32) { w.say(id, "103", false); w.rst(id, http2.ErrCodeRefusedStream) }), unsettled(ReasonReset), 0, "", nil},
		{"GOAWAY below the stream after a head", nil, after(func(w *h2wire, id uint32) {
			w.say(id, "200", false)
			w.fr.WriteGoAway(0, http2.ErrCodeNo, nil)
			w.wait()
		}), unsettled(ReasonReset), 200, "", errAny},
		// Broken off.
		{"CANCEL before the head", nil, after(func(w *h2wire, id uint32) { w.rst(id, http2.ErrCodeCancel) }), unsettled(ReasonReset), 0, "", nil},
		{"INTERNAL_ERROR before the head", nil, after(func(w *h2wire, id uint32) { w.rst(id, http2.ErrCodeInternal) }), unsettled(ReasonReset), 0, "", nil},
		{"NO_ERROR before the head", nil, after(func(w *h2wire, id uint32) { w.rst(id, http2.ErrCodeNo) }), unsettled(ReasonReset), 0, "", nil},
		{"INTERNAL_ERROR within the body", nil, after(func(w *h2wire, id uint32) {
			w.say(id, "200", false)
			w.data(id, "o", false)
			w.rst(id, http2.ErrCodeInternal)
		}), unsettled(ReasonReset), 200, "o", errAny},
		{"103, then INTERNAL_ERROR", nil, after(func(w *h2wire, id uint32) { w.say(id, "103", false); w.rst(id, http2.ErrCodeInternal) }), unsettled(ReasonReset), 0, "", nil},
		{"closed before the head", nil, after(func(w *h2wire, id uint32) { w.Close() }), unsettled(ReasonClosed), 0, "", nil},
		{"reset before the head", nil, after(func(w *h2wire, id uint32) { w.reset() }), unsettled(ReasonReset), 0, "", nil},
		{"closed within the body", nil, after(func(w *h2wire, id uint32) { w.say(id, "200", false); w.data(id, "o", false); w.Close() }), unsettled(ReasonTruncated), 200, "o", io.ErrUnexpectedEOF},
		{"closed within a frame", nil, after(func(w *h2wire, id uint32) { w.say(id, "200", false); w.Write([]byte{0, 0, 9, 0}); w.Close() }), unsettled(ReasonTruncated), 200, "", io.ErrUnexpectedEOF},
		{"GOAWAY above the stream, then closed", nil, after(func(w *h2wire, id uint32) { w.fr.WriteGoAway(id, http2.ErrCodeNo, nil); w.Close() }), unsettled(ReasonClosed), 0, "", nil},
		// Not to be trusted.
		{"too few bytes", nil, after(func(w *h2wire, id uint32) { w.say(id, "200", false, "content-length", "3"); w.data(id, "ok", true) }), unsettled(ReasonTruncated), 200, "ok", io.ErrUnexpectedEOF},
		{"no bytes where some were said", nil, after(func(w *h2wire, id uint32) { w.say(id, "200", true, "content-length", "3") }), unsettled(ReasonTruncated), 200, "", io.ErrUnexpectedEOF},
		{"too many bytes", nil, after(func(w *h2wire, id uint32) { w.say(id, "200", false, "content-length", "1"); w.data(id, "ok", true) }), unsettled(ReasonBadAnswer), 200, "", errAny},
		{"two lengths", nil, after(func(w *h2wire, id uint32) { w.say(id, "200", true, "content-length", "1", "content-length", "2") }), unsettled(ReasonBadAnswer), 0, "", nil},
		{"two lengths after HEAD", head, after(func(w *h2wire, id uint32) { w.say(id, "200", true, "content-length", "1", "content-length", "2") }), unsettled(ReasonBadAnswer), 0, "", nil},
		{"a body after HEAD", head, after(func(w *h2wire, id uint32) { w.say(id, "200", false); w.data(id, "ok", true) }), unsettled(ReasonBadAnswer), 200, "", errAny},
		{"too large a head", nil, after(func(w *h2wire, id uint32) { w.say(id, "200", true, "x", strings.Repeat("x", 9<<10)) }), unsettled(ReasonBadAnswer), 0, "", nil},
		{"too large trailers", nil, after(func(w *h2wire, id uint32) {
			w.say(id, "200", false)
			w.say(id, "", true, "x", strings.Repeat("x", 9<<10))
		}), unsettled(ReasonBadAnswer), 200, "", errHeadTooLarge},
		{"trailers far too large", nil, after(func(w *h2wire, id uint32) {
			w.say(id, "200", false)
			w.say(id, "", true, "x", strings.Repeat("x", 2<<20))
		}), unsettled(ReasonBadAnswer), 200, "", errAny},
		{"SETTINGS without number", nil, after(func(w *h2wire, _ uint32) {
			w.fr.WriteSettings(slices.Repeat([]http2.Setting{{ID: http2.SettingHeaderTableSize, Val: 4096}}, h2MaxSettings+1)...)
		}), unsettled(ReasonBadAnswer), 0, "", nil},
		{"no status", nil, after(func(w *h2wire, id uint32) { w.say(id, "", true, "x", "1") }), unsettled(ReasonBadAnswer), 0, "", nil},
		{"a status of two digits", nil, after(func(w *h2wire, id uint32) { w.say(id, "20", true) }), unsettled(ReasonBadAnswer), 0, "", nil},
		{"an upper-case name", nil, after(func(w *h2wire, id uint32) { w.say(id, "200", true, "X-A", "1") }), unsettled(ReasonBadAnswer), 0, "", nil},
		{"101", nil, after(func(w *h2wire, id uint32) { w.say(id, "101", false) }), unsettled(ReasonBadAnswer), 0, "", nil},
		{"a 103 that ends", nil, after(func(w *h2wire, id uint32) { w.say(id, "103", true) }), unsettled(ReasonBadAnswer), 0, "", nil},
		{"DATA before the head", nil, after(func(w *h2wire, id uint32) { w.data(id, "ok", true) }), unsettled(ReasonBadAnswer), 0, "", nil},
		{"trailers without end", nil, after(func(w *h2wire, id uint32) { w.say(id, "200", false); w.say(id, "", false, "x", "1") }), unsettled(ReasonBadAnswer), 200, "", errAny},
		{"a stream that nobody began", nil, after(func(w *h2wire, id uint32) { w.data(id+2, "ok", true) }), unsettled(ReasonBadAnswer), 0, "", nil},
		{"PUSH_PROMISE", nil, after(func(w *h2wire, id uint32) {
			w.fr.WritePushPromise(http2.PushPromiseParam{StreamID: id, PromiseID: 2, EndHeaders: true})
		}), unsettled(ReasonBadAnswer), 0, "", nil},
		// Before the request was wholly sent.
		{"early refusal", large, within(func(w *h2wire, id uint32) { w.say(id, "413", false); w.data(id, "too large", true) }), settled, 413, "too large", nil},
		{"early refusal while the client stalls", stalled, within(func(w *h2wire, id uint32) { w.say(id, "413", false); w.data(id, "too large", true) }), settled, 413, "too large", nil},
		{"early refusal, then NO_ERROR", large, within(func(w *h2wire, id uint32) { w.say(id, "413", true); w.rst(id, http2.ErrCodeNo) }), settled, 413, "", nil},
		{"early refusal, then closed", large, within(func(w *h2wire, id uint32) { w.say(id, "413", true); w.Close() }), settled, 413, "", nil},
		{"half an early refusal, then reset", large, within(func(w *h2wire, id uint32) { w.say(id, "413", false); w.rst(id, http2.ErrCodeInternal) }), unsettled(ReasonReset), 413, "", errAny},
		{"early 200, then the upload goes on", large, within(func(w *h2wire, id uint32) { w.ok(id); w.drain(id) }), settled, 200, "ok", nil},
		{"early 200, then NO_ERROR", stalled, within(func(w *h2wire, id uint32) { w.ok(id); w.rst(id, http2.ErrCodeNo) }), unsettled(ReasonEarlyEnd), 200, "ok", nil},
		{"early 200, then CANCEL", stalled, within(func(w *h2wire, id uint32) { w.ok(id); w.rst(id, http2.ErrCodeCancel) }), unsettled(ReasonReset), 200, "ok", nil},
		{"early 200, then closed", stalled, within(func(w *h2wire, id uint32) { w.ok(id); w.Close() }), unsettled(ReasonReset), 200, "ok", nil},
		{"a gRPC status before the call's end", grpc, within(func(w *h2wire, id uint32) { w.say(id, "200", true, "grpc-status", "8"); w.waitReset(id) }), unsettled(ReasonEarlyEnd), 200, "", nil},
		{"reset within the upload", large, within(func(w *h2wire, id uint32) { w.body(1 << 15); w.rst(id, http2.ErrCodeCancel) }), unsettled(ReasonReset), 0, "", nil},
		{cutWithin, large, within(func(w *h2wire, id uint32) { w.body(1 << 15); w.reset() }), unsettled(ReasonReset), 0, "", nil},
		// The client's side.
		{"upload ends short", func(r *Request) { large(r); r.Body = &zeros{1 << 10} }, within(func(w *h2wire, id uint32) { w.waitReset(id) }), unsettled(ReasonClientUpload), 0, "", io.ErrUnexpectedEOF},
		{"upload breaks off", func(r *Request) { large(r); r.Length = -1; r.Body = io.MultiReader(&zeros{9}, failing{}) }, within(func(w *h2wire, id uint32) { w.waitReset(id) }), unsettled(ReasonClientUpload), 0, "", errAny},
		{"the body panics", func(r *Request) { large(r); r.Body = panicking{} }, within(func(w *h2wire, id uint32) { w.waitReset(id) }), unsettled(ReasonClientUpload), 0, "", errAny},
		// Not sent.
		{"no leave", func(r *Request) { r.MaySend = func() bool { return false } }, h2silent, notSent(ReasonNoLeave), 0, "", nil},
		{"asking for leave panics", func(r *Request) { r.MaySend = func() bool { panic("x") } }, h2silent, notSent(ReasonNoLeave), 0, "", nil},
		{"no leave for an upload", func(r *Request) { large(r); r.MaySend = func() bool { return false } }, h2silent, notSent(ReasonNoLeave), 0, "", nil},
		{"cut before the first byte", func(r *Request) { c := make(chan struct{}); close(c); r.Cut = c }, h2silent, notSent(ReasonCut), 0, "", ErrCut},
	}
	over := map[string]func(*testing.T, []http2.Setting, ...func(*h2wire)) (*Upstream, chan struct{}, func()){"": listenH2, ", over TLS": listenH2TLS}
	for _, row := range rows {
		for how, listen := range over {
			t.Run(row.name+how, func(t *testing.T) {
				u, _, done := listen(t, nil, row.script)
				r := put()
				if row.req != nil {
					row.req(r)
				}
				if row.want == notSent(ReasonNoLeave) {
					r.Interrupt = func() { t.Error("interrupted although nothing was read") }
				}
				res := exchangeOnce(t, context.Background(), u, r)
				done()
				if row.name == cutWithin && res.outcome == unsettled(ReasonClosed) {
					res.outcome = row.want
				}
				if res.outcome != row.want {
					t.Errorf("outcome %v, want %v (error: %v)", res.outcome, row.want, res.err)
				}
				if res.status != row.status || res.body != row.body {
					t.Errorf("answer %d %q, want %d %q", res.status, res.body, row.status, row.body)
				}
				switch {
				case row.err == errAny && res.err == nil, row.err == nil && row.status != 0 && res.err != nil,
					row.err != nil && row.err != errAny && !errors.Is(res.err, row.err):
					t.Errorf("error %v, want %v", res.err, row.err)
				}
			})
		}
	}
}

// cutWithin is the row where the kernel tells the writer of the reset, or the
// reader. Who is not told sees a plain end, and may be quicker with his news.
const cutWithin = "closed within the upload"

// TestH2Timeout plays what only time ends, in virtual time. The response timeout
// is 10 s.
func TestH2Timeout(t *testing.T) {
	for name, row := range map[string]struct {
		req    func(*Request)
		script func(*h2wire)
		status int
	}{
		"silence":                    {nil, func(w *h2wire) { w.request(); w.readOn() }, 0},
		"silence after the head":     {nil, func(w *h2wire) { w.say(w.request(), "200", false); w.readOn() }, 200},
		"the window is never opened": {large, func(w *h2wire) { w.head(); w.readOn() }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u, done := pipedH2(t, row.script)
				r := put()
				if row.req != nil {
					row.req(r)
				}
				start := time.Now()
				res := exchangeOnce(t, context.Background(), u, r)
				if res.outcome != unsettled(ReasonTimeout) || res.err == nil || res.status != row.status || res.body != "" {
					t.Errorf("%d %q, outcome %v, error %v; want %d, a timeout", res.status, res.body, res.outcome, res.err, row.status)
				}
				if took := time.Since(start); took != r.Timeout {
					t.Errorf("after %v, want %v", took, r.Timeout)
				}
				done()
			})
		})
	}
}

// h2silent must not be given a stream.
func h2silent(w *h2wire) {
	for {
		switch f := w.frame().(type) {
		case nil, *http2.GoAwayFrame:
			return
		default:
			w.t.Errorf("the upstream was sent %v, want nothing", f.Header())
			return
		}
	}
}

// drain reads a body and gives the windows back.
func (w *h2wire) drain(id uint32) {
	for {
		f, ok := w.frame().(*http2.DataFrame)
		if !ok {
			return
		}
		if n := uint32(len(f.Data())); n > 0 {
			w.fr.WriteWindowUpdate(0, n)
			w.fr.WriteWindowUpdate(id, n)
		}
		if f.StreamEnded() {
			return
		}
	}
}
