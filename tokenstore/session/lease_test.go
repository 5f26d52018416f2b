package session_test

import (
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore/session"
	"github.com/fenceproxy/fenceproxy/tokenstore/session/sessiontest"
	"github.com/fenceproxy/fenceproxy/tokenstore/storetest"
)

func TestLeaser(t *testing.T) {
	storetest.RunLeases(t, func(t *testing.T) storetest.LeaseStore {
		s, err := session.Open(t.Context(), sessiontest.NewEngine().Port(), session.Options{Linger: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
