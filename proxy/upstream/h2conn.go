package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	h2Frame        = 16 << 10  // the largest frame, either way; every peer takes it
	h2StreamWindow = 128 << 10 // of an answer that is not read
	h2ConnWindow   = 1 << 20   // of all answers on their way
	h2FirstWindow  = 65535     // every window before SETTINGS say otherwise
	h2HeaderTable  = 4 << 10   // of HPACK, either way
	h2HardHeader   = 1 << 20   // a larger head breaks the connection, not its stream alone
	h2LastStream   = 1 << 30   // a connection is retired before its numbers run out
	h2Goodbye      = time.Second
	h2MaxResets    = 50 // of our own, after which a connection is retired

	// So many answers to PING and SETTINGS that the upstream does not read break
	// the connection.
	h2MaxReplies = 1024
)

var (
	// errRetired: the upstream takes no more requests on this connection.
	errRetired = errors.New("the upstream was closing the connection and did nothing with the request")
	// errNoRoom: it wants less than it did when the connection was chosen.
	errNoRoom = errors.New("the upstream lowered its limits before the request was sent")
	errStuck  = errors.New("the upstream takes no bytes on the connection")
	errFlood  = errors.New("bad answer: the upstream sends frames that want an answer and reads none")
)

// h2conn is one connection with its two goroutines: one reads for all streams
// and never waits for any of them, one writes for all.
type h2conn struct {
	pool    *h2pool
	nc      net.Conn
	fr      *http2.Framer // the reader's
	company company

	mu   sync.Mutex // guards what follows, and the state of every stream
	wake sync.Cond  // the writer waits for queue, closing or err

	streams map[uint32]*h2stream // those with a number
	next    uint32               // the next number
	open    int                  // streams, from the choice of this connection to their end
	uploads int                  // of these, with an upload
	resets  int                  // streams that we have reset

	maxStreams uint32 // the upstream's setting
	maxHead    uint32 // the same, in bytes as headSize counts them
	window     int64  // bytes that may be sent on all streams
	initial    int64  // the same of a new stream
	received   uint32 // bytes for which no WINDOW_UPDATE was sent yet

	wire int64 // bytes on the wire of the writes that are over
	owed int64 // see owe

	queue   []h2item
	replies int       // of these, what the upstream asked for
	writing time.Time // since when a write runs; zero for none
	hurried bool      // it has a deadline
	watched bool      // passOver is to come

	retired bool // no new stream is to choose it
	goAway  bool // the upstream takes none, not even one that has chosen it
	closing bool // says goodbye once the queue is empty
	err     error
	// writeErr ended the writer; the reader, which ends with err, goes on a little.
	writeErr error
	idle     *time.Timer // runs while open is 0
}

// open makes nc a connection on which need has been taken. The upstream's first
// SETTINGS are waited for: before them nobody knows whether it speaks HTTP/2,
// or how many streams it takes, and a request would be refused or lost. Where
// its windows are too small for what is to leave with the head, need becomes an
// upload.
func (p *h2pool) open(ctx context.Context, nc net.Conn, need *h2need) (*h2conn, error) {
	c := &h2conn{
		pool: p, nc: nc, company: need.company,
		fr:      http2.NewFramer(nil, bufio.NewReaderSize(nc, h2Frame)),
		streams: map[uint32]*h2stream{}, next: 1, open: 1,
		maxStreams: 1 << 30, maxHead: math.MaxUint32, window: h2FirstWindow, initial: h2FirstWindow,
	}
	c.wake.L = &c.mu
	need.last = true
	c.fr.SetReuseFrames()
	c.fr.SetMaxReadFrameSize(h2Frame)
	c.fr.ReadMetaHeaders = hpack.NewDecoder(h2HeaderTable, nil)
	c.fr.MaxHeaderListSize = uint32(max(p.u.maxHeader, h2HardHeader))

	nc.SetDeadline(time.Now().Add(p.setup))
	stop := context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })
	if err := c.handshake(); err != nil {
		stop()
		return nil, fmt.Errorf("no HTTP/2 connection could be set up: %w", err)
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	nc.SetDeadline(time.Time{})
	if c.maxStreams == 0 {
		return nil, errors.New("the upstream allows no streams on a new connection")
	}
	if need.window > min(c.window, c.initial) {
		need.window, need.upload = 0, true // it has to wait for the upstream to read
	}
	c.window -= need.window
	if need.upload {
		c.uploads = 1
	}
	p.add(c) // before the reader may be over, which takes it out again
	go c.readAll()
	go c.writeAll()
	return c, nil
}

func (c *h2conn) handshake() error {
	var out bytes.Buffer
	out.WriteString(http2.ClientPreface)
	w := http2.NewFramer(&out, nil)
	w.WriteSettings(
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: h2StreamWindow},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: uint32(c.pool.u.maxHeader)},
	)
	w.WriteWindowUpdate(0, h2ConnWindow-h2FirstWindow)
	if _, err := c.nc.Write(out.Bytes()); err != nil {
		return err
	}
	f, err := c.fr.ReadFrame()
	if err != nil {
		return err
	}
	settings, ok := f.(*http2.SettingsFrame)
	if !ok || settings.IsAck() {
		return fmt.Errorf("it began with %v, not with SETTINGS", f.Header())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settingsCame(settings)
}

// take takes need, if c has room for it at once.
func (c *h2conn) take(need h2need) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.retired || c.err != nil || uint32(c.open) >= c.maxStreams,
		c.company != need.company, // alone are uploads: see below
		!c.writing.IsZero() && time.Since(c.writing) > c.pool.stuck,
		// The window that is left must do: what others have taken of it may
		// never be given back.
		need.window > min(c.window, c.initial),
		need.upload && (c.uploads > 0 || c.window < h2Frame):
		return false
	}
	if c.idle != nil {
		c.idle.Stop()
	}
	c.open++
	c.window -= need.window
	if need.upload {
		c.uploads++
	}
	return true
}

// refund gives back a part of the window that was not used; mu is held.
func (c *h2conn) refund(n int64) {
	c.window += n
	for _, s := range c.streams {
		s.flowed()
	}
}

// untake is for who has taken need in vain.
func (c *h2conn) untake(need h2need) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refund(need.window)
	c.released(need)
}

// released gives back what a stream has taken; mu is held.
func (c *h2conn) released(need h2need) {
	c.open--
	if need.upload {
		c.uploads--
	}
	if c.open > 0 || c.err != nil {
		return
	}
	ttl := c.pool.u.pool.ttl
	switch {
	case c.retired || ttl == 0:
		c.goodbye()
	case c.idle == nil:
		c.idle = time.AfterFunc(ttl, c.expire)
	default:
		c.idle.Reset(ttl)
	}
}

func (c *h2conn) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == 0 {
		c.goodbye()
	}
}

// retire lets no new stream on c, which ends with its last one.
func (c *h2conn) retire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retired = true
	if c.open == 0 {
		c.goodbye()
	}
}

// goodbye ends a connection without streams; mu is held.
func (c *h2conn) goodbye() {
	if c.closing || c.err != nil {
		return
	}
	c.retired, c.closing = true, true
	c.hurry(h2Goodbye)
	c.wake.Signal()
}

// fail gives the connection up, and every stream with it; mu is held.
func (c *h2conn) fail(err error) {
	if c.err != nil {
		return
	}
	if c.writeErr != nil {
		err = c.writeErr // it came first
	}
	c.err, c.retired = err, true
	c.nc.Close()
	c.wake.Signal()
	if c.idle != nil {
		c.idle.Stop()
	}
	for _, s := range c.streams {
		s.connLost(err)
	}
	for _, it := range c.queue {
		if it.s != nil { // the stream may have no number yet
			it.s.connLost(err)
		}
		if it.told != nil {
			close(it.told)
		}
	}
	c.queue = nil
}

// control queues frames of the connection itself; mu is held. It does not wait.
func (c *h2conn) control(write func(*http2.Framer)) { c.push(h2item{control: write}) }

// reply is control for what the upstream asked for, which has no other bound.
func (c *h2conn) reply(write func(*http2.Framer)) {
	if c.replies++; c.replies > h2MaxReplies {
		c.fail(errFlood)
		return
	}
	c.push(h2item{control: write, reply: true})
}

// push queues it for the writer; mu is held.
func (c *h2conn) push(it h2item) {
	if c.err != nil {
		return
	}
	c.queue = append(c.queue, it)
	if it.head && !c.writing.IsZero() {
		c.watch()
	}
	c.wake.Signal()
}
