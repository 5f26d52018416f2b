package shared

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
)

// The figures of shared stores. They are measured, and told, and not held
// against anything: `make bench` shows them. Ratios of one run mean something,
// times on a busy machine little.

// api answers every PUT at once, with as little work as can be.
func api(b *testing.B) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				br := bufio.NewReader(c)
				for {
					req, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					if _, err := io.Copy(io.Discard, req.Body); err != nil {
						return
					}
					if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
						return
					}
				}
			}()
		}
	}()
	return "http://" + ln.Addr().String()
}

// single starts one proxy over an engine, or over an embedded store.
func single(b *testing.B, start func() (engine, error)) *torture.Proxy {
	bin, err := torture.Binary()
	if err != nil {
		b.Fatal(err)
	}
	s := torture.Settings{Upstream: api(b)}
	if start != nil {
		e := newEngine(b, start)
		s.Store.Engine = e.Setting(e.Address())
	}
	p, err := torture.NewProxy(torture.NewHistory(), bin, b.TempDir(), s)
	if err != nil {
		b.Fatal(err)
	}
	if start != nil {
		if _, err := p.Run("store", "init"); err != nil {
			b.Fatal(err)
		}
	}
	b.Cleanup(p.Kill)
	if err := p.Start(); err != nil {
		b.Fatal(err)
	}
	return p
}

// puts sends PUTs of 256 bytes over some connections, for as long as next gives
// keys and tokens, and returns how many were done and how long they took.
func puts(b *testing.B, p *torture.Proxy, connections int, next func(connection int) (key string, token int64, ok bool)) (int64, time.Duration) {
	var wg sync.WaitGroup
	var done atomic.Int64
	begun := time.Now()
	for i := range connections {
		wg.Go(func() {
			c, err := net.Dial("tcp", p.Addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			br := bufio.NewReader(c)
			body := bytes.Repeat([]byte{'b'}, 256)
			var out []byte
			for {
				key, token, ok := next(i)
				if !ok {
					return
				}
				out = fmt.Appendf(out[:0], "PUT /things/%s HTTP/1.1\r\nHost: h\r\nContent-Length: 256\r\nX-Fencing-Token: %d\r\n\r\n", key, token)
				if _, err := c.Write(append(out, body...)); err != nil {
					b.Error(err)
					return
				}
				first := true
				for {
					line, err := br.ReadSlice('\n')
					if err != nil || first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
						b.Errorf("%s with token %d: %q, %v", key, token, line, err)
						return
					}
					if first = false; len(line) == 2 { // the body is empty
						break
					}
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return done.Load(), time.Since(begun)
}

// cpu is the processor time that a process has used.
func cpu(b *testing.B, pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Skipf("only Linux tells what a process has used: %v", err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / 100
}

// ops reads how often a proxy called its store, and for how long in all.
func ops(b *testing.B, p *torture.Proxy, op string) (n, seconds float64) {
	resp, err := http.Get(p.Admin + "/metrics")
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		v, _ := strconv.ParseFloat(value, 64)
		switch name {
		case fmt.Sprintf("fenceproxy_store_seconds_count{op=%q}", op):
			n = v
		case fmt.Sprintf("fenceproxy_store_seconds_sum{op=%q}", op):
			seconds = v
		}
	}
	return n, seconds
}

// BenchmarkRaises is a higher token at each write, on a key for each of some
// connections. What the write before has left is deleted beside it.
func BenchmarkRaises(b *testing.B) {
	for _, store := range []struct {
		name  string
		start func() (engine, error)
	}{{"embedded", nil}, {"etcd", startEtcd}, {"postgres", startPostgres}, {"redis", startRedis}} {
		b.Run(store.name, func(b *testing.B) {
			p := single(b, store.start)
			var n atomic.Int64
			for _, connections := range []int{1, 16} {
				acquires, waited := ops(b, p, "acquire")
				deletes, _ := ops(b, p, "delete")
				end := time.Now().Add(3 * time.Second)
				done, took := puts(b, p, connections, func(connection int) (string, int64, bool) {
					return key(connection), n.Add(1), time.Now().Before(end)
				})
				name := func(what string) string { return fmt.Sprintf("%s/%d", what, connections) }
				b.ReportMetric(float64(done)/took.Seconds(), name("raises-per-s"))
				b.ReportMetric(took.Seconds()*1000*float64(connections)/float64(done), name("ms-a-raise"))
				if store.start == nil {
					continue
				}
				a, w := ops(b, p, "acquire")
				d, _ := ops(b, p, "delete")
				b.ReportMetric((a-acquires)/float64(done), name("acquires-a-raise"))
				b.ReportMetric((d-deletes)/float64(done), name("deletes-a-raise"))
				b.ReportMetric((w-waited)/(a-acquires)*1000, name("ms-an-acquire"))
			}
		})
	}
}

// BenchmarkGrants is 100,000 grants that one proxy holds, of keys of 20 bytes:
// what they take in memory, and what a keepalive costs with them.
func BenchmarkGrants(b *testing.B) {
	const grants = 100_000
	for _, store := range engines {
		b.Run(store.name, func(b *testing.B) {
			p := single(b, store.start)
			keepalive := func() float64 {
				n, s := ops(b, p, "keepalive")
				time.Sleep(9 * time.Second) // three of them
				n2, s2 := ops(b, p, "keepalive")
				return (s2 - s) / (n2 - n) * 1000
			}
			rss := func() float64 {
				kb := 0
				text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
				_, after, _ := strings.Cut(string(text), "VmRSS:")
				_, _ = fmt.Sscan(after, &kb)
				return float64(kb) / 1024
			}
			b.ReportMetric(rss(), "MB-before")
			b.ReportMetric(keepalive(), "ms-keepalive-before")
			var n atomic.Int64
			_, took := puts(b, p, 64, func(int) (string, int64, bool) {
				i := n.Add(1)
				return fmt.Sprintf("account:%012d", i), 1, i <= grants
			})
			b.ReportMetric(took.Seconds(), "s-to-take-them")
			b.ReportMetric(rss(), "MB-with")
			before := cpu(b, p.PID())
			b.ReportMetric(keepalive(), "ms-keepalive-with")
			b.ReportMetric((cpu(b, p.PID())-before).Seconds()/9*100, "%-cpu-idle")
			b.ReportMetric(rss(), "MB-later")
			begun := time.Now()
			p.Terminate()
			if code, err := p.Wait(2 * time.Minute); code != 0 {
				b.Errorf("%d, %v", code, err)
			}
			b.ReportMetric(time.Since(begun).Seconds(), "s-to-stop")
		})
	}
}

// BenchmarkEqualTokens is the throughput of writes with a token that the proxy
// holds, over etcd and over the embedded store, in turns.
func BenchmarkEqualTokens(b *testing.B) {
	const rounds, round, keys = 6, 1500 * time.Millisecond, 1000
	proxies := []*torture.Proxy{single(b, nil), single(b, startEtcd)}
	var writes [2]int64
	var took, used [2]time.Duration
	for i := range 2 * (rounds + 1) {
		which := (i + i/2) % 2 // each of them first, in turns
		p, end, n := proxies[which], time.Now().Add(round), atomic.Int64{}
		before := cpu(b, p.PID())
		done, d := puts(b, p, 32, func(int) (string, int64, bool) {
			return key(int(n.Add(1) % keys)), 7, time.Now().Before(end)
		})
		if i < 2 { // the raises, and what comes to life
			continue
		}
		writes[which] += done
		took[which] += d
		used[which] += cpu(b, p.PID()) - before
	}
	rate := func(i int) float64 { return float64(writes[i]) / took[i].Seconds() }
	each := func(i int) float64 { return float64(used[i].Nanoseconds()) / float64(writes[i]) }
	b.ReportMetric(rate(0), "embedded/s")
	b.ReportMetric(rate(1), "etcd/s")
	b.ReportMetric(rate(1)/rate(0), "ratio")
	b.ReportMetric(each(0), "embedded-cpu-ns")
	b.ReportMetric(each(1), "etcd-cpu-ns")
	b.ReportMetric(each(1)/each(0), "cpu-ratio")
}
