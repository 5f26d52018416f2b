package upstream

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// slowTold is a connection whose writes are told of when others would have been
// passed over already.
type slowTold struct{ net.Conn }

func (c slowTold) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	time.Sleep(2 * h2PassOver)
	return n, err
}

// A machine that is short of time tells late of the first write of a new
// connection. The request that this was made for has no other to go on: it waits.
func TestH2FirstIsNotPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, done := pipedH2(t, func(w *h2wire) { w.ok(w.head().id) })
		ctx := context.Background()
		nc, err := u.dial(ctx)
		if err != nil {
			t.Fatal(err)
		}
		r := put()
		need := needOf(r)
		c, err := u.h2.open(ctx, slowTold{nc}, &need) // as h2pool.send does
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the ACK of SETTINGS is being written
		a, _, err := c.exchange(ctx, r, need)
		if err != nil {
			t.Fatal(err)
		}
		a.Close()
		done()
	})
}
