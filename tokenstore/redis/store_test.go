package redis_test

import (
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
	"github.com/fenceproxy/fenceproxy/tokenstore/session/sessiontest"
	"github.com/fenceproxy/fenceproxy/tokenstore/storetest"
)

func TestBackend(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	sessiontest.Run(t, func(*testing.T) func(*testing.T) session.Backend {
		o := server.store()
		return func(t *testing.T) session.Backend { return openBackend(t, o) }
	})
}

func TestStore(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	storetest.RunShared(t, func(t *testing.T) tokenstore.Store {
		s, err := session.Open(t.Context(), openBackend(t, server.store()), session.Options{Linger: settle})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
