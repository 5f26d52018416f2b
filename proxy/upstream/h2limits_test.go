package upstream

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"
)

// Servers end the connection when a head is far over what they announced, and
// with it everybody's requests: such a head is not sent.
func TestH2HeadTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan struct{})
		u, done := pipedH2(t, func(w *h2wire) {
			w.ok(w.request())
			w.set(http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: 1000})
			close(told)
			w.ok(w.request()) // all that comes
		})
		wantSettled(t, "a small one", exchangeOnce(t, context.Background(), u, put()))
		<-told
		for _, size := range []int{1, maxJoined + 1} { // with the head, and behind it
			r := put()
			r.Header = http.Header{"X-Large": {strings.Repeat("x", 1000)}}
			r.Body, r.Length = bytes.NewReader(make([]byte, size)), int64(size)
			r.MaySend = func() bool { t.Error("the leave was asked"); return true }
			if res := exchangeOnce(t, context.Background(), u, r); res.outcome != notSent(ReasonTooLarge) || !strings.Contains(res.err.Error(), "takes 1000") {
				t.Errorf("%v, want not sent, with the limit", res.err)
			}
		}
		wantSettled(t, "another, on the same connection", exchangeOnce(t, context.Background(), u, put()))
		done()
	})
}

// What the upstream lowers between the choice of the connection and the request
// holds for the request, which goes on another connection.
func TestH2LimitLowered(t *testing.T) {
	for name, setting := range map[string]http2.Setting{
		"window":  {ID: http2.SettingInitialWindowSize, Val: 1},
		"streams": {ID: http2.SettingMaxConcurrentStreams, Val: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				chosen, lowered, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
				u, done := pipedH2(t, func(w *h2wire) {
					id := w.request()
					<-chosen
					w.set(setting)
					close(lowered)
					<-over
					w.ok(id)
					if f, ok := w.frame().(*http2.GoAwayFrame); !ok {
						t.Errorf("%v came over the limit", f)
					}
				})
				open := sent(t, u, put())
				synctest.Wait()
				r := put()
				need := needOf(r)
				c := u.h2.get(need) // as h2pool.send does
				close(chosen)
				<-lowered
				_, unused, err := c.exchange(context.Background(), r, need)
				if e, ok := err.(*Error); !ok || e.Outcome.Fate != NotSent || !unused {
					t.Errorf("%v; it may go on another connection: %v", err, unused)
				}
				u.Close()
				close(over)
				wantSettled(t, "the open one", <-open)
				done()
			})
		})
	}
}

// A call is known by its content type however it is spelt; gRPC-Web is none.
func TestH2IsGRPC(t *testing.T) {
	for contentType, want := range map[string]bool{
		"application/grpc": true, "Application/GRPC+proto": true, "application/grpc;x=y": true,
		"application/grpc-web": false, "application/grpc-web+proto": false, "application/grpcx": false, "": false,
	} {
		s := &h2stream{r: &Request{Header: http.Header{"Content-Type": {contentType}}}}
		if got := s.grpc(); got != want {
			t.Errorf("%q: %v", contentType, got)
		}
	}
}
