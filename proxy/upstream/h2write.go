package upstream

import (
	"bytes"
	"fmt"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2Batch is about how many bytes of bodies go into one write.
const h2Batch = 256 << 10

// h2item is what the writer is asked to write.
type h2item struct {
	s    *h2stream // nil for the connection's own frames
	head bool      // the stream's first: it has no number before
	// fields are a head or trailers; data is what follows them.
	fields []hpack.HeaderField
	data   []byte
	end    bool // END_STREAM

	control   func(*http2.Framer)
	told      chan struct{} // see h2stream.told
	reply     bool
	table     bool // the upstream set the size of its HPACK table
	tableSize uint32

	taken bool // it is part of the write that runs
	from  int  // where it begins in that write
}

// h2writer is the writer's own state.
type h2writer struct {
	c     *h2conn
	out   bytes.Buffer
	fr    *http2.Framer // writes to out
	block bytes.Buffer
	enc   *hpack.Encoder // writes to block
}

// writeAll writes what is queued until the connection ends. Being one goroutine
// it gives numbers, heads and the HPACK state one order, and knows of every
// stream how much of it the kernel took. Nothing else waits for a write: who
// gives a stream up leaves its frame to this goroutine.
func (c *h2conn) writeAll() {
	w := &h2writer{c: c}
	w.fr = http2.NewFramer(&w.out, nil)
	w.enc = hpack.NewEncoder(&w.block)
	for {
		items, last := c.due()
		if len(items) == 0 && !last {
			return // the connection is gone
		}
		w.out.Reset()
		for i := range items {
			w.encode(&items[i])
		}
		if last {
			w.fr.WriteGoAway(0, http2.ErrCodeNo, nil)
		}
		n, sealed, err := c.send(w.out.Bytes())
		c.wrote(items, n, sealed, err)
		if last {
			c.end()
		}
		if last || err != nil {
			return
		}
	}
}

// send writes p, and tells what the kernel took: bytes of p, after a failure so
// many at most, and bytes on the wire.
func (c *h2conn) send(p []byte) (n, wire int, err error) {
	s, ok := c.nc.(*secure)
	if !ok {
		n, err = c.nc.Write(p)
		return n, n, err
	}
	sealed, err := s.seal(p)
	if err != nil {
		return 0, 0, err // the records were not given to the kernel
	}
	if wire, err = s.Conn.Write(sealed); wire > 0 {
		n = len(p) // which part of it the records hold cannot be told
	}
	return n, wire, err
}

// due waits for what is to be written. last says that it is the goodbye.
func (c *h2conn) due() (items []h2item, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && len(c.queue) == 0 && !c.closing {
		c.wake.Wait()
	}
	if c.err != nil {
		return nil, false
	}
	n := len(c.queue)
	for i, size := 0, 0; i < n; i++ {
		if size += len(c.queue[i].data); size > h2Batch {
			n = i + 1
		}
	}
	items, c.queue = c.queue[:n:n], c.queue[n:]
	for i := range items {
		if items[i].reply {
			c.replies--
		}
	}
	c.writing = time.Now()
	if len(c.queue) > 0 {
		c.watch() // what came while nothing was written waits for this write as well
	}
	return items, c.closing && len(c.queue) == 0
}

func (w *h2writer) encode(it *h2item) {
	it.from = w.out.Len()
	switch {
	case it.control != nil:
		it.control(w.fr)
	case it.table:
		w.enc.SetMaxDynamicTableSizeLimit(it.tableSize)
	case it.s != nil && w.begin(it):
		it.taken = true
		if it.fields != nil {
			w.writeFields(it)
		}
		w.writeData(it)
	}
}

// begin takes the item into the write, unless its stream is stopped: nothing of
// the request is in use then. The leave to send is asked here, before each part,
// where the write itself comes next.
func (w *h2writer) begin(it *h2item) bool {
	c, s := w.c, it.s
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case s.stopped || s.freed:
		return false
	case it.head && !s.number(it), !it.head && !s.mayGoOn():
		return false
	}
	s.writing = true
	return true
}

// number begins the stream with it, if it may still begin; mu is held. What the
// upstream has said since the connection was chosen holds here: a limit that it
// lowered meanwhile, and that our ACK is about to accept, would be broken by
// the very next frame.
func (s *h2stream) number(it *h2item) bool {
	c, n := s.c, int64(len(it.data))
	switch size := headSize(it.fields); {
	case c.err != nil:
		s.connLost(c.err)
		return false
	case c.goAway: // the number would be above the last one
		s.unprocessed(errRetired)
		return false
	case size > int64(c.maxHead):
		// Servers end the connection for it, and with it what others have there.
		s.lose(ReasonTooLarge, fmt.Errorf("the head of the request has %d bytes as HTTP/2 counts them, and the upstream takes %d", size, c.maxHead))
		return false
	case n > c.initial, len(c.streams) >= int(c.maxStreams):
		s.lose(ReasonReset, errNoRoom)
		return false
	}
	if reason, err := s.leave(); err != nil {
		s.lose(reason, err)
		return false
	}
	s.id = c.next
	c.next += 2
	c.retired = c.retired || c.next > h2LastStream
	c.streams[s.id] = s
	s.window = c.initial - n
	s.left = true
	return true
}

// leave is leave of send.go. MaySend is the caller's code, and a panic here
// would end the process.
func (s *h2stream) leave() (reason Reason, err error) {
	defer func() {
		if p := recover(); p != nil {
			reason, err = ReasonNoLeave, fmt.Errorf("panic while the leave to send was asked: %v", p)
		}
	}()
	return leave(s.ctx, s.r)
}

// mayGoOn is mayGoOn of upload.go; mu is held.
func (s *h2stream) mayGoOn() bool {
	reason, err := s.leave()
	switch {
	case err == nil:
		return true
	case reason == ReasonNoLeave:
		reason, err = ReasonCanceled, errLeaveOver
	}
	s.lose(reason, err)
	return false
}

func (w *h2writer) writeFields(it *h2item) {
	w.block.Reset()
	for _, f := range it.fields {
		w.enc.WriteField(f)
	}
	block := w.block.Next(h2Frame)
	w.fr.WriteHeaders(http2.HeadersFrameParam{
		StreamID: it.s.id, BlockFragment: block,
		EndStream: it.end && len(it.data) == 0, EndHeaders: w.block.Len() == 0,
	})
	for w.block.Len() > 0 {
		block = w.block.Next(h2Frame)
		w.fr.WriteContinuation(it.s.id, w.block.Len() == 0, block)
	}
}

func (w *h2writer) writeData(it *h2item) {
	rest := it.data
	if len(rest) == 0 && (it.fields != nil || !it.end) {
		return
	}
	for {
		data := rest[:min(len(rest), h2Frame)]
		rest = rest[len(data):]
		w.fr.WriteData(it.s.id, it.end && len(rest) == 0, data)
		if len(rest) == 0 {
			return
		}
	}
}

// wrote tells every stream what became of its part of a write.
func (c *h2conn) wrote(items []h2item, n, wire int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing = time.Time{}
	c.wire += int64(wire)
	if c.hurried && !c.closing {
		c.hurried = false
		c.nc.SetWriteDeadline(time.Time{})
	}
	for i := range items {
		it := &items[i]
		if it.told != nil && err == nil {
			close(it.told)
		}
		if !it.taken {
			continue
		}
		if err != nil && it.head && n <= it.from {
			it.s.left = false
		}
		it.s.upTo = c.wire
		if it.s.lost != "" {
			it.s.owe() // it was given up meanwhile
		}
		it.s.written(it.end, err)
	}
	if err != nil {
		// What the upstream said before may still be there to be read, like the
		// refusal of an upload behind which it closed. The reader ends it.
		c.retired, c.writeErr = true, err
		c.nc.SetReadDeadline(time.Now().Add(h2Goodbye))
	}
}
