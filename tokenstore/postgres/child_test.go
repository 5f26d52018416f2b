package postgres

import (
	"context"
	"fmt"
	"os"

	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// The test binary runs itself as a proxy in a process of its own, which can be
// paused as a whole.
const (
	childRole     = "FENCEPROXY_POSTGRES_TEST_ROLE"
	childURL      = "FENCEPROXY_POSTGRES_TEST_URL"
	childPrefix   = "FENCEPROXY_POSTGRES_TEST_PREFIX"
	childUpstream = "FENCEPROXY_POSTGRES_TEST_UPSTREAM"
)

// runChild lets random writes through until its standard input is closed.
func runChild(string) int {
	if err := child(); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1
	}
	return 0
}

func child() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		var b [1]byte
		_, _ = os.Stdin.Read(b[:])
		cancel()
	}()
	b, err := Open(ctx, Options{URL: os.Getenv(childURL), TablePrefix: os.Getenv(childPrefix)})
	if err != nil {
		return err
	}
	s, err := session.Open(ctx, b, randomOptions(nil))
	if err != nil {
		return err
	}
	d := &driver{store: s, upstream: os.Getenv(childUpstream)}
	d.drive(ctx)
	fmt.Printf("sent %d stale %d refused %d cut %d\n", d.sent.Load(), d.stale.Load(), d.refused.Load(), d.cut.Load())
	return s.Close(true)
}
