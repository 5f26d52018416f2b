package embedded

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// leaseCrash is what a kill at some step would leave, and what was told of as
// on the disk before it.
type leaseCrash struct {
	step    string
	dir     string
	told    map[tokenstore.Key]tokenstore.Lease // not held where it was ended
	granted uint64
}

// leaseCrashes runs a store that folds often and returns what a kill at each
// step would have left. Nothing is under way when it is copied but the fold.
func leaseCrashes(t *testing.T) (all []leaseCrash) {
	dir := t.TempDir()
	var mu sync.Mutex
	told, granted := map[tokenstore.Key]tokenstore.Lease{}, uint64(0)
	seen := map[string]int{}
	reached := func(step string) {
		mu.Lock()
		defer mu.Unlock()
		if seen[step]++; seen[step] <= 6 || step == "marker written" {
			all = append(all, leaseCrash{step, copyStore(t, dir), maps.Clone(told), granted})
		}
	}
	for life := range 3 {
		s := openWith(t, dir, tuning{foldAt: 6, foldChunk: 2}, hooks{reached: reached})
		for i := range 30 {
			key := tokenstore.Key(fmt.Sprint("k", i%7))
			was := lease(t, s, key)
			var l tokenstore.Lease
			switch {
			case was.Held() && i%4 == 0:
				if err := s.EndLease(t.Context(), key, was); err != nil {
					t.Fatal(err)
				}
			case was.Held() && i%4 == 1:
				var err error
				if l, err = s.RenewLease(t.Context(), key, was, time.Hour); err != nil {
					t.Fatal(err)
				}
			default:
				l = grant(t, s, key, was, fmt.Sprint(life, " ", i))
			}
			mu.Lock()
			told[key], granted = l, max(granted, l.Token.Major)
			mu.Unlock()
			if i%5 == 0 {
				acquire(t, s, mark("mark", uint64(life*100+i+1)))
				waitFolded(t, s)
			}
		}
		closed(t, s, life != 1)
	}
	for _, step := range []string{"log made", "fold due", "part of the leases folded", "folded", "old logs removed", "marker written"} {
		if seen[step] < 2 {
			t.Errorf("the step %q came %d times: this run shows nothing", step, seen[step])
		}
	}
	return all
}

// TestLeasesCrashAtEachStep: after a kill at any step each lease is the one
// that was told of, or the next one, which was on its way; and so is the
// counter.
func TestLeasesCrashAtEachStep(t *testing.T) {
	for i, c := range leaseCrashes(t) {
		t.Run(fmt.Sprint(i, " ", c.step), func(t *testing.T) {
			before, err := Verify(c.dir)
			if err != nil || !before.Sound() {
				t.Errorf("Verify = %+v, %v", before, err)
			}
			s := open(t, c.dir)
			newer := 0
			for key, want := range c.told {
				got := lease(t, s, key)
				if got.Same(want) && got.Token == want.Token && got.TTL == want.TTL && got.Holder == want.Holder && got.GrantedAt.Equal(want.GrantedAt) {
					continue
				}
				newer++
			}
			if newer > 1 {
				t.Errorf("%d leases are not as they were told of, and one call was under way", newer)
			}
			held := int64(0)
			_ = s.Leases(t.Context(), func(tokenstore.Key, tokenstore.Lease) bool { held++; return true })
			if held != before.Leases {
				t.Errorf("%d leases are held, and Verify counts %d", held, before.Leases)
			}
			l := grant(t, s, "after", tokenstore.Lease{}, "z")
			if l.Token.Major <= c.granted || l.Token.Major > c.granted+2 {
				t.Errorf("token %v after %d was told of", l.Token, c.granted)
			}
			closed(t, s, true)
			if r, err := Verify(c.dir); err != nil || !r.Sound() || !r.Clean || r.Leases != held+1 {
				t.Errorf("Verify after a clean stop = %+v, %v", r, err)
			}
			if s := open(t, c.dir); !lease(t, s, "after").Same(l) {
				t.Error("the lease did not outlive a clean stop")
			}
		})
	}
}

// TestTornLease cuts a log at each byte of its last frame, which nobody was
// told of: the lease before it stands, and no token comes twice.
func TestTornLease(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	first := grant(t, s, "k", tokenstore.Lease{}, "a")
	whole := s.log.end
	grant(t, s, "k", first, "b")
	end := s.log.end
	name := filepath.Base(s.log.file.Name())
	closed(t, s, false)
	for size := whole; size < end; size++ {
		torn := copyStore(t, dir)
		if err := os.Truncate(filepath.Join(torn, name), size); err != nil {
			t.Fatal(err)
		}
		s := open(t, torn)
		if l := lease(t, s, "k"); !l.Same(first) {
			t.Fatalf("cut at %d: %+v", size, l)
		}
		if next := grant(t, s, "other", tokenstore.Lease{}, "c"); next.Token.Major <= first.Token.Major {
			t.Fatalf("cut at %d: token %v", size, next.Token)
		}
		closed(t, s, true)
	}
}

// The steps of one worker: two grants, a renewal, a grant, an end.
const (
	steps     = 5
	stepRenew = 2
	stepEnd   = 4
)

// grantUntilKilled grants, renews and ends as fast as it can, and prints what
// it was told is on the disk: worker, token, and step.
func grantUntilKilled(dir string) error {
	s, err := Open(Options{Path: dir, Create: true, tuning: tuning{foldAt: 12, foldChunk: 3}})
	if err != nil {
		return err
	}
	fmt.Println("open")
	var print sync.Mutex
	ctx := context.Background()
	for c := range 4 {
		go func() {
			key := tokenstore.Key(fmt.Sprint("worker ", c))
			l, err := s.Lease(ctx, key)
			for n := 0; err == nil; n++ {
				switch n % steps {
				case stepEnd:
					err = s.EndLease(ctx, key, l)
					l = tokenstore.Lease{Token: l.Token}
				case stepRenew:
					l, err = s.RenewLease(ctx, key, l, time.Hour)
				default:
					if !l.Held() {
						l = tokenstore.Lease{}
					}
					l, err = s.GrantLease(ctx, key, l, leaseOf(fmt.Sprint(n)), 0)
				}
				if err == nil {
					print.Lock()
					_, err = fmt.Printf("%d %d %d\n", c, l.Token.Major, n%steps)
					print.Unlock()
				}
			}
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}()
	}
	select {}
}

// TestKillLeases kills a process at random moments. No token comes twice over
// all its lives, those of one worker only grow, and what it was told stands
// there in the next life.
func TestKillLeases(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(5, 6))
	tokens := map[uint64]bool{}
	var last [4]uint64
	did := [4]int{-1, -1, -1, -1} // the last step of each worker
	// A slow disk comes to fewer grants in a life: it gets more lives.
	for life := 0; life < 8 || life < 32 && len(tokens) < 50; life++ {
		var told [4]bool // of a step of this life
		cmd := child(t, "grant until killed", dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var killer *time.Timer
		for in := bufio.NewReader(out); ; {
			line, err := in.ReadString('\n')
			if err != nil {
				break // a last line that the kill has cut reported nothing
			}
			if line == "open\n" {
				killer = time.AfterFunc(time.Duration(rng.IntN(100))*time.Millisecond, func() { _ = cmd.Process.Kill() })
				continue
			}
			var c int
			var n uint64
			var step int
			if _, err := fmt.Sscanf(line, "%d %d %d\n", &c, &n, &step); err != nil {
				t.Fatalf("life %d: the child printed %q", life, line)
			}
			if step != stepRenew && step != stepEnd {
				if n <= last[c] || tokens[n] {
					t.Fatalf("life %d: worker %d has token %d after %d (granted before: %v)", life, c, n, last[c], tokens[n])
				}
				tokens[n], last[c] = true, n
			}
			did[c], told[c] = step, true
		}
		_ = cmd.Wait()
		if killer == nil {
			t.Fatalf("life %d: the child ended before it was killed", life)
		}
		killer.Stop()
		if r, err := Verify(dir); err != nil || !r.Sound() {
			t.Fatalf("Verify = %+v, %v", r, err)
		}
		if life%3 != 2 {
			continue
		}
		s := open(t, copyStore(t, dir))
		for c, step := range did {
			key := tokenstore.Key(fmt.Sprint("worker ", c))
			l := lease(t, s, key)
			asTold := l.Held() == (step != stepEnd && step >= 0) && (!l.Held() || l.Token.Major == last[c] && (step != stepRenew || l.Beat == 1))
			// Or as the next step leaves it, which was on its way.
			next := l.Held() == ((step+1)%steps != stepEnd) && (!l.Held() || l.Token.Major > last[c] || step+1 == stepRenew && l.Beat == 1)
			// Or as the first step of this life leaves it, which grants.
			first := !told[c] && l.Held() && l.Token.Major > last[c]
			if !asTold && !next && !first {
				t.Errorf("life %d: %s has %+v after step %d with token %d", life, key, l, step, last[c])
			}
		}
	}
	if len(tokens) < 50 {
		t.Errorf("only %d grants were reported: this run shows nothing", len(tokens))
	}
}
