package upstream

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/net/http2"
)

// protocolError is what no HTTP/2 server says: the connection is given up.
type protocolError string

func (p protocolError) Error() string { return "bad answer: HTTP/2: " + string(p) }

// readAll reads frames for all streams until the connection ends. Nothing in
// here waits: what a slow client has not read stays in its stream's buffer, and
// what is to be said goes to the writer.
func (c *h2conn) readAll() {
	defer c.pool.remove(c)
	for {
		f, err := c.fr.ReadFrame()
		c.mu.Lock()
		var broken http2.StreamError
		switch {
		case err == nil:
			err = c.frameCame(f)
		case errors.As(err, &broken): // an invalid head; the connection goes on
			if s := c.streams[broken.StreamID]; s != nil {
				s.lose(ReasonBadAnswer, fmt.Errorf("bad answer: %w", reasonOf(broken)))
			}
			err = nil
		case c.closing:
			err = io.EOF // our own goodbye
		}
		if err != nil {
			c.fail(err)
		}
		over := c.err != nil
		c.mu.Unlock()
		if over {
			return
		}
	}
}

func reasonOf(e http2.StreamError) error {
	if e.Cause != nil {
		return e.Cause
	}
	return e
}

// frameCame takes one frame; mu is held.
func (c *h2conn) frameCame(f http2.Frame) error {
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		return c.headersCame(f)
	case *http2.DataFrame:
		return c.dataCame(f)
	case *http2.RSTStreamFrame:
		s, err := c.stream(f.StreamID)
		if s != nil {
			s.resetCame(f.ErrCode)
		}
		return err
	case *http2.WindowUpdateFrame:
		return c.windowCame(f)
	case *http2.GoAwayFrame:
		c.goAwayCame(f)
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return c.settingsCame(f)
		}
	case *http2.PingFrame:
		if data := f.Data; !f.IsAck() {
			c.reply(func(w *http2.Framer) { w.WritePing(true, data) })
		}
	case *http2.PushPromiseFrame:
		return protocolError("PUSH_PROMISE although we said no")
	}
	return nil // frames of no meaning to us are ignored (RFC 9113, 4.1)
}

// stream returns the stream that a frame is for; nil for one that is over.
func (c *h2conn) stream(id uint32) (*h2stream, error) {
	if id%2 == 0 || id >= c.next {
		return nil, protocolError(fmt.Sprintf("a frame for stream %d, which was never begun", id))
	}
	return c.streams[id], nil
}

func (c *h2conn) headersCame(f *http2.MetaHeadersFrame) error {
	s, err := c.stream(f.StreamID)
	if s == nil {
		return err
	}
	s.heard = true
	switch {
	case f.Truncated || sizeOf(f) > c.pool.u.maxHeader:
		s.lose(ReasonBadAnswer, errHeadTooLarge)
	case s.ended:
		s.lose(ReasonBadAnswer, protocolError("HEADERS after the end of the answer"))
	case s.headIn:
		s.trailerCame(f)
	default:
		s.headCame(f)
	}
	return nil
}

// sizeOf is what a head would be long in HTTP/1.1.
func sizeOf(f *http2.MetaHeadersFrame) int {
	size := 0
	for _, field := range f.Fields {
		size += len(field.Name) + len(field.Value) + len(": \r\n")
	}
	return size
}

func (c *h2conn) dataCame(f *http2.DataFrame) error {
	// The connection's window is given back at once, so that an answer that
	// nobody reads holds up no other: its own window bounds it.
	if c.received += f.Length; c.received >= h2ConnWindow/2 {
		n := c.received
		c.received = 0
		c.control(func(w *http2.Framer) { w.WriteWindowUpdate(0, n) })
	}
	s, err := c.stream(f.StreamID)
	if s == nil {
		return err
	}
	if s.granted -= int64(f.Length); s.granted < 0 {
		return protocolError("more DATA than the window allows")
	}
	s.dataCame(f)
	return nil
}

func (c *h2conn) windowCame(f *http2.WindowUpdateFrame) error {
	if f.StreamID == 0 {
		if c.window += int64(f.Increment); c.window > 1<<31-1 {
			return protocolError("a window above 2^31-1")
		}
		for _, s := range c.streams {
			s.flowed()
		}
		return nil
	}
	s, err := c.stream(f.StreamID)
	if s == nil {
		return err
	}
	if s.window += int64(f.Increment); s.window > 1<<31-1 {
		s.lose(ReasonBadAnswer, protocolError("a window above 2^31-1"))
	}
	s.flowed()
	return nil
}

// goAwayCame retires the connection. Of the streams above the last one the
// upstream promises that it did nothing and will do nothing with them; the
// others go on. Those that have no number yet get none (see begin).
func (c *h2conn) goAwayCame(f *http2.GoAwayFrame) {
	c.retired, c.goAway = true, true
	for id, s := range c.streams {
		if id > f.LastStreamID {
			s.unprocessed(fmt.Errorf("GOAWAY (%v): %w", f.ErrCode, errRetired))
		}
	}
	if c.open == 0 {
		c.goodbye()
	}
}

// h2MaxSettings is far above what there is to set. Each of them may leave
// something to write, and only the frame has an ACK that is counted.
const h2MaxSettings = 100

func (c *h2conn) settingsCame(f *http2.SettingsFrame) error {
	if n := f.NumSettings(); n > h2MaxSettings {
		return protocolError(fmt.Sprintf("SETTINGS with %d entries", n))
	}
	if err := f.ForeachSetting(c.settingCame); err != nil {
		return err
	}
	c.reply(func(w *http2.Framer) { w.WriteSettingsAck() })
	return nil
}

func (c *h2conn) settingCame(s http2.Setting) error {
	if err := s.Valid(); err != nil {
		return protocolError(s.String())
	}
	switch s.ID {
	case http2.SettingMaxConcurrentStreams:
		c.maxStreams = s.Val
	case http2.SettingMaxHeaderListSize:
		c.maxHead = s.Val
	case http2.SettingInitialWindowSize:
		more := int64(s.Val) - c.initial
		c.initial += more
		for _, s := range c.streams {
			s.window += more
			s.flowed()
		}
	case http2.SettingHeaderTableSize:
		c.push(h2item{table: true, tableSize: min(s.Val, h2HeaderTable)})
	}
	return nil
}
