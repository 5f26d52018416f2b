package etcd_test

import (
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore/session"
	"github.com/fenceproxy/fenceproxy/tokenstore/storetest"
)

func TestLeaser(t *testing.T) {
	storetest.RunLeases(t, func(t *testing.T) storetest.LeaseStore {
		return openStore(t, open(t, place(t, server(t))), session.Options{Linger: time.Second})
	})
}
