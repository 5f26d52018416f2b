package main

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"
	"time"
)

const (
	// queueSize is how many bytes of lines wait for a reader that is slow.
	queueSize = 1 << 20
	// logPatience is how long a line of the log is waited for where none is before
	// it, so that the last one before a crash is not in memory alone; auditPatience
	// the same of one without which nothing may be done.
	logPatience   = 50 * time.Millisecond
	auditPatience = time.Second
)

// errNotRead: nobody may ever see the line.
var errNotRead = errors.New("nobody reads it, or not fast enough")

// logQueue stands between the proxy and whoever reads its log. A pipe that nobody
// drains would stop each goroutine that has something to say, and with them the
// session with a shared store: fencing goes on instead, and lines are dropped,
// counted, and told of by a line of their own once there is room again.
type logQueue struct {
	out io.Writer

	mu      sync.Mutex               // guards what follows
	notice  func(dropped int) []byte // makes the line that tells of dropped ones
	lines   []*queuedLine            // the first is being written
	size    int                      // of them, in bytes
	writing bool                     // a goroutine is at it
	stuck   time.Time                // when a line was waited for in vain; zero once one was written since
	missed  int                      // dropped since the last notice
	dropped int                      // in all
}

// queuedLine is a line on its way.
type queuedLine struct {
	line   []byte
	count  int           // a notice of so many
	sure   bool          // it is waited for, and no line of the log
	err    error         // of its writing
	closed chan struct{} // when it was written, or could not be; nil where nobody waits
}

// Write takes a line of the log, which it does not keep. It never fails.
func (q *logQueue) Write(line []byte) (int, error) {
	if e := q.add(line, false); e != nil && e.closed != nil {
		q.await(e, logPatience)
	}
	return len(line), nil
}

// sureLines are those that must be written: of the audit, where it has no file.
type sureLines struct{ q *logQueue }

// Write fails where it is not known that the line was written.
func (s sureLines) Write(line []byte) (int, error) {
	e := s.q.add(line, true)
	switch {
	case e == nil:
		return 0, errNotRead
	case !s.q.await(e, auditPatience):
		s.q.takeBack(e)
		return 0, errNotRead
	case e.err != nil:
		return 0, e.err
	}
	return len(line), nil
}

// add puts a line at the end; nil where it was dropped, or refused.
func (q *logQueue) add(line []byte, sure bool) *queuedLine {
	q.mu.Lock()
	defer q.mu.Unlock()
	// Sync's has no bytes, and finds room where a notice took more than there was.
	if len(line) > 0 && q.size+len(line) > queueSize || sure && !q.stuck.IsZero() && time.Since(q.stuck) >= auditPatience {
		if !sure {
			q.drop(1)
		}
		return nil
	}
	q.tell()
	e := &queuedLine{line: bytes.Clone(line), sure: sure}
	if sure || !q.writing && q.stuck.IsZero() {
		e.closed = make(chan struct{})
	}
	q.push(e)
	if !q.writing {
		q.writing = true
		go q.drain()
	}
	return e
}

// tell, push and drop are called with the lock held.
func (q *logQueue) tell() {
	if q.missed > 0 {
		q.push(&queuedLine{line: q.notice(q.missed), count: q.missed})
		q.missed = 0
	}
}

func (q *logQueue) push(e *queuedLine) {
	q.lines = append(q.lines, e)
	q.size += len(e.line)
}

func (q *logQueue) drop(n int) {
	q.missed += n
	q.dropped += n
}

// drain writes until nothing is left.
func (q *logQueue) drain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for written := true; ; {
		if len(q.lines) == 0 && written { // else the next line tries again
			q.tell()
		}
		if len(q.lines) == 0 {
			q.lines, q.writing = nil, false
			return
		}
		e := q.lines[0]
		q.mu.Unlock()
		if len(e.line) > 0 {
			_, e.err = q.out.Write(e.line)
		}
		if e.closed != nil {
			close(e.closed)
		}
		q.mu.Lock()
		q.lines, q.size, q.stuck = q.lines[1:], q.size-len(e.line), time.Time{}
		if written = e.err == nil; !written && e.count > 0 {
			q.missed += e.count
		} else if !written && !e.sure {
			q.drop(1)
		}
	}
}

// await waits for a line, and reports whether it had its turn.
func (q *logQueue) await(e *queuedLine, patience time.Duration) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-e.closed:
		return true
	case <-timer.C:
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-e.closed:
		return true
	default:
		if q.stuck.IsZero() {
			q.stuck = time.Now()
		}
		return false
	}
}

// takeBack takes a line out that is not being written yet: what it tells of will
// not be done.
func (q *logQueue) takeBack(e *queuedLine) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.lines, e); i > 0 {
		q.lines = slices.Delete(q.lines, i, i+1)
		q.size -= len(e.line)
	}
}

// tellBy says how a line is written that tells of dropped ones.
func (q *logQueue) tellBy(notice func(dropped int) []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.notice = notice
}

// Sync waits for what is there, at the end of the process: not for ever.
func (q *logQueue) Sync() error {
	if e := q.add(nil, true); e == nil || !q.await(e, auditPatience) {
		return errNotRead
	}
	return nil
}

// lost is how many lines were dropped since the start.
func (q *logQueue) lost() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}
