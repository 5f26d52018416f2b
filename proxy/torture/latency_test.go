package torture

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkFenceLatency is what the fence adds to a write with a token that was
// seen before: one connection to a fenced rule and one to a rule without a
// fence, of one proxy, written to in turn. Medians of many turns: what else the
// machine does meets both alike.
func BenchmarkFenceLatency(b *testing.B) {
	const turns = 20_000
	p := sized(b, Settings{})
	fenced := newPinger(b, p.Addr, "PUT /things/1", "X-Fencing-Token: 1\r\n")
	open := newPinger(b, p.Addr, "PUT /open/1", "")
	for b.Loop() {
		fenced.times, open.times = fenced.times[:0], open.times[:0]
		for i := range turns {
			if i%2 == 0 { // neither is always the one behind the other
				fenced.ping()
				open.ping()
			} else {
				open.ping()
				fenced.ping()
			}
		}
		with, without := fenced.median(), open.median()
		b.ReportMetric(with, "fenced-µs")
		b.ReportMetric(without, "open-µs")
		b.ReportMetric(with-without, "added-µs")
	}
}

// pinger is one client that sends the same write again and again.
type pinger struct {
	*testing.B
	conn  net.Conn
	br    *bufio.Reader
	write []byte
	times []time.Duration // each from the write to the whole answer
}

func newPinger(b *testing.B, addr, line, header string) *pinger {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	body := strings.Repeat("x", 256)
	write := fmt.Sprintf("%s HTTP/1.1\r\nHost: a\r\n%sContent-Length: %d\r\n\r\n%s", line, header, len(body), body)
	return &pinger{B: b, conn: c, br: bufio.NewReader(c), write: []byte(write)}
}

func (p *pinger) ping() {
	start := time.Now()
	if _, err := p.conn.Write(p.write); err != nil {
		p.Fatal(err)
	}
	res, err := http.ReadResponse(p.br, nil)
	if err != nil {
		p.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
		p.Fatal(res.Status, err)
	}
	p.times = append(p.times, time.Since(start))
}

// median is in microseconds.
func (p *pinger) median() float64 {
	slices.Sort(p.times)
	return float64(p.times[len(p.times)/2].Nanoseconds()) / 1e3
}
