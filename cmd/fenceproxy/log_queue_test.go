package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipe takes a line whenever it is read, or fails.
type pipe struct {
	read chan struct{}
	err  error
	took bytes.Buffer
}

func (p *pipe) Write(line []byte) (int, error) {
	<-p.read
	if p.err != nil {
		return 0, p.err
	}
	return p.took.Write(line)
}

func newQueue(p *pipe) *logQueue {
	return &logQueue{out: p, notice: func(n int) []byte { return fmt.Appendf(nil, "dropped %d\n", n) }}
}

// took is how long f took, of the time that passes while everything waits.
func took(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// Nobody reads: the log is waited for once, and no line of the audit counts as
// written. Then somebody does, and gets what there was room for, and how many
// lines there was none for.
func TestLogQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipe{read: make(chan struct{})}
		q := newQueue(p)
		say := func(s string) time.Duration {
			return took(func() {
				if n, err := q.Write([]byte(s)); err != nil || n != len(s) {
					t.Errorf("Write = %d, %v", n, err)
				}
			})
		}
		surely := func() (err error) {
			_, err = sureLines{q}.Write([]byte("audit\n"))
			return err
		}
		if d := say("one\n"); d != logPatience {
			t.Errorf("the first line was waited for %v", d)
		}
		if d := say("two\n"); d != 0 {
			t.Errorf("the second line was waited for %v", d)
		}
		for _, most := range []time.Duration{auditPatience, 0} {
			if d := took(func() {
				if err := surely(); !errors.Is(err, errNotRead) {
					t.Errorf("an audit line that nobody reads: %v", err)
				}
			}); d > most {
				t.Errorf("an audit line was waited for %v", d)
			}
		}
		big := strings.Repeat("x", queueSize/4) + "\n"
		for range 6 { // three have room
			if d := say(big); d != 0 {
				t.Errorf("a line was waited for %v", d)
			}
		}
		if got := q.lost(); got != 3 {
			t.Errorf("%d lines were dropped, want 3", got)
		}
		if d := took(func() { _ = q.Sync() }); d > auditPatience {
			t.Errorf("the end was waited for %v", d)
		}
		close(p.read)
		synctest.Wait()
		if err := q.Sync(); err != nil {
			t.Error(err)
		}
		if d := say("three\n"); d != 0 {
			t.Errorf("a line that is read was waited for %v", d)
		}
		if err := surely(); err != nil {
			t.Error(err)
		}
		if got := strings.ReplaceAll(p.took.String(), big, "big\n"); got != "one\ntwo\nbig\nbig\nbig\ndropped 3\nthree\naudit\n" {
			t.Errorf("it was read: %s", got)
		}
	})
}

// A full disk takes no line. What was lost is told of as soon as it takes one,
// and an audit line is known not to be there.
func TestLogQueueOverAFullDisk(t *testing.T) {
	p := &pipe{read: make(chan struct{}), err: errors.New("no space left")}
	close(p.read)
	q := newQueue(p)
	for range 3 {
		if _, err := q.Write([]byte("lost\n")); err != nil {
			t.Error(err)
		}
	}
	if _, err := (sureLines{q}).Write([]byte("audit\n")); !errors.Is(err, p.err) {
		t.Errorf("an audit line: %v", err)
	}
	if err := q.Sync(); err != nil {
		t.Error(err)
	}
	for writing := true; writing; { // a notice may be, behind what Sync has waited for
		q.mu.Lock()
		if writing = q.writing; !writing {
			p.err = nil
		}
		q.mu.Unlock()
	}
	_, _ = q.Write([]byte("there\n"))
	_ = q.Sync()
	if got := p.took.String(); got != "dropped 3\nthere\n" || q.lost() != 3 {
		t.Errorf("dropped %d, and on the disk is %q", q.lost(), got)
	}
}

// The end waits for what is there also where a notice has made the queue fuller
// than it may be.
func TestSyncOfAFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipe{read: make(chan struct{})}
		q := newQueue(p)
		say := func(line string) { _, _ = q.Write([]byte(line)) }
		say("one\n")
		say(strings.Repeat("b", queueSize-len("one\n")-1) + "\n")
		say("lost\n")
		p.read <- struct{}{} // there is room for a line of four bytes, and no notice
		synctest.Wait()
		say("two\n")
		if q.size <= queueSize {
			t.Fatal("the queue is not full: this shows nothing")
		}
		go close(p.read)
		if err := q.Sync(); err != nil {
			t.Error(err)
		}
		if !strings.HasSuffix(p.took.String(), "dropped 1\ntwo\n") {
			t.Error("the end was not waited for")
		}
	})
}
