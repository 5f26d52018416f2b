package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestOrders is TestH2Orders over HTTP/1.1.
func TestOrders(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 50
	}
	for seed := range seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOrder(t, seed)
				o.leave = 2 * ordersLife
				u := newUpstream(t, "http://127.0.0.1:1")
				u.dial = o.dialHTTP1
				o.play(u)
				for _, w := range o.told {
					o.check(w)
				}
			})
		})
	}
}

// dialHTTP1 makes a connection to an upstream of its own.
func (o *order) dialHTTP1(context.Context) (net.Conn, error) {
	o.pause(5)
	if o.one(20) {
		return nil, errors.New("no connection")
	}
	near, far := net.Pipe()
	p := &peer1{Conn: far, o: o, ended: make(chan struct{})}
	go p.play()
	return &unsteady{Conn: near, o: o, broken: &p.broken}, nil
}

// peer1 is the upstream's end of one connection, which takes one request.
type peer1 struct {
	net.Conn
	o      *order
	broken atomic.Bool
	ended  chan struct{} // closed when the request's end came
}

func (p *peer1) play() {
	time.AfterFunc(ordersLife-time.Duration(p.o.roll(300))*time.Millisecond, p.end)
	q, err := http.ReadRequest(bufio.NewReader(p))
	if err != nil {
		return
	}
	name := q.Header.Get("X-Name")
	p.o.count(name, 1)
	go p.answer(name)
	if p.o.one(4) {
		time.Sleep(time.Duration(p.o.roll(300)) * time.Millisecond) // it does not read on for a while
	}
	if _, err := io.Copy(io.Discard, q.Body); err == nil {
		p.o.note(p.o.whole, name)
		close(p.ended)
	}
}

func (p *peer1) end() {
	p.broken.Store(true)
	p.o.pause(3)
	p.Close()
}

// answer is one of the answers that there are, early or when the request's end
// has come.
func (p *peer1) answer(name string) {
	if p.o.one(2) {
		select {
		case <-p.ended:
		case <-time.After(ordersLife):
		}
	}
	p.o.pause(20)
	if p.o.one(8) {
		io.WriteString(p, "HTTP/1.1 103 Early Hints\r\n\r\n")
	}
	status := "HTTP/1.1 " + []string{"200", "202", "404", "413"}[p.o.roll(4)] + " X\r\n"
	say := func(whole bool, text string) {
		if whole {
			p.o.note(p.o.said, name)
		}
		io.WriteString(p, text)
	}
	switch p.o.roll(7) {
	case 0: // none
	case 1, 2:
		say(true, status+"Content-Length: 0\r\n\r\n")
	case 3:
		say(false, status+"Content-Length: 2\r\n\r\no")
		p.o.pause(20)
		say(true, "k")
	case 4:
		say(false, status+"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n")
		p.o.pause(20)
		say(true, "0\r\nX-Sum: 1\r\n\r\n")
	case 5:
		say(true, status+"\r\nuntil its end")
		p.o.pause(20)
		p.end()
	case 6:
		say(false, status+"Content-Length: 5\r\n\r\nok")
	}
	if p.o.one(3) {
		p.o.pause(5)
		p.end()
	}
}
