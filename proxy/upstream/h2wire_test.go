package upstream

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2wire is the upstream's end of one HTTP/2 connection, frame by frame.
type h2wire struct {
	t *testing.T
	net.Conn
	fr     *http2.Framer
	block  bytes.Buffer
	enc    *hpack.Encoder
	event  chan struct{} // the script tells the test that something happened
	finish chan struct{} // the test is over with the exchange
}

// h2headCame is a request's head.
type h2headCame struct {
	id     uint32
	fields map[string]string
	end    bool
}

// frame reads the next frame that is not about the connection.
func (w *h2wire) frame() http2.Frame {
	for {
		f, err := w.fr.ReadFrame()
		if err != nil {
			return nil
		}
		switch f.(type) {
		case *http2.SettingsFrame, *http2.WindowUpdateFrame, *http2.PingFrame:
			continue
		}
		return f
	}
}

func (w *h2wire) head() h2headCame {
	f, ok := w.frame().(*http2.MetaHeadersFrame)
	if !ok {
		w.t.Errorf("upstream: no HEADERS came")
		return h2headCame{}
	}
	h := h2headCame{id: f.StreamID, fields: map[string]string{}, end: f.StreamEnded()}
	for _, field := range f.Fields {
		h.fields[field.Name] = field.Value
	}
	return h
}

// request reads one request to its end and returns its stream.
func (w *h2wire) request() uint32 {
	h := w.head()
	for end := h.end; !end; {
		f, ok := w.frame().(*http2.DataFrame)
		if !ok {
			w.t.Error("upstream: the request did not end")
			break
		}
		end = f.StreamEnded()
	}
	return h.id
}

// body reads n bytes of a body.
func (w *h2wire) body(n int) {
	for n > 0 {
		f, ok := w.frame().(*http2.DataFrame)
		if !ok {
			w.t.Error("upstream: the body did not come")
			return
		}
		n -= len(f.Data())
	}
}

// say answers with a head; pairs are names and values.
func (w *h2wire) say(id uint32, status string, end bool, pairs ...string) {
	if status != "" {
		pairs = append([]string{":status", status}, pairs...)
	}
	w.block.Reset()
	for i := 0; i < len(pairs); i += 2 {
		w.enc.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	block := w.block.Next(h2Frame)
	w.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndStream: end, EndHeaders: w.block.Len() == 0})
	for w.block.Len() > 0 {
		block = w.block.Next(h2Frame)
		w.fr.WriteContinuation(id, w.block.Len() == 0, block)
	}
}

func (w *h2wire) data(id uint32, s string, end bool) { w.fr.WriteData(id, end, []byte(s)) }

// ok is a whole answer.
func (w *h2wire) ok(id uint32) {
	w.say(id, "200", false, "content-length", "2")
	w.data(id, "ok", true)
}

func (w *h2wire) rst(id uint32, code http2.ErrCode) { w.fr.WriteRSTStream(id, code) }

// reset ends the connection with RST.
func (w *h2wire) reset() {
	socket := w.Conn
	if s, ok := socket.(*tls.Conn); ok {
		socket = s.NetConn()
	}
	socket.(*net.TCPConn).SetLinger(0)
	socket.Close()
}

func (w *h2wire) wait() { <-w.finish }

// readOn reads until the proxy has closed its end.
func (w *h2wire) readOn() {
	for w.frame() != nil {
	}
}

// waitReset reads until the proxy resets the stream.
func (w *h2wire) waitReset(id uint32) http2.ErrCode {
	for {
		switch f := w.frame().(type) {
		case *http2.RSTStreamFrame:
			if f.StreamID == id {
				return f.ErrCode
			}
		case nil:
			w.t.Error("upstream: the stream was not reset")
			return 0
		}
	}
}

// listenH2 starts an upstream that plays scripts, one for each connection. The
// returned function ends it, and fails when something is left of it.
func listenH2(t *testing.T, settings []http2.Setting, scripts ...func(*h2wire)) (u *Upstream, event chan struct{}, done func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	event, end := playH2(t, l, settings, scripts...)
	u = patient(newH2(t, l.Addr().String()))
	return u, event, func() { t.Helper(); u.Close(); end() }
}

// listenH2TLS is listenH2 over TLS.
func listenH2TLS(t *testing.T, settings []http2.Setting, scripts ...func(*h2wire)) (u *Upstream, event chan struct{}, done func()) {
	t.Helper()
	a := newAuthority(t)
	l, config := a.listen(func(c *tls.Config) { c.NextProtos = []string{"h2"} })
	event, end := playH2(t, tls.NewListener(l, config), settings, scripts...)
	u = patient(a.upstream(l.Addr().String(), time.Minute, nil))
	return u, event, func() { t.Helper(); u.Close(); end() }
}

// patient is u on a machine that may stand still: no write seems stuck that
// merely was not told of yet, for then its connection is passed over, and who
// counts connections finds one more.
func patient(u *Upstream) *Upstream {
	u.h2.stuck, u.h2.passOver = time.Hour, time.Hour
	return u
}

func playH2(t *testing.T, l net.Listener, settings []http2.Setting, scripts ...func(*h2wire)) (event chan struct{}, done func()) {
	event, finish := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i, script := range scripts {
			c, err := l.Accept()
			if err != nil {
				t.Errorf("connection %d did not come: %v", i+1, err)
				return
			}
			w := &h2wire{t: t, Conn: c, fr: http2.NewFramer(c, bufio.NewReader(c)), event: event, finish: finish}
			w.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
			w.enc = hpack.NewEncoder(&w.block)
			wg.Go(func() {
				defer c.Close()
				preface := make([]byte, len(http2.ClientPreface))
				if _, err := io.ReadFull(c, preface); err != nil || string(preface) != http2.ClientPreface {
					t.Errorf("preface %q, %v", preface, err)
				}
				w.fr.WriteSettings(settings...)
				w.fr.WriteSettingsAck()
				script(w)
				io.Copy(io.Discard, c) // lasts until the other end is closed
			})
		}
	})
	return event, func() {
		t.Helper()
		close(finish)
		wg.Wait()
		l.Close()
		noH2Left(t)
	}
}

// pipedH2 is an upstream for a synctest bubble, where no machine is too slow. It
// plays scripts, one for each connection, and takes a byte only when its script
// reads it.
func pipedH2(t *testing.T, scripts ...func(*h2wire)) (u *Upstream, done func()) {
	t.Helper()
	var wg sync.WaitGroup
	u = newH2(t, "127.0.0.1:1")
	conns := 0
	u.dial = func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		if conns++; conns > len(scripts) {
			return nil, fmt.Errorf("connection %d is one too many", conns)
		}
		script := scripts[conns-1]
		w := &h2wire{t: t, Conn: far, fr: http2.NewFramer(far, bufio.NewReaderSize(far, 16))}
		w.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		w.enc = hpack.NewEncoder(&w.block)
		wg.Go(func() {
			defer far.Close()
			io.ReadFull(far, make([]byte, len(http2.ClientPreface)))
			w.fr.ReadFrame() // SETTINGS
			w.fr.ReadFrame() // WINDOW_UPDATE
			w.set()
			script(w)
		})
		return near, nil
	}
	return u, func() {
		t.Helper()
		u.Close()
		wg.Wait()
		if conns != len(scripts) {
			t.Errorf("%d connections came, want %d", conns, len(scripts))
		}
		time.Sleep(2 * time.Second) // goodbyes, and timers
	}
}

// set tells of settings, and waits for the ACK.
func (w *h2wire) set(settings ...http2.Setting) {
	w.fr.WriteSettings(settings...)
	for {
		f, err := w.fr.ReadFrame()
		if s, ok := f.(*http2.SettingsFrame); ok && s.IsAck() {
			return
		} else if err != nil {
			w.t.Errorf("upstream: no ACK came: %v", err)
			return
		}
	}
}

func newH2(t testing.TB, addr string) *Upstream {
	t.Helper()
	u, err := New(Options{
		URL: &url.URL{Scheme: "h2c", Host: addr}, PreserveHost: true, UnsettledStatuses: []int{202, 502, 504},
		MaxHeader: 8 << 10, IdleTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// noH2Left fails when a goroutine of an HTTP/2 connection goes on running after
// everything was closed.
func noH2Left(t *testing.T) {
	t.Helper()
	noneLeft(t, "upstream.(*h2conn)", "upstream.(*h2stream)")
}
