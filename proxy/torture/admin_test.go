package torture

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// loaders are the connections that load the proxy as wrk does it: each sends its
// next write when the last one is answered.
const loaders = 32

// load sends the writes that next makes, until that makes one without a token.
// Each must be answered 200.
func load(b testing.TB, addr string, next func() (key, token int64)) (answered *atomic.Int64, wait func()) {
	answered = new(atomic.Int64)
	var all sync.WaitGroup
	body := strings.Repeat("x", 256)
	for range loaders {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		all.Go(func() {
			defer c.Close()
			for br := bufio.NewReader(c); ; answered.Add(1) {
				key, token := next()
				if token == 0 {
					return
				}
				fmt.Fprintf(c, "PUT /things/%d HTTP/1.1\r\nHost: a\r\nX-Fencing-Token: %d\r\nContent-Length: %d\r\n\r\n%s", key, token, len(body), body)
				res, err := http.ReadResponse(br, nil)
				if err == nil {
					_, err = io.Copy(io.Discard, res.Body)
				}
				if err != nil || res.StatusCode != http.StatusOK {
					b.Errorf("key %d: %v %v", key, res, err)
					return
				}
			}
		})
	}
	b.Cleanup(all.Wait) // runs before the cleanup that ends the proxy
	return answered, all.Wait
}

// until makes what next does, until the stop.
func until(stop *atomic.Bool, next func() (key, token int64)) func() (key, token int64) {
	return func() (int64, int64) {
		if stop.Load() {
			return 0, 0
		}
		return next()
	}
}

// cpu is the processor time that the process has taken.
func (p *Proxy) cpu(b *testing.B) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		b.Fatalf("only Linux tells what a process has taken: %v", err)
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name may hold spaces
	fields := strings.Fields(rest)
	const utime, stime = 11, 12 // counted behind the name
	const tick = 10 * time.Millisecond
	var sum time.Duration
	for _, i := range []int{utime, stime} {
		n, err := strconv.Atoi(fields[i])
		if err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(n) * tick
	}
	return sum
}

// BenchmarkAdminCPU is what the operator's side takes of the processor at full
// load: /metrics scraped every second, and one keys list of 1,000 keys. A second
// with it and one without, in turn, tell whether it can be seen at all; what one
// scrape and one list take is measured when the load is over, many times, since
// it is too little to be seen under it.
func BenchmarkAdminCPU(b *testing.B) {
	const turns, keys, scrapes = 10, 1000, 200
	p := sized(b, Settings{})
	var n atomic.Int64
	get := func(path string) int {
		res, err := http.Get(p.Admin + path)
		if err != nil {
			b.Fatal(err)
		}
		defer res.Body.Close()
		size, err := io.Copy(io.Discard, res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			b.Fatal(path, res.Status, err)
		}
		return int(size)
	}
	for b.Loop() {
		var stop atomic.Bool
		answered, wait := load(b, p.Addr, until(&stop, func() (int64, int64) { return n.Add(1) % keys, 1 }))
		time.Sleep(time.Second) // every key has its record
		var took [2][]float64   // CPU of a write, without and with
		var busy time.Duration
		start := time.Now()
		for i := range 2 * turns {
			from, before := p.cpu(b), answered.Load()
			end := time.After(time.Second)
			if i%2 == 1 {
				get("/metrics")
			}
			if i == 1 {
				get("/v1/keys?limit=1000")
			}
			<-end
			spent := p.cpu(b) - from
			busy += spent
			took[i%2] = append(took[i%2], float64(spent.Nanoseconds())/1e3/float64(answered.Load()-before))
		}
		for i := range took {
			slices.Sort(took[i])
		}
		share := busy.Seconds() / time.Since(start).Seconds()
		rate := float64(answered.Load()) / time.Since(start).Seconds()
		stop.Store(true)
		wait()

		size, from := 0, p.cpu(b)
		for range scrapes {
			size = get("/metrics")
		}
		scrape := (p.cpu(b) - from).Seconds() / scrapes
		from = p.cpu(b)
		for range scrapes {
			get("/v1/keys?limit=1000")
		}
		listing := (p.cpu(b) - from).Seconds() / scrapes
		b.ReportMetric(rate, "writes/s")
		b.ReportMetric(100*share, "%CPU-of-the-proxy")
		b.ReportMetric(took[0][turns/2], "µs/write")
		b.ReportMetric(took[1][turns/2], "µs/write-scraped")
		b.ReportMetric(float64(size), "B/scrape")
		b.ReportMetric(scrape*1e3, "ms/scrape")
		b.ReportMetric(listing*1e3, "ms/list")
		b.ReportMetric(100*scrape/share, "%-of-its-CPU-for-scrapes")
	}
}

// benchKeys is how many keys BenchmarkKeysList lists.
func benchKeys(b *testing.B) int64 {
	text := os.Getenv("FENCEPROXY_BENCH_KEYS")
	if text == "" {
		return 1_000_000
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkKeysList is fenceproxy keys list over a proxy with a million keys,
// while one client raises, each write with a token of its own: how long its
// writes take beside the list, without it, and beside two programs that only take
// the processor from them, as the list does too; and what either process needs
// in memory.
func BenchmarkKeysList(b *testing.B) {
	keys := benchKeys(b)
	p := sized(b, Settings{})
	var n atomic.Int64
	_, wait := load(b, p.Addr, func() (int64, int64) {
		if key := n.Add(1); key <= keys {
			return key, 1
		}
		return 0, 0
	})
	wait()
	time.Sleep(2 * time.Second) // the last fold
	token := 1
	raise := newPinger(b, p.Addr, "", "")
	raises := func(until func() bool) {
		for raise.times = raise.times[:0]; !until(); {
			token++
			raise.write = fmt.Appendf(nil, "PUT /things/7 HTTP/1.1\r\nHost: a\r\nX-Fencing-Token: %d\r\nContent-Length: 0\r\n\r\n", token)
			raise.ping()
		}
		slices.Sort(raise.times)
	}
	report := func(what string) {
		at := func(q float64) float64 {
			return float64(raise.times[int(q*float64(len(raise.times)-1))].Microseconds())
		}
		b.ReportMetric(at(0.5), "µs-raise"+what)
		b.ReportMetric(at(0.99), "µs-p99"+what)
		b.ReportMetric(at(1), "µs-longest"+what)
	}
	for b.Loop() {
		start := time.Now()
		raises(func() bool { return time.Since(start) > 3*time.Second })
		report("-alone")
		stopBusy := busy(b, 2)
		start = time.Now()
		raises(func() bool { return time.Since(start) > 3*time.Second })
		stopBusy()
		report("-beside-busy")
		before := p.rss(b, "RssAnon")
		cmd := exec.Command(p.binary, "keys", "list", "--output", "json", "--admin", p.Admin)
		lines := &counter{}
		cmd.Stdout = lines
		start = time.Now()
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		most := before
		var over atomic.Bool
		go func() {
			if err := <-ended; err != nil {
				b.Error(err)
			}
			over.Store(true)
		}()
		raises(func() bool {
			most = max(most, p.rss(b, "RssAnon"))
			return over.Load()
		})
		report("")
		if lines.n < keys {
			b.Fatalf("%d of %d keys are listed", lines.n, keys)
		}
		b.ReportMetric(time.Since(start).Seconds(), "s/list")
		b.ReportMetric(float64(most-before)/megabyte, "grown-MB")
		b.ReportMetric(float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)/1024, "MB-of-the-command")
	}
}

// busy starts n programs that do nothing, as fast as they can.
func busy(b *testing.B, n int) (stop func()) {
	var all []*exec.Cmd
	stop = func() {
		for _, cmd := range all {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		all = nil
	}
	b.Cleanup(stop)
	for range n {
		cmd := exec.Command("/bin/sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		all = append(all, cmd)
	}
	return stop
}

// counter counts lines.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(bytes.Count(p, []byte{'\n'}))
	return len(p), nil
}
