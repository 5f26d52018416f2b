package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
	"github.com/fenceproxy/fenceproxy/tokenstore/embedded"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// leasesOf are the counter and the leases of a dump.
func leasesOf(t *testing.T, text []byte) (granted uint64, all string) {
	t.Helper()
	r, err := dump.NewReader(bytes.NewReader(text))
	for err == nil {
		_, err = r.Next()
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, l := range r.Leases() {
		l.GrantedAt = l.GrantedAt.UTC()
		fmt.Fprintf(&b, "%+v\n", l)
	}
	return r.Header.Granted, b.String()
}

// TestMoveLeases moves leases from an embedded store to each engine and back.
func TestMoveLeases(t *testing.T) {
	dir := t.TempDir()
	s, err := embedded.Open(embedded.Options{Path: dir, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	next := tokenstore.Lease{ID: "\xff\x00", Holder: "h\xfe", TTL: 1500 * time.Millisecond, GrantedAt: time.Unix(1_700_000_000, 123)}
	var last tokenstore.Lease
	for i := range 120 {
		if last, err = s.GrantLease(t.Context(), tokenstore.Key(fmt.Sprint("\xfe", i)), tokenstore.Lease{}, next, 0); err != nil {
			t.Fatal(err)
		}
	}
	err = errors.Join(s.EndLease(t.Context(), "\xfe119", last), s.Close(true)) // its token counts
	if err != nil {
		t.Fatal(err)
	}
	first := mustStore(t, nil, "export", "--config", configured(t, fmt.Sprintf("embedded: {path: %q}", dir)))
	granted, want := leasesOf(t, first)
	if granted != 120 || strings.Count(want, "\n") != 119 {
		t.Fatalf("the counter is %d, of %d leases", granted, strings.Count(want, "\n"))
	}
	for name, start := range movedOver(t) {
		t.Run(name, func(t *testing.T) {
			there := configured(t, start()+", session_ttl: 6s")
			back := configured(t, fmt.Sprintf("embedded: {path: %q}", t.TempDir()))
			mustStore(t, nil, "init", "--config", there)
			mustStore(t, first, "import", "--config", there)
			mustStore(t, first, "import", "--config", there) // again, as after an error
			mustStore(t, nil, "verify", "--config", there)
			second := mustStore(t, nil, "export", "--config", there)
			if g, got := leasesOf(t, second); g != granted || got != want {
				t.Errorf("the counter is %d; the leases are the same: %v", g, got == want)
			}
			mustStore(t, second, "import", "--config", back)
			if g, got := leasesOf(t, mustStore(t, nil, "export", "--config", back)); g != granted || got != want {
				t.Errorf("back: the counter is %d; the leases are the same: %v", g, got == want)
			}

			// One that is held there stays.
			b := backendOf(t, there)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			now, err := b.LeaseState(ctx, "\xfe7")
			if err != nil {
				t.Fatal(err)
			}
			mine := next
			mine.ID, mine.Token = "mine", tokenstore.Token{Major: 500}
			done, _, err := b.SwapLease(ctx, session.LeaseSwap{Key: "\xfe7", Was: now.Lease, Next: mine, Grant: true, Granted: now.Granted})
			if err != nil || !done {
				t.Fatalf("SwapLease = %v, %v", done, err)
			}
			mustStore(t, first, "import", "--config", there)
			if now, err := b.LeaseState(ctx, "\xfe7"); err != nil || now.Lease.ID != "mine" || now.Granted != 500 {
				t.Errorf("an import has brought %+v, %v", now, err)
			}
		})
	}
}
