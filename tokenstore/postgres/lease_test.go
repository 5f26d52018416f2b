package postgres

import (
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore/session"
	"github.com/fenceproxy/fenceproxy/tokenstore/storetest"
)

func TestLeaser(t *testing.T) {
	t.Parallel()
	storetest.RunLeases(t, func(t *testing.T) storetest.LeaseStore {
		s, err := session.Open(t.Context(), open(t, sharedServer(t).place(t)), session.Options{Linger: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
