package proxy

import (
	"encoding/binary"
	"io"
	"net/http"
	"time"
)

// callEnd is how long the end of a call is looked for behind its first message.
const callEnd = 5 * time.Millisecond

// callBody is the body of a gRPC call, which is sent on while the client may
// still be writing: its next message may wait for an answer to the first one.
//
// Most calls have one message. Their end comes with it, but a read gives it
// only after the message, and a server that is quick has answered the message by
// then and takes no end any more: a write that was over would count as
// unsettled. So the read of the first message's last byte waits a little for
// the end, and gives both at once.
type callBody struct {
	body io.Reader

	prefix [5]byte // of the first message: a flag and its length
	got    int64   // bytes of the call, while the first message goes on
	looked bool

	next chan piece // a read that runs on; nil for none
	kept piece      // its result, until it is used up
}

// piece is what one read gave.
type piece struct {
	p   []byte
	err error
}

func (b *callBody) Read(p []byte) (int, error) {
	if b.next != nil {
		b.kept = <-b.next
		b.next = nil
	}
	if len(b.kept.p) > 0 || b.kept.err != nil {
		n := copy(p, b.kept.p)
		b.kept.p = b.kept.p[n:]
		if len(b.kept.p) > 0 {
			return n, nil
		}
		return n, b.kept.err
	}
	n, err := b.body.Read(p)
	if err != nil || !b.messageEnds(p[:n]) {
		return n, err
	}
	b.look()
	if len(b.kept.p) == 0 && b.kept.err == io.EOF {
		return n, io.EOF
	}
	return n, nil
}

// messageEnds reports whether p, the next bytes, end with the first message.
func (b *callBody) messageEnds(p []byte) bool {
	if b.looked {
		return false
	}
	if b.got < int64(len(b.prefix)) {
		copy(b.prefix[b.got:], p)
	}
	b.got += int64(len(p))
	if b.got < int64(len(b.prefix)) {
		return false
	}
	end := int64(len(b.prefix)) + int64(binary.BigEndian.Uint32(b.prefix[1:]))
	b.looked = b.got >= end
	return b.got == end
}

// look waits a little for what comes behind the first message.
func (b *callBody) look() {
	next := make(chan piece, 1)
	go func() {
		p := make([]byte, 4<<10)
		n, err := b.body.Read(p)
		next <- piece{p[:n], err}
	}()
	late := time.NewTimer(callEnd)
	defer late.Stop()
	select {
	case b.kept = <-next:
	case <-late.C:
		b.next = next
	}
}

// close ends a read that still runs. Nothing else reads any more.
func (b *callBody) close(rc *http.ResponseController) {
	if b.next == nil {
		return
	}
	_ = rc.SetReadDeadline(past)
	<-b.next
	b.next = nil
}
