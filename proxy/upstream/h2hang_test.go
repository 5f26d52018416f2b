package upstream

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"
)

// An upstream that answers, and then reads no more, does not keep who has the
// answer, nor who is to get it, be the request followed or not.
func TestH2AnsweredAndNotTaken(t *testing.T) {
	for name, row := range map[string]struct {
		follow bool
		status string
	}{
		"followed": {true, "200"}, "not followed": {false, "200"},
		"followed, refused": {true, "413"}, "not followed, refused": {false, "413"},
	} {
		t.Run(name, func(t *testing.T) {
			over := make(chan struct{})
			u, done := listenNarrow(t, func(w *h2wire) {
				w.say(w.head().id, row.status, true)
				<-over
			})
			dial := u.dial
			u.dial = func(ctx context.Context) (net.Conn, error) {
				c, err := dial(ctx)
				if err == nil {
					err = c.(*net.TCPConn).SetWriteBuffer(4096)
				}
				return c, err
			}
			r := put()
			r.Body, r.Length, r.Follow, r.Cut = bytes.NewReader(make([]byte, 60<<10)), 60<<10, row.follow, make(chan struct{})
			closed := make(chan struct{})
			go func() {
				defer close(closed)
				a, err := u.Send(context.Background(), r)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := io.ReadAll(a); err != nil {
					t.Error(err)
				}
				a.Close()
				if o := a.Outcome(); (o == settled) != (row.status == "413") {
					t.Errorf("outcome %v", o)
				}
			}()
			select {
			case <-closed:
			case <-time.After(5 * time.Second):
				t.Error("the exchange waits for the upstream to read")
			}
			close(over)
			<-closed
			done()
		})
	}
}
