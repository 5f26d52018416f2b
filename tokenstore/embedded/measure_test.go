package embedded

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// BenchmarkSize builds a store of a million keys of 20 bytes, or as many as
// FENCEPROXY_BENCH_KEYS says, raises some of them at random, and measures a
// fresh process that opens it. FENCEPROXY_BENCH_STORE keeps the store in that
// directory, and measures it again where it is there already.
func BenchmarkSize(b *testing.B) {
	keys := 1_000_000
	if s := os.Getenv("FENCEPROXY_BENCH_KEYS"); s != "" {
		var err error
		if keys, err = strconv.Atoi(s); err != nil {
			b.Fatal(err)
		}
	}
	dir := os.Getenv("FENCEPROXY_BENCH_STORE")
	if dir == "" {
		dir = b.TempDir()
	}
	if _, err := os.Stat(filepath.Join(dir, storeFile)); err != nil {
		build(b, dir, keys)
	}
	var open, anon, stored float64
	for b.Loop() {
		out := lines(b, child(b, "measure open", dir))
		if _, err := fmt.Sscan(out[0], &open, &anon, &stored); err != nil {
			b.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(dir, storeFile))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(stored, "keys")
	b.ReportMetric(float64(info.Size())/stored, "bytes/key")
	b.ReportMetric(open, "open-ms")
	b.ReportMetric(anon, "RssAnon-MB")
	b.ReportMetric(0, "ns/op")
}

// build makes a store of keys in random order. Most of it goes without syncs
// and in large steps, the rest as a proxy would do it.
func build(b *testing.B, dir string, keys int) {
	began := time.Now()
	s := open(b, dir)
	rng := rand.New(rand.NewPCG(5, 6))
	step := func(size int, token uint64, pick func(i int) int) {
		marks := make([]tokenstore.Mark, 0, size)
		seen := make(map[int]bool, size)
		for i := range size {
			if k := pick(i); !seen[k] {
				seen[k] = true
				marks = append(marks, mark(benchKey(k), token))
			}
		}
		acquire(b, s, marks...)
	}
	const large = 20_000
	order := rng.Perm(keys)
	s.db.NoSync = true
	for at := 0; at < keys; at += large {
		step(min(large, keys-at), 1, func(i int) int { return order[at+i] })
	}
	for n := range keys / large / 10 {
		step(large, uint64(2+n), func(int) int { return rng.IntN(keys) })
	}
	s.db.NoSync = false
	for n := range 30 {
		step(maxBatch, uint64(keys+n), func(int) int { return rng.IntN(keys) })
	}
	if err := s.Close(false); err != nil {
		b.Fatal(err)
	}
	b.Logf("built %d keys in %v", keys, time.Since(began).Round(time.Second))
}

// measureOpen prints how long a fresh process takes to open a store, in
// milliseconds, and the memory that it then has of its own, in megabytes.
func measureOpen(dir string) error {
	began := time.Now()
	s, err := Open(Options{Path: dir})
	took := time.Since(began)
	if err != nil {
		return err
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	var anon float64
	if _, err := fmt.Sscan(rest, &anon); err != nil {
		return err
	}
	fmt.Println(float64(took.Microseconds())/1000, anon/1024, s.Keys())
	return s.Close(false)
}
