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
// answer, be the request followed or not.
func TestH2AnsweredAndNotTaken(t *testing.T) {
	for name, follow := range map[string]bool{"followed": true, "not followed": false} {
		t.Run(name, func(t *testing.T) {
			over := make(chan struct{})
			u, done := listenNarrow(t, func(w *h2wire) {
				w.say(w.head().id, "200", true)
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
			r.Body, r.Length, r.Follow, r.Cut = bytes.NewReader(make([]byte, 60<<10)), 60<<10, follow, make(chan struct{})
			a, err := u.Send(context.Background(), r)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(a); err != nil {
				t.Error(err)
			}
			closed := make(chan struct{})
			go func() { defer close(closed); a.Close() }()
			select {
			case <-closed:
			case <-time.After(5 * time.Second):
				t.Error("Close waits for the upstream to read")
			}
			close(over)
			<-closed
			done()
		})
	}
}
