package storetest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/memory"
	"github.com/fenceproxy/fenceproxy/tokenstore/storetest"
)

// TestFaultyWithoutFaults: a Faulty without a command keeps every promise.
func TestFaultyWithoutFaults(t *testing.T) {
	for name, wrap := range map[string]func(tokenstore.Store) *storetest.Faulty{"sole": storetest.NewFaulty, "shared": storetest.NewShared} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(*testing.T) tokenstore.Store { return wrap(memory.New()) })
		})
	}
}

var errDisk = errors.New("no disk")

func one(n uint64) []tokenstore.Mark {
	return []tokenstore.Mark{{Key: "k", Token: tokenstore.Token{Major: n}}}
}

// highest is what the inner store has on record for k, 0 for nothing.
func highest(inner tokenstore.Store) uint64 {
	rec, _, _ := inner.Load(context.Background(), "k")
	return rec.Highest.Major
}

func TestFail(t *testing.T) {
	inner := memory.New()
	f := storetest.NewFaulty(inner)
	f.Fail(errDisk)
	_, err := f.Acquire(t.Context(), one(1))
	if !errors.Is(err, tokenstore.ErrUnavailable) || !errors.Is(err, errDisk) || highest(inner) != 0 {
		t.Errorf("Acquire: %v, recorded %d", err, highest(inner))
	}
	if _, _, err := f.Load(t.Context(), "k"); !errors.Is(err, tokenstore.ErrUnavailable) {
		t.Errorf("Load: %v", err)
	}
	f.Fail(nil)
	f.LoseAnswers(errDisk)
	if _, err := f.Acquire(t.Context(), one(2)); !errors.Is(err, tokenstore.ErrUnavailable) || highest(inner) != 2 {
		t.Errorf("a lost answer: %v, recorded %d, want 2", err, highest(inner))
	}
	f.LoseAnswers(nil)
	f.Damage("k")
	var damaged *tokenstore.DamagedError
	if _, err := f.Acquire(t.Context(), one(3)); !errors.As(err, &damaged) {
		t.Errorf("a damaged key: %v", err)
	}
	if c := f.Counts(); c.Acquires != 3 || c.Loads != 1 {
		t.Errorf("Counts = %+v", c)
	}
}

// TestHold: a held call goes on when it is released or given up, and what
// becomes of the latter is as commanded.
func TestHold(t *testing.T) {
	for _, tc := range []struct {
		name        string
		hold        func(f *storetest.Faulty) (release func())
		late        bool
		giveUp      bool
		during      uint64 // on record while it is held
		after       uint64 // on record after the release
		wantUnknown bool
	}{
		{"before, released", (*storetest.Faulty).HoldAcquire, false, false, 0, 1, false},
		{"before, given up", (*storetest.Faulty).HoldAcquire, false, true, 0, 0, true},
		{"before, given up, committed late", (*storetest.Faulty).HoldAcquire, true, true, 0, 1, true},
		{"answer, released", (*storetest.Faulty).HoldAnswer, false, false, 1, 1, false},
		{"answer, given up", (*storetest.Faulty).HoldAnswer, false, true, 1, 1, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := memory.New()
				f := storetest.NewFaulty(inner)
				f.CommitLate(tc.late)
				release := tc.hold(f)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				answer := make(chan error, 1)
				go func() { _, err := f.Acquire(ctx, one(1)); answer <- err }()
				synctest.Wait()
				if f.Counts().Waiting != 1 || highest(inner) != tc.during {
					t.Fatalf("%+v, recorded %d, want one call held and %d", f.Counts(), highest(inner), tc.during)
				}
				if tc.giveUp {
					time.Sleep(2 * time.Hour)
				} else {
					release()
				}
				if err := <-answer; errors.Is(err, tokenstore.ErrUnavailable) != tc.wantUnknown {
					t.Errorf("Acquire: %v", err)
				}
				release()
				release()
				if got := highest(inner); got != tc.after {
					t.Errorf("recorded %d, want %d", got, tc.after)
				}
				if _, err := f.Acquire(t.Context(), one(9)); err != nil {
					t.Errorf("after the release: %v", err)
				}
			})
		})
	}
}

// TestShared: a store that others use tells of their raises, and its grants
// drain, are refused and are lost.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := storetest.NewShared(memory.New())
		grant, err := f.Acquire(t.Context(), one(1))
		if err != nil || !grant.MaySend() || f.Counts().Live != 1 {
			t.Fatalf("Acquire: %v, %v, %+v", grant, err, f.Counts())
		}

		release := f.HoldDrain()
		drained := make(chan error, 1)
		go func() { drained <- grant.Drained(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-drained:
			t.Fatalf("Drained while held: %v", err)
		default:
		}
		raised := make(chan error, 1)
		go func() { raised <- f.RaiseElsewhere(t.Context(), one(5)...) }()
		if m := <-f.Raised(); m.Token.Major != 5 {
			t.Errorf("Raised told of %v", m)
		}
		if err := <-raised; err != nil {
			t.Error(err)
		}
		release()
		var stale *tokenstore.StaleError
		if err := <-drained; !errors.As(err, &stale) || stale.Highest.Major != 5 {
			t.Errorf("Drained of an overtaken grant: %v", err)
		}

		f.RefuseSend(true)
		if grant.MaySend() {
			t.Error("a refused grant may send")
		}
		f.RefuseSend(false)
		f.LoseGrants()
		select {
		case <-grant.Lost():
		default:
			t.Error("Lost is open")
		}
		if grant.MaySend() {
			t.Error("a lost grant may send")
		}
		grant.Release()
		if n := f.Counts().Live; n != 0 {
			t.Errorf("%d live grants after the release", n)
		}
	})
}

func TestSetRecovered(t *testing.T) {
	f := storetest.NewFaulty(memory.New())
	f.SetRecovered(true)
	if !f.Recovered() {
		t.Error("Recovered is false")
	}
}
