package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fake is a connection that gives what reads hold, one after the other: text,
// an error, or what a function returns. Each write calls write.
type fake struct {
	net.Conn
	reads []any
	write func(p []byte) (int, error)

	closed bool
}

func (f *fake) Read(p []byte) (int, error) {
	next := f.reads[0]
	f.reads = f.reads[1:]
	switch next := next.(type) {
	case error:
		return 0, next
	case func() error:
		return 0, next()
	}
	return copy(p, next.(string)), nil
}

func (f *fake) Write(p []byte) (int, error) {
	if f.write == nil {
		return len(p), nil
	}
	return f.write(p)
}

func (f *fake) Close() error                     { f.closed = true; return nil }
func (f *fake) SetDeadline(time.Time) error      { return nil }
func (f *fake) SetReadDeadline(time.Time) error  { return nil }
func (f *fake) SetWriteDeadline(time.Time) error { return nil }

func broke(op string) error {
	return &net.OpError{Op: op, Err: os.NewSyscallError(op, syscall.ECONNRESET)}
}

func faked(t *testing.T, f *fake) *Upstream {
	u := newUpstream(t, "http://127.0.0.1")
	u.dial = func(context.Context) (net.Conn, error) { return f, nil }
	return u
}

const untilClosed = "HTTP/1.0 200 OK\r\n\r\npart of it"

// The kernel tells of a reset once. Where a write was told, reads see a plain
// end of the stream, and an answer without a length seems to be whole.
func TestResetToldToWriter(t *testing.T) {
	u, _, done := listen(t, func(w *wire) { w.head(); w.say(untilClosed); w.body(1 << 20); w.reset() })
	r := put()
	large(r)
	a, err := u.Send(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	<-a.UploadDone() // so it was the writer who was told
	body, err := io.ReadAll(a)
	a.Close()
	done()
	if string(body) != "part of it" || !errors.Is(err, io.ErrUnexpectedEOF) || a.Outcome() != unsettled(ReasonReset) {
		t.Errorf("%q, error %v, outcome %v; want a broken answer, unsettled (reset)", body, err, a.Outcome())
	}
}

// The same while the write has not returned yet.
func TestResetToldToWriterLate(t *testing.T) {
	eof := make(chan struct{})
	f := &fake{reads: []any{untilClosed, func() error { close(eof); return io.EOF }}}
	writes := 0
	f.write = func(p []byte) (int, error) {
		if writes++; writes == 1 {
			return len(p), nil
		}
		<-eof
		return 0, broke("write")
	}
	r := put()
	large(r)
	a, err := faked(t, f).Send(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	io.ReadFull(a, make([]byte, len("part of it")))
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("at the end: %v, want a broken answer", err)
	}
	a.Close()
}

// A buffered reader swallows the error that follows a part of a line; the next
// read of the kernel then says that all is well and over.
func TestResetSwallowedByLine(t *testing.T) {
	f := &fake{reads: []any{"HTTP/1.1 200 OK\r\nX: y", broke("read"), io.EOF, io.EOF}}
	res := exchangeOnce(t, context.Background(), faked(t, f), put())
	if want := unsettled(ReasonReset); res.outcome != want {
		t.Errorf("outcome %v, want %v (%v)", res.outcome, want, res.err)
	}
}

// A connection on which the kernel takes no byte has sent nothing; one byte is
// enough to lose sight.
func TestFirstWriteFails(t *testing.T) {
	for n, want := range map[int]Outcome{0: notSent(ReasonReset), 1: unsettled(ReasonReset)} {
		f := &fake{reads: []any{io.EOF}, write: func([]byte) (int, error) { return n, broke("write") }}
		if res := exchangeOnce(t, context.Background(), faked(t, f), put()); res.outcome != want {
			t.Errorf("%d bytes taken: %v, want %v (%v)", n, res.outcome, want, res.err)
		}
	}
}

// Where the upstream does not take the upload any more, the rest of it is not
// read: Body is interrupted, once, and a refusal that is there already is told
// to be one.
func TestUploadResetInterrupts(t *testing.T) {
	stopped := make(chan struct{})
	f := &fake{reads: []any{func() error { <-stopped; return nil }, refusal}}
	writes := 0
	f.write = func(p []byte) (int, error) {
		if writes++; writes == 1 {
			return len(p), nil
		}
		return 0, broke("write")
	}
	r := put()
	large(r)
	r.Interrupt = func() { close(stopped) }
	res := exchangeOnce(t, context.Background(), faked(t, f), r)
	if res.outcome != settled || !res.refused || res.body != "too large" {
		t.Errorf("%v, refused %t, %q (%v); want a settled refusal", res.outcome, res.refused, res.body, res.err)
	}
}

// A cut that comes when the last byte has just been taken changes nothing.
func TestCutAfterLastByte(t *testing.T) {
	r := put()
	r.Body, r.Length, r.Interrupt = strings.NewReader(hello), 5, func() { t.Error("interrupted") }
	f := &fake{reads: []any{ok}}
	a, err := faked(t, f).Send(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	<-a.UploadDone()
	a.x.cut()
	if f.closed {
		t.Error("the connection was given up")
	}
	if body, err := io.ReadAll(a); string(body) != "ok" || err != nil || a.Outcome() != settled {
		t.Errorf("%q, %v, %v; want a settled answer", body, err, a.Outcome())
	}
	a.Close()
}

// Every prefix of a whole answer is broken, wherever it ends.
func TestEveryTruncation(t *testing.T) {
	for _, whole := range []string{
		ok,
		chunkedH + "2\r\nok\r\n0\r\nX: 1\r\n\r\n",
		"HTTP/1.1 103 E\r\nA: b\r\n\r\n" + ok,
	} {
		for n := range len(whole) {
			for _, end := range []error{io.EOF, broke("read")} {
				f := &fake{reads: []any{whole[:n], end, io.EOF}}
				if n == 0 {
					f.reads = f.reads[1:]
				}
				res := exchangeOnce(t, context.Background(), faked(t, f), put())
				if res.outcome.Fate != Unsettled || res.err == nil || res.outcome.Reason == ReasonBadAnswer {
					t.Fatalf("%q, then %v: %v, error %v", whole[:n], end, res.outcome, res.err)
				}
			}
		}
		r := put()
		r.Body, r.Length = bytes.NewReader(nil), 0
		if res := exchangeOnce(t, context.Background(), faked(t, &fake{reads: []any{whole}}), r); res.outcome != settled {
			t.Errorf("%q: %v, want settled", whole, res.outcome)
		}
	}
}
