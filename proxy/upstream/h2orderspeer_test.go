package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// dialH2 makes a connection to an upstream of its own.
func (o *order) dialH2(context.Context) (net.Conn, error) {
	o.pause(5)
	if time.Since(o.began) > ordersDial || o.one(20) {
		return nil, errors.New("no connection")
	}
	near, far := net.Pipe()
	p := &peer{o: o, h2wire: &h2wire{t: o.t, Conn: far, fr: http2.NewFramer(far, bufio.NewReader(far))}, saying: make(lock, 1), stays: o.one(3), given: h2FirstWindow}
	p.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	p.enc = hpack.NewEncoder(&p.block)
	go p.play()
	return &unsteady{Conn: near, o: o, broken: &p.broken, far: p}, nil
}

// unsteady tells of its writes late, and where the other end has broken them as
// failed ones.
type unsteady struct {
	net.Conn
	o      *order
	broken *atomic.Bool
	far    *peer // over HTTP/2
}

func (c *unsteady) Write(p []byte) (int, error) {
	broken := errors.New("broken pipe")
	c.o.pause(3)
	if c.broken.Load() && c.o.one(4) {
		return 0, broken
	}
	n, err := c.Conn.Write(p)
	c.o.pause(3)
	if n > 0 && c.broken.Load() && c.o.one(2) {
		return n - 1, broken
	}
	return n, err
}

// peer is the upstream's end of one connection.
type peer struct {
	o *order
	*h2wire
	broken  atomic.Bool
	saying  lock     // of what is said, and the rest
	streams []*heard // by their numbers
	goAway  bool
	stays   bool  // it resets what is left of its streams instead of ending
	over    bool  // and has done so
	given   int64 // bytes of the connection's window in all
	got     int64 // of these, what came
}

// window is what is left of the connection's.
func (p *peer) window() int64 {
	p.saying.take()
	defer p.saying.give()
	return p.given - p.got
}

// lock is a mutex for who holds it while time passes: in a bubble, that stands
// still for who waits for a sync.Mutex.
type lock chan struct{}

func (l lock) take() { l <- struct{}{} }
func (l lock) give() { <-l }

// heard is a request that came.
type heard struct {
	id       uint32
	name     string
	begun    bool          // something of its answer was said
	promised bool          // that nothing is done with it
	ended    chan struct{} // closed when its end came
}

func (p *peer) play() {
	defer p.Close()
	time.AfterFunc(ordersLife-time.Duration(p.o.roll(300))*time.Millisecond, func() {
		if p.stays {
			p.resetAll()
			return
		}
		p.broken.Store(true)
		p.o.pause(3)
		p.Close()
	})
	io.ReadFull(p.Conn, make([]byte, len(http2.ClientPreface)))
	go p.settings()
	go p.trouble()
	for {
		f, err := p.fr.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			p.headCame(f)
		case *http2.DataFrame:
			p.dataCame(f)
		}
	}
}

func (p *peer) resetAll() {
	p.saying.take()
	defer p.saying.give()
	p.over = true
	for _, h := range p.streams {
		p.rst(h.id, http2.ErrCodeCancel)
	}
}

func (p *peer) settings() {
	p.saying.take()
	defer p.saying.give()
	p.fr.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: uint32(1 + p.o.roll(5))})
	if p.o.one(2) {
		p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
		p.given += 1 << 20
		p.fr.WriteWindowUpdate(0, 1<<20)
	}
}

// trouble is what happens to the connection as a whole, before it ends.
func (p *peer) trouble() {
	time.Sleep(time.Duration(p.o.roll(200)) * time.Millisecond)
	p.saying.take()
	defer p.saying.give()
	switch p.o.roll(6) {
	case 0:
		p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(p.o.roll(2))})
	case 1:
		p.fr.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: uint32(p.o.roll(2))})
	case 2, 3:
		last := uint32(0)
		for _, h := range p.streams {
			if h.begun || p.o.one(2) {
				last = h.id
			}
		}
		p.goAway = true // what comes later is above it
		for _, h := range p.streams {
			if h.id > last {
				p.promise(h)
			}
		}
		p.fr.WriteGoAway(last, http2.ErrCodeNo, nil)
	case 4:
		p.Write([]byte("no frame at all"))
	}
}

// promise says that nothing is done with a request; saying is held.
func (p *peer) promise(h *heard) {
	if !h.promised {
		h.promised = true
		p.o.count(h.name, -1)
	}
}

func (p *peer) headCame(f *http2.MetaHeadersFrame) {
	if len(f.PseudoFields()) == 0 { // trailers
		p.endCame(f.StreamID)
		return
	}
	h := &heard{id: f.StreamID, ended: make(chan struct{})}
	for _, field := range f.RegularFields() {
		if field.Name == "x-name" {
			h.name = field.Value
		}
	}
	p.saying.take()
	p.streams = append(p.streams, h)
	if h.promised = p.goAway; !h.promised {
		p.o.count(h.name, 1)
	}
	if p.over {
		p.rst(h.id, http2.ErrCodeCancel)
	}
	p.saying.give()
	if f.StreamEnded() {
		p.endCame(h.id)
	}
	go p.answer(h)
}

func (p *peer) dataCame(f *http2.DataFrame) {
	id, n, end := f.StreamID, uint32(len(f.Data())), f.StreamEnded()
	p.saying.take()
	p.got += int64(n)
	p.saying.give()
	p.o.pause(2)
	if p.o.one(10) {
		time.Sleep(time.Duration(p.o.roll(300)) * time.Millisecond) // it reads no more for a while
	}
	if n > 0 && !p.o.one(4) {
		go func() {
			p.saying.take()
			defer p.saying.give()
			p.given += int64(n)
			p.fr.WriteWindowUpdate(0, n)
			p.fr.WriteWindowUpdate(id, n)
		}()
	}
	if end {
		p.endCame(id)
	}
}

func (p *peer) endCame(id uint32) {
	p.saying.take()
	defer p.saying.give()
	for _, h := range p.streams {
		if h.id == id {
			close(h.ended)
			p.o.note(p.o.whole, h.name)
		}
	}
}

// answer is one of the answers that there are, early or when the request's end
// has come.
func (p *peer) answer(h *heard) {
	if p.o.one(2) {
		select {
		case <-h.ended:
		case <-time.After(ordersLife):
		}
	}
	p.o.pause(20)
	step := func(end bool, say func()) {
		p.saying.take()
		defer p.saying.give()
		if h.promised {
			return
		}
		h.begun = true
		if end {
			p.o.note(p.o.said, h.name)
		}
		say()
	}
	status := []string{"200", "204", "202", "404", "413"}[p.o.roll(5)]
	if p.o.one(8) {
		step(false, func() { p.say(h.id, "103", false) })
	}
	switch p.o.roll(13) {
	case 0: // none
	case 1, 2:
		step(true, func() { p.say(h.id, status, true) })
	case 3:
		step(false, func() { p.say(h.id, "200", false) })
		p.o.pause(20)
		step(true, func() { p.data(h.id, "ok", true) })
	case 4:
		step(false, func() { p.say(h.id, "413", false, "content-length", "2") })
		p.o.pause(20)
		step(true, func() { p.data(h.id, "ok", true) })
	case 5:
		step(false, func() { p.say(h.id, "200", false, "content-length", "5") })
		step(false, func() { p.data(h.id, "ok", true) })
	case 6:
		p.saying.take()
		if !h.promised && !h.begun {
			p.promise(h)
			p.rst(h.id, http2.ErrCodeRefusedStream)
		}
		p.saying.give()
	case 7:
		step(true, func() { p.say(h.id, status, true) })
		p.o.pause(5)
	case 8: // from here on, what nobody may say
		step(false, func() { p.data(h.id, "ok", false) })
	case 9:
		step(true, func() { p.say(h.id, status, true); p.say(h.id, status, true) })
	case 10:
		step(false, func() { p.fr.WriteWindowUpdate(h.id, 1<<31-1) })
		p.o.pause(5)
		step(true, func() { p.say(h.id, status, true) })
	case 11:
		step(false, func() { p.say(h.id, "99", false) })
	case 12:
		step(true, func() { p.say(h.id, status, true); p.data(h.id, "ok", false) })
	}
	if p.o.one(3) {
		code := []http2.ErrCode{http2.ErrCodeNo, http2.ErrCodeCancel, http2.ErrCodeInternal}[p.o.roll(3)]
		step(false, func() { p.rst(h.id, code) })
	}
	if p.o.one(10) {
		p.broken.Store(true)
		p.Close()
	}
}
