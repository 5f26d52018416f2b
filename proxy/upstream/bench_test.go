package upstream

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BenchmarkPut sends a PUT of 256 bytes over loopback to a small server of the
// standard library, by this package and by http.Transport (with connections
// kept, and with a fresh one for each request). cpu-ns/op is the CPU time of the
// whole process, the upstream's part included, so compare it between the rows
// of one run only.
//
//	go test -run '^$' -bench Put -count 3 ./proxy/upstream
func BenchmarkPut(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Write([]byte("ok"))
	}))
	defer s.Close()
	body := bytes.Repeat([]byte("x"), 256)

	send := func(b *testing.B, idle time.Duration) {
		u := newUpstream(b, s.URL)
		u.pool.ttl = idle
		defer u.Close()
		cpu(b, func() {
			r := put()
			r.Body, r.Length = bytes.NewReader(body), int64(len(body))
			a, err := u.Send(context.Background(), r)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, a); err != nil || a.Outcome().Fate != Settled {
				b.Fatal(err, a.Outcome())
			}
			a.Close()
		})
	}
	transport := func(keepAlive bool) func(b *testing.B) {
		return func(b *testing.B) {
			t := &http.Transport{DisableCompression: true, DisableKeepAlives: !keepAlive, DialContext: (&net.Dialer{}).DialContext}
			defer t.CloseIdleConnections()
			cpu(b, func() {
				r, _ := http.NewRequest("PUT", s.URL+"/accounts/42?x=%61", bytes.NewReader(body))
				r.Header.Set("X-Fencing-Token", "7")
				resp, err := t.RoundTrip(r)
				if err != nil {
					b.Fatal(err)
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			})
		}
	}
	b.Run("upstream-fresh", func(b *testing.B) { send(b, 0) })
	b.Run("upstream-kept", func(b *testing.B) { send(b, time.Minute) })
	b.Run("transport-fresh", transport(false))
	b.Run("transport-kept", transport(true))
}

// BenchmarkHead is the writing of a request's head alone.
func BenchmarkHead(b *testing.B) {
	u := newUpstream(b, "http://127.0.0.1")
	r := put()
	r.Header = http.Header{"X-Fencing-Token": {"7"}, "User-Agent": {"curl/8"}, "Accept": {"*/*"}, "Content-Type": {"application/json"},
		"X-Request-Id": {strings.Repeat("a", 36)}}
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := u.appendHead(buf[:0], r); err != nil {
			b.Fatal(err)
		}
	}
}

// cpu runs f b.N times and reports the process's CPU time per run.
func cpu(b *testing.B, f func()) {
	b.ReportAllocs()
	var before, after syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	for b.Loop() {
		f()
	}
	syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	used := func(r syscall.Rusage) time.Duration {
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	b.ReportMetric(float64(used(after)-used(before))/float64(b.N), "cpu-ns/op")
}
