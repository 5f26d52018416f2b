package torture

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// relayed is how many bytes of one way a relay keeps at the most while it
// passes none on. A side that sends more has to wait, and its leaving is not
// noticed until then.
const relayed = 4 << 20

// link is one connection: its two halves, and the way from each to the other.
type link struct {
	near, far net.Conn // of who dialed, and of who was dialed
	ways      [2]*way
	ended     int // ways; guarded by relay.mu
}

// snap breaks both halves off. The far one comes first: a backend must not hear
// later than the proxy that they have lost sight of each other.
func (l *link) snap() {
	breakOff(l.far)
	breakOff(l.near)
}

func (l *link) shut() { _, _ = l.far.Close(), l.near.Close() }

func (l *link) wake() {
	for _, w := range l.ways {
		w.change.Broadcast()
	}
}

func breakOff(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// way is one direction of one connection.
type way struct {
	relay    *Relay
	link     *link
	from, to net.Conn
	drops    bool // what is under way is lost when from leaves

	// The writer's alone.
	harm   Harm
	passed int
	mute   bool // nothing is passed on any more

	change *sync.Cond // on relay.mu, which guards what follows
	bytes  []byte
	err    error // from has ended
	over   bool  // what is under way is lost
}

var relayBuffers = sync.Pool{New: func() any { return new([16 << 10]byte) }}

// read takes bytes in while they are held, too, so that it notices who leaves.
func (w *way) read() {
	r := w.relay
	buf := relayBuffers.Get().(*[16 << 10]byte)
	defer relayBuffers.Put(buf)
	for {
		n, err := w.from.Read(buf[:])
		r.mu.Lock()
		w.bytes = append(w.bytes, buf[:n]...)
		w.err = err
		if err != nil && w.drops {
			w.over = true
			w.link.snap()
		}
		w.change.Broadcast()
		for len(w.bytes) > relayed && !w.over && !r.closed {
			w.change.Wait()
		}
		stop := err != nil || w.over || r.closed
		r.mu.Unlock()
		if stop {
			return
		}
	}
}

// write passes them on, and the end of from behind them.
func (w *way) write() {
	defer w.end()
	for {
		bytes, err, ok := w.next()
		switch {
		case !ok:
			return
		case len(bytes) > 0:
			w.pass(bytes)
		case errors.Is(err, syscall.ECONNRESET):
			w.link.snap()
			return
		default:
			if !w.mute {
				w.finish()
			}
			return
		}
	}
}

// next waits for what can be passed on; it is false when nothing can any more.
func (w *way) next() (bytes []byte, err error, ok bool) {
	r := w.relay
	r.mu.Lock()
	defer r.mu.Unlock()
	for (r.held || len(w.bytes) == 0 && w.err == nil) && !w.over && !r.closed {
		w.change.Wait()
	}
	bytes, w.bytes = w.bytes, nil
	w.change.Broadcast()
	return bytes, w.err, !w.over && !r.closed
}

// pass passes bytes on, up to where the way is harmed. A receiver that is not
// there any more costs this way alone: what it has said may still be heard.
func (w *way) pass(bytes []byte) {
	if w.harm.How != "" && w.passed+len(bytes) > w.harm.After {
		h := w.harm
		w.harm = Harm{}
		n := max(0, h.After-w.passed)
		w.send(bytes[:n])
		bytes = bytes[n:]
		w.suffer(h)
	}
	w.send(bytes)
}

func (w *way) send(bytes []byte) {
	if w.mute || len(bytes) == 0 {
		return
	}
	w.passed += len(bytes)
	if _, err := w.to.Write(bytes); err != nil {
		w.mute = true
	}
}

// suffer does the harm.
func (w *way) suffer(h Harm) {
	if w.mute {
		return
	}
	if told := w.relay.opts.Told; told != nil {
		told(h)
	}
	switch h.How {
	case HarmDelay:
		time.Sleep(h.Wait)
		w.relay.mu.Lock()
		w.mute = w.over
		w.relay.mu.Unlock()
	case HarmCut:
		w.mute = true
		w.link.shut()
	case HarmReset:
		w.mute = true
		w.link.snap()
	case HarmTruncate:
		w.finish()
		w.mute = true
	}
}

// finish tells the receiver that nothing more comes; it may still speak itself.
func (w *way) finish() {
	if tcp, ok := w.to.(*net.TCPConn); !ok || tcp.CloseWrite() != nil {
		w.link.shut()
	}
}

func (w *way) end() {
	w.relay.mu.Lock()
	defer w.relay.mu.Unlock()
	w.over = true
	w.change.Broadcast()
	if w.link.ended++; w.link.ended == len(w.link.ways) {
		w.link.shut()
		delete(w.relay.links, w.link)
	}
}
