package redis_test

import (
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore/session"
	"github.com/fenceproxy/fenceproxy/tokenstore/storetest"
)

func TestLeaser(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	storetest.RunLeases(t, func(t *testing.T) storetest.LeaseStore {
		s, err := session.Open(t.Context(), openBackend(t, server.store()), session.Options{Linger: settle})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
