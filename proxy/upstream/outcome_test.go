package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

var settled = Outcome{Fate: Settled}

func unsettled(r Reason) Outcome { return Outcome{Unsettled, r} }
func notSent(r Reason) Outcome   { return Outcome{NotSent, r} }

const (
	ok       = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	refusal  = "HTTP/1.1 413 Too Large\r\nContent-Length: 9\r\n\r\ntoo large"
	chunkedH = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
)

// outcomeRow is something that happens on the wire, and what is known of the
// write after it.
type outcomeRow struct {
	name   string
	req    func(*Request)
	script func(*wire)
	want   Outcome
	status int // 0: Send fails
	body   string
	err    error // matched with errors.Is; nil: a whole answer
}

// outcomeRows is the table of rule 10.
func outcomeRows() []outcomeRow {
	answers := func(s string) func(*wire) {
		return func(w *wire) { w.request(); w.say(s); w.CloseWrite() }
	}
	uploadThen := func(end func(*wire)) func(*wire) {
		return func(w *wire) { w.head(); end(w) }
	}
	get := func(r *Request) { r.Method, r.Body, r.Length = "GET", nil, 0 }
	head := func(r *Request) { get(r); r.Method = "HEAD" }

	return []outcomeRow{
		// Answered in full.
		{"length reached", nil, answers(ok), settled, 200, "ok", nil},
		{"length 0", nil, answers("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), settled, 200, "", nil},
		{"the same length twice", nil, answers("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok"), settled, 200, "ok", nil},
		{"chunks and their end", nil, answers(chunkedH + "2\r\nok\r\n0\r\n\r\n"), settled, 200, "ok", nil},
		{"chunks and trailers", nil, answers(chunkedH + "2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n"), settled, 200, "ok", nil},
		{"no content", nil, answers("HTTP/1.1 204 No Content\r\n\r\n"), settled, 204, "", nil},
		{"not modified with a length", get, func(w *wire) { w.head(); w.say("HTTP/1.1 304 N\r\nContent-Length: 9\r\n\r\n") }, settled, 304, "", nil},
		{"HEAD with a length", head, func(w *wire) { w.head(); w.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n") }, settled, 200, "", nil},
		{"until close, closed with FIN", nil, answers("HTTP/1.0 200 OK\r\n\r\nall"), settled, 200, "all", nil},
		{"garbage after the answer", nil, answers(ok + "HTTP/1.1 500 X\r\n\r\n"), settled, 200, "ok", nil},
		{"103, then 200", nil, answers("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + ok), settled, 200, "ok", nil},
		{"refused with 500", nil, answers("HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n"), settled, 500, "", nil},
		// Answered in full, but the status proves nothing.
		{"202", nil, answers("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"), unsettled("status-202"), 202, "", nil},
		{"502", nil, answers("HTTP/1.1 502 Bad\r\nContent-Length: 0\r\n\r\n"), unsettled("status-502"), 502, "", nil},
		{"504", nil, answers("HTTP/1.1 504 Late\r\nContent-Length: 0\r\n\r\n"), unsettled("status-504"), 504, "", nil},
		{"early 502", large, uploadThen(func(w *wire) { w.say("HTTP/1.1 502 Bad\r\nContent-Length: 0\r\n\r\n") }), unsettled("status-502"), 502, "", nil},
		// Broken off.
		{"reset before the first byte", nil, func(w *wire) { w.request(); w.reset() }, unsettled(ReasonReset), 0, "", nil},
		{"closed before the first byte", nil, answers(""), unsettled(ReasonClosed), 0, "", nil},
		{"half a status line", nil, answers("HTTP/1.1 2"), unsettled(ReasonTruncated), 0, "", nil},
		{"half a head", nil, answers("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"), unsettled(ReasonTruncated), 0, "", nil},
		{"half a header line", nil, answers("HTTP/1.1 200 OK\r\nCon"), unsettled(ReasonTruncated), 0, "", nil},
		{"half a body", nil, answers("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok"), unsettled(ReasonTruncated), 200, "ok", io.ErrUnexpectedEOF},
		{"half a chunk", nil, answers(chunkedH + "5\r\nok"), unsettled(ReasonTruncated), 200, "ok", io.ErrUnexpectedEOF},
		{"no last chunk", nil, answers(chunkedH + "2\r\nok\r\n"), unsettled(ReasonTruncated), 200, "ok", io.ErrUnexpectedEOF},
		{"no end of trailers", nil, answers(chunkedH + "2\r\nok\r\n0\r\nX: 1\r\n"), unsettled(ReasonTruncated), 200, "ok", io.ErrUnexpectedEOF},
		{"half a trailer line", nil, answers(chunkedH + "2\r\nok\r\n0\r\nX: 1\r\nY"), unsettled(ReasonTruncated), 200, "ok", io.ErrUnexpectedEOF},
		{"no line after the last chunk", nil, answers(chunkedH + "2\r\nok\r\n0\r\n"), unsettled(ReasonTruncated), 200, "ok", io.ErrUnexpectedEOF},
		{"103, then the end", nil, answers("HTTP/1.1 103 Early Hints\r\n\r\n"), unsettled(ReasonClosed), 0, "", nil},
		{"103 with a length that is none", nil, answers("HTTP/1.1 103 Early Hints\r\nContent-Length: x\r\n\r\n" + ok), unsettled(ReasonBadAnswer), 0, "", nil},
		{"103 in another coding", nil, answers("HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: gzip\r\n\r\n" + ok), unsettled(ReasonBadAnswer), 0, "", nil},
		// Not to be trusted.
		{"not HTTP", nil, answers("SSH-2.0-x\r\n\r\n"), unsettled(ReasonBadAnswer), 0, "", nil},
		{"too large a head", nil, answers("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 9<<10) + "\r\n\r\n"), unsettled(ReasonBadAnswer), 0, "", nil},
		{"a head without end", nil, answers("HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 4<<10)), unsettled(ReasonBadAnswer), 0, "", nil},
		{"too large trailers", nil, answers(chunkedH + "0\r\nX: " + strings.Repeat("x", 9<<10) + "\r\n\r\n"), unsettled(ReasonBadAnswer), 200, "", errHeadTooLarge},
		{"two lengths", nil, answers("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok"), unsettled(ReasonBadAnswer), 0, "", nil},
		{"chunked and a length", nil, answers("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n"), unsettled(ReasonBadAnswer), 0, "", nil},
		{"another coding than chunked", nil, answers("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), unsettled(ReasonBadAnswer), 0, "", nil},
		{"chunked with a Kelvin sign", nil, answers("HTTP/1.1 200 OK\r\nTransfer-Encoding: chun\u212aed\r\n\r\n0\r\n\r\n"), unsettled(ReasonBadAnswer), 0, "", nil},
		{"chunked twice", nil, answers("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), unsettled(ReasonBadAnswer), 0, "", nil},
		{"chunked in HTTP/1.0", nil, answers("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), unsettled(ReasonBadAnswer), 0, "", nil},
		{"a length that is no number", nil, answers("HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok"), unsettled(ReasonBadAnswer), 0, "", nil},
		{"a status below 100", nil, answers("HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n"), unsettled(ReasonBadAnswer), 0, "", nil},
		{"a status of four digits", nil, answers("HTTP/1.1 2000 X\r\nContent-Length: 0\r\n\r\n"), unsettled(ReasonBadAnswer), 0, "", nil},
		{"a space before the colon", nil, answers("HTTP/1.1 200 OK\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n"), unsettled(ReasonBadAnswer), 0, "", nil},
		{"a bad chunk size", nil, answers(chunkedH + "2\r\nok\r\nx\r\n"), unsettled(ReasonBadAnswer), 200, "ok", errAny},
		{"101 unasked", nil, answers("HTTP/1.1 101 S\r\nUpgrade: x\r\n\r\n"), unsettled(ReasonBadAnswer), 0, "", nil},
		// Before the request was wholly sent.
		{"early refusal", large, uploadThen(func(w *wire) { w.say(refusal) }), settled, 413, "too large", nil},
		{"early refusal while the client stalls", stalled, uploadThen(func(w *wire) { w.say(refusal) }), settled, 413, "too large", nil},
		{"early refusal, then reset", large, uploadThen(func(w *wire) { w.body(1 << 20); w.say(refusal); w.reset() }), settled, 413, "too large", nil},
		{"half an early refusal, then reset", large, uploadThen(func(w *wire) { w.body(1 << 20); w.say(refusal[:len(refusal)-3]); w.reset() }), unsettled(ReasonReset), 413, "too la", errAny},
		{"early 200, then the upload goes on", large, uploadThen(func(w *wire) { w.say(ok); io.CopyN(io.Discard, w.br, 64<<20) }), settled, 200, "ok", nil},
		{"early 200, then reset", large, uploadThen(func(w *wire) { w.say(ok); w.body(1 << 20); w.reset() }), unsettled(ReasonReset), 200, "ok", nil},
		{"reset within the upload", large, uploadThen(func(w *wire) { w.body(1 << 20); w.reset() }), unsettled(ReasonReset), 0, "", nil},
		// The client's side.
		{"upload ends short", func(r *Request) { large(r); r.Body = &zeros{1 << 20} }, uploadThen(func(w *wire) {}), unsettled(ReasonClientUpload), 0, "", io.ErrUnexpectedEOF},
		{"upload breaks off", func(r *Request) { large(r); r.Body = io.MultiReader(&zeros{9}, failing{}) }, uploadThen(func(w *wire) {}), unsettled(ReasonClientUpload), 0, "", errAny},
		{"chunked upload breaks off", func(r *Request) { large(r); r.Length = -1; r.Body = io.MultiReader(&zeros{9}, failing{}) }, uploadThen(func(w *wire) {}), unsettled(ReasonClientUpload), 0, "", errAny},
		{"the body panics", func(r *Request) { large(r); r.Body = panicking{} }, uploadThen(func(w *wire) {}), unsettled(ReasonClientUpload), 0, "", errAny},
		// Not sent.
		{"no leave", func(r *Request) { r.Timeout = time.Second; r.MaySend = func() bool { return false } }, silent, notSent(ReasonNoLeave), 0, "", nil},
		{"cut before the first byte", func(r *Request) { r.Timeout = time.Second; c := make(chan struct{}); close(c); r.Cut = c }, silent, notSent(ReasonCut), 0, "", ErrCut},
	}
}

// TestOutcome plays every row on a real socket.
func TestOutcome(t *testing.T) {
	playRows(t, outcomeRows(), listen)
}

// playRows plays each row on a connection of its own.
func playRows(t *testing.T, rows []outcomeRow, listen func(*testing.T, func(*wire)) (*Upstream, chan struct{}, func())) {
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			u, _, done := listen(t, row.script)
			r := put()
			if row.req != nil {
				row.req(r)
			}
			res := exchangeOnce(t, context.Background(), u, r)
			done()
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

// errAny stands in a table for an error of which only the presence counts.
var errAny = errors.New("any error")

// silent is an upstream that must not be given a byte.
func silent(w *wire) {
	if b, err := io.ReadAll(w.br); len(b) > 0 {
		w.t.Errorf("the upstream was sent %q (%v), want nothing", b, err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("client gone") }

type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("broken body") }

func TestRefusedConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	u := newUpstream(t, "http://"+l.Addr().String())
	res := exchangeOnce(t, context.Background(), u, put())
	if want := notSent(ReasonRefused); res.outcome != want {
		t.Errorf("outcome %v, want %v (%v)", res.outcome, want, res.err)
	}
}

// A raise cuts an upload that is not wholly sent, whichever side it waits for.
func TestCut(t *testing.T) {
	for name, stall := range map[string]func(*Request){"the client stalls": stalled, "the upstream does not read": large} {
		t.Run(name, func(t *testing.T) {
			u, event, done := listen(t, func(w *wire) { w.head(); close(w.event); w.wait() })
			r := put()
			stall(r)
			r.Cut = event
			res := exchangeOnce(t, context.Background(), u, r)
			done()
			if want := unsettled(ReasonCut); res.outcome != want || !errors.Is(res.err, ErrCut) {
				t.Errorf("outcome %v, error %v; want %v, ErrCut", res.outcome, res.err, want)
			}
		})
	}
}

// An early 2xx that has been passed on does not save an upload that is cut.
func TestCutAfterEarlyAnswer(t *testing.T) {
	u, _, done := listen(t, func(w *wire) { w.head(); w.say(ok); w.wait() })
	r := put()
	stalled(r)
	cut := make(chan struct{})
	r.Cut = cut
	a, err := u.Send(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(a); string(body) != "ok" || err != nil {
		t.Errorf("body %q, %v", body, err)
	}
	if got, want := a.Outcome(), unsettled(ReasonUnfinished); got != want {
		t.Errorf("while the upload runs: %v, want %v", got, want)
	}
	close(cut)
	<-a.UploadDone()
	if got, want := a.Outcome(), unsettled(ReasonCut); got != want {
		t.Errorf("after the cut: %v, want %v", got, want)
	}
	a.Close()
	done()
}

// Once the request is wholly sent, a cut comes too late to change anything.
func TestCutTooLate(t *testing.T) {
	u, event, done := listen(t, func(w *wire) { w.request(); close(w.event); w.say(ok) })
	r := put()
	r.Cut = event
	res := exchangeOnce(t, context.Background(), u, r)
	done()
	if res.outcome != settled || res.body != "ok" {
		t.Errorf("%v %q, want a settled answer", res.outcome, res.body)
	}
}

// Closing an answer early, with the client stalled in its upload, ends both.
func TestCloseEarly(t *testing.T) {
	u, _, done := listen(t, func(w *wire) { w.head(); w.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"); w.wait() })
	r := put()
	stalled(r)
	a, err := u.Send(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	a.Close()
	if got, want := a.Outcome(), unsettled(ReasonAbandoned); got != want {
		t.Errorf("outcome %v, want %v", got, want)
	}
	if _, err := a.Read(make([]byte, 9)); err == nil || err == io.EOF {
		t.Errorf("reading a closed answer: %v, want an error that is not io.EOF", err)
	}
	done()
}

// A panic in the caller's code passes, and leaves nothing behind.
func TestPanicPasses(t *testing.T) {
	u, _, done := listen(t, func(w *wire) { w.head(); w.say("HTTP/1.1 103 E\r\n\r\n"); w.wait() })
	r := put()
	stalled(r)
	r.Informational = func(int, http.Header) { panic("front") }
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not pass")
			}
		}()
		u.Send(context.Background(), r)
	}()
	done()
}

func TestJudge(t *testing.T) {
	u := newUpstream(t, "http://127.0.0.1")
	for name, row := range map[string]struct {
		f    facts
		want Outcome
	}{
		"nothing known":                 {facts{left: true}, unsettled(ReasonUnfinished)},
		"nothing left":                  {facts{lost: ReasonReset}, notSent(ReasonReset)},
		"sent, no answer":               {facts{left: true, sent: true, lost: ReasonTimeout}, unsettled(ReasonTimeout)},
		"whole":                         {facts{left: true, sent: true, whole: true, status: 200}, settled},
		"whole, lost later":             {facts{left: true, sent: true, whole: true, status: 200, lost: ReasonCanceled}, settled},
		"early 200":                     {facts{left: true, whole: true, status: 200}, unsettled(ReasonUnfinished)},
		"early 302, upload failed":      {facts{left: true, whole: true, status: 302, upload: ReasonReset}, unsettled(ReasonReset)},
		"early 400":                     {facts{left: true, whole: true, status: 400, upload: ReasonReset}, settled},
		"early 504":                     {facts{left: true, whole: true, status: 504}, unsettled("status-504")},
		"why sight was lost goes first": {facts{left: true, lost: ReasonCut, upload: ReasonReset}, unsettled(ReasonCut)},
	} {
		if got := u.judge(row.f); got != row.want {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
	if (Outcome{}).Fate != Unsettled {
		t.Error("the zero outcome must be unsettled")
	}
}
