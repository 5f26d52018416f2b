package embedded

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// raiseUntilKilled raises as fast as it can and prints what it was told is on
// the disk, after it was told. It rotates and folds as often as it can.
func raiseUntilKilled(dir string) error {
	s, err := Open(Options{Path: dir, Create: true, tuning: tuning{foldAt: 12, foldChunk: 3}})
	if err != nil {
		return err
	}
	fmt.Printf("recovered %v\n", s.Recovered())
	var print sync.Mutex
	for c := range 4 {
		go func() {
			key := tokenstore.Key(fmt.Sprintf("key %d", c))
			other := tokenstore.Key(fmt.Sprintf("other %d", c))
			// The others take turns, so that the logs have many keys.
			turn := func(n uint64) tokenstore.Key { return tokenstore.Key(fmt.Sprintf("turn %d %d", c, n%turns)) }
			rec, _, err := s.Load(context.Background(), key)
			for n := rec.Highest.Major + 1; err == nil; n++ {
				_, err = s.Acquire(context.Background(), []tokenstore.Mark{mark(key, n), mark(other, n), mark(turn(n), n)})
				if err == nil {
					print.Lock()
					_, err = fmt.Printf("%d %d\n", c, n)
					print.Unlock()
				}
			}
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}()
	}
	select {}
}

const turns = 50

// TestKill kills a process at random moments: what it had reported as durable
// is there in its next life, all keys of a step always together, and the
// marker of a clean stop is not.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 2))
	var reported [4]uint64
	total, folded := 0, uint64(0)
	// A busy machine comes to fewer folds in a life: it gets more lives.
	for life := 0; life < 12 || life < 48 && (folded < 30 || life%4 != 0); life++ {
		cmd := child(t, "raise until killed", dir)
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
			if recovered, ok := strings.CutPrefix(line, "recovered "); ok {
				if want := fmt.Sprintln(life > 0); recovered != want {
					t.Errorf("life %d: recovered = %s, want %s", life, recovered, want)
				}
				killer = time.AfterFunc(time.Duration(rng.IntN(100))*time.Millisecond, func() { _ = cmd.Process.Kill() })
				continue
			}
			var c int
			var n uint64
			if _, err := fmt.Sscanf(line, "%d %d\n", &c, &n); err != nil || n <= reported[c] {
				t.Fatalf("life %d: the child printed %q after %d", life, line, reported[c])
			}
			reported[c] = n
			total++
		}
		_ = cmd.Wait()
		if killer == nil {
			t.Fatalf("life %d: the child ended before it was killed", life)
		}
		killer.Stop()
		if life%4 != 3 {
			continue // reopened by the next child only
		}
		s := open(t, dir)
		if !s.Recovered() {
			t.Error("a killed process left the marker of a clean stop")
		}
		for c, n := range reported {
			if n == 0 {
				continue
			}
			rec, ok, err := s.Load(t.Context(), tokenstore.Key(fmt.Sprintf("key %d", c)))
			if err != nil || !ok || rec.Highest.Major < n {
				t.Errorf("life %d: key %d = %v, %v, %v; %d was reported as durable", life, c, rec.Highest, ok, err, n)
			}
			wantHighest(t, s, tokenstore.Key(fmt.Sprintf("other %d", c)), rec.Highest.Major)
			for back := range min(rec.Highest.Major, turns) {
				n := rec.Highest.Major - back
				wantHighest(t, s, tokenstore.Key(fmt.Sprintf("turn %d %d", c, n%turns)), n)
			}
			reported[c] = rec.Highest.Major // recorded, but killed before it was reported
		}
		folded = s.log.generation
		if err := s.Close(false); err != nil {
			t.Fatal(err)
		}
		if r, err := Verify(dir); err != nil || !r.Sound() {
			t.Errorf("Verify = %+v, %v", r, err)
		}
	}
	if folded < 30 {
		t.Errorf("only %d logs were begun: this run shows nothing", folded)
	}
	if total < 100 {
		t.Errorf("only %d raises were reported: this run shows nothing", total)
	}
}
