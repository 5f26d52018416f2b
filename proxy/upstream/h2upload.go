package upstream

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/net/http2/hpack"
)

// upload sends a body that does not leave with the head, on a goroutine of its
// own. It never waits for a write of another stream once it is stopped.
func (s *h2stream) upload(fields []hpack.HeaderField) {
	err := s.sendAll(fields)
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	var ce *clientError
	if !errors.As(err, &ce) || s.stopped { // Body fails too when it is interrupted
		s.uploaded("")
		return
	}
	s.stopped = true // there is nothing to interrupt
	close(s.halt)
	s.lose(ReasonClientUpload, err)
	s.uploaded(ReasonClientUpload)
}

func (s *h2stream) sendAll(fields []hpack.HeaderField) (err error) {
	defer func() { // as in exchange.upload
		if p := recover(); p != nil {
			err = &clientError{fmt.Errorf("panic while the body was read: %v", p)}
		}
	}()
	if err := s.put(h2item{head: true, fields: fields}); err != nil {
		return err
	}
	buf := s.c.pool.u.buffers.Get().(*[]byte)
	left := s.r.Length
	for {
		n, err := s.readBody(*buf, &left)
		if err != nil && err != io.EOF {
			return &clientError{err}
		}
		last := err == io.EOF
		if err := s.sendData((*buf)[:n], last && s.r.Trailer == nil); err != nil {
			return err // the writer may have the buffer still
		}
		if last {
			break
		}
	}
	s.c.pool.u.buffers.Put(buf)
	if s.r.Trailer != nil {
		return s.sendTrailer()
	}
	return nil
}

// readBody reads some of the body, and returns io.EOF with the last of it.
func (s *h2stream) readBody(p []byte, left *int64) (int, error) {
	if *left < 0 {
		return readSome(s.r.Body, p)
	}
	if *left == 0 {
		return 0, io.EOF
	}
	n, err := readSome(s.r.Body, p[:min(int64(len(p)), *left)])
	*left -= int64(n)
	switch {
	case *left == 0:
		return n, io.EOF
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
		fallthrough
	case err != nil:
		return n, fmt.Errorf("%d bytes short of its Content-Length: %w", *left, err)
	}
	return n, nil
}

func (s *h2stream) sendData(p []byte, last bool) error {
	if len(p) == 0 && last {
		return s.put(h2item{end: true})
	}
	for len(p) > 0 {
		n, err := s.reserve(len(p))
		if err != nil {
			return err
		}
		if err := s.put(h2item{data: p[:n], end: last && n == len(p)}); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

func (s *h2stream) sendTrailer() error {
	fields, err := trailerFields(s.r.Trailer())
	if err != nil {
		return &clientError{err}
	}
	return s.put(h2item{fields: fields, end: true})
}

// reserve waits until the upstream takes between 1 and n bytes more.
func (s *h2stream) reserve(n int) (int, error) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for waiting := false; ; waiting = true {
		if s.stopped {
			return 0, errStopped
		}
		if free := min(int64(n), h2Frame, s.window, c.window); free > 0 {
			s.window -= free
			c.window -= free
			return int(free), nil
		}
		if !waiting {
			s.arm()
		}
		s.wait(s.halt)
	}
}

// wait lets the lock go until something has happened.
func (s *h2stream) wait(halt <-chan struct{}) {
	s.c.mu.Unlock()
	select {
	case <-s.flow:
	case <-halt:
	}
	s.c.mu.Lock()
}

// put has a part of the request written, and waits for it. Once the upload is
// stopped, it waits only for a write that runs and may be the last.
func (s *h2stream) put(it h2item) error {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.stopped {
		c.refund(int64(len(it.data))) // it was reserved before
		return errStopped
	}
	s.queue(it)
	for s.pending {
		if s.stopped && !s.writing {
			c.refund(int64(len(it.data))) // the writer will pass it over
			return errStopped
		}
		if s.lost != "" {
			return errStopped
		}
		halt := s.halt
		if s.stopped {
			halt = nil
		}
		s.wait(halt)
	}
	if s.stopped {
		return errStopped
	}
	if !it.end {
		s.disarm() // it is the client's turn
	}
	return nil
}

// queue hands a part of the request to the writer; mu is held. The upstream has
// its time anew with every part.
func (s *h2stream) queue(it h2item) {
	if s.c.err != nil {
		s.connLost(s.c.err)
		return
	}
	it.s = s
	s.pending = true
	s.arm()
	s.c.push(it)
}
