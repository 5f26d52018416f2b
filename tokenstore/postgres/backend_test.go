package postgres

import (
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
	"github.com/fenceproxy/fenceproxy/tokenstore/session/sessiontest"
	"github.com/fenceproxy/fenceproxy/tokenstore/storetest"
)

func TestBackend(t *testing.T) {
	t.Parallel()
	sessiontest.Run(t, func(t *testing.T) func(*testing.T) session.Backend {
		o := place(t, sharedServer(t))
		return func(t *testing.T) session.Backend { return open(t, o) }
	})
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.RunShared(t, func(t *testing.T) tokenstore.Store {
		s, err := session.Open(t.Context(), open(t, place(t, sharedServer(t))), session.Options{Linger: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
