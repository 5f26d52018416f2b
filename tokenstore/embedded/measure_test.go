package embedded

import (
	"errors"
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
// fresh process that opens it: first (killed-) with as much in its logs as they
// take, as a kill at the worst moment leaves them, with the memory before and
// after all of it is folded, and then again, with logs that are nearly empty.
// FENCEPROXY_BENCH_STORE keeps the store in that directory, and measures it
// again where it is there already.
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
	var open, anon, folded, stored float64
	measure := func() {
		out := lines(b, child(b, "measure open", dir))
		if _, err := fmt.Sscan(out[0], &open, &anon, &folded, &stored); err != nil {
			b.Fatal(err)
		}
	}
	fillLogs(b, dir, keys)
	measure()
	killed := []float64{open, anon, folded}
	for b.Loop() {
		measure()
	}
	for i, unit := range []string{"killed-open-ms", "killed-RssAnon-MB", "folded-RssAnon-MB"} {
		b.ReportMetric(killed[i], unit) // Loop drops what was reported before
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
// and in large folds, the rest as a proxy would do it.
func build(b *testing.B, dir string, keys int) {
	began := time.Now()
	s := openWith(b, dir, tuning{foldAt: 200_000, foldBytes: 1 << 30, foldChunk: 20_000}, hooks{})
	rng := rand.New(rand.NewPCG(5, 6))
	const large = 20_000
	order := rng.Perm(keys)
	s.db.NoSync = true
	for at := 0; at < keys; at += large {
		step(b, s, min(large, keys-at), 1, func(i int) int { return order[at+i] })
	}
	if err := s.Close(true); err != nil {
		b.Fatal(err)
	}
	s = open(b, dir)
	for n := range keys / maxBatch / 10 {
		step(b, s, maxBatch, uint64(2+n), func(int) int { return rng.IntN(keys) })
	}
	waitFolded(b, s)
	if err := s.Close(false); err != nil {
		b.Fatal(err)
	}
	b.Logf("built %d keys in %v", keys, time.Since(began).Round(time.Second))
}

// fillLogs leaves as many raises in the logs as a store lets wait for a fold.
func fillLogs(b *testing.B, dir string, keys int) {
	limits := tuning{}.withDefaults()
	s := openWith(b, dir, tuning{foldAt: 1 << 40, foldBytes: 1 << 40}, hooks{})
	waitFolded(b, s)
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 7))
	for current, f := s.recent.maps(); len(current)+f.len() < min((limits.most+1)*limits.foldAt, keys/2); current, f = s.recent.maps() {
		step(b, s, maxBatch, uint64(time.Now().UnixNano()), func(int) int { return rng.IntN(keys) })
	}
	if err := s.Close(false); err != nil {
		b.Fatal(err)
	}
}

// step raises some keys in one step.
func step(b *testing.B, s *Store, size int, token uint64, pick func(i int) int) {
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

// measureOpen prints how long a fresh process takes to open a store, in
// milliseconds, the memory that it then has of its own, in megabytes, the same
// when all is folded, and the number of keys.
func measureOpen(dir string) error {
	began := time.Now()
	s, err := Open(Options{Path: dir})
	took := time.Since(began)
	if err != nil {
		return err
	}
	anon, err := rssAnon()
	if err != nil {
		return err
	}
	for tried, _ := s.recent.trial(); tried != nil; tried, _ = s.recent.trial() {
		<-tried
	}
	folded, err := rssAnon()
	fmt.Println(float64(took.Microseconds())/1000, anon, folded, s.Keys())
	return errors.Join(err, s.Close(false))
}

// rssAnon is the memory of this process, in megabytes.
func rssAnon() (float64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	var kB float64
	_, err = fmt.Sscan(rest, &kB)
	return kB / 1024, err
}
