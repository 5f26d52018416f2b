package proxy

import (
	"context"
	"testing"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// A stop that has counted the writes that no fence touches has none behind it: a
// handler may begin when its connection is closed already.
func TestNoUnfencedWriteBehindAStop(t *testing.T) {
	r := newRig(t, nil)
	before := r.dial().send(login)
	old := r.next()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r.handler.AwaitUnfenced(ctx) == nil {
		t.Error("the write that is on its way was not waited for")
	}
	late := r.dial().send(login)
	if p := late.problem(late.receive()); p.Name() != wire.ShuttingDown || p.Forwarded != wire.ForwardedNo {
		t.Errorf("a write that came behind it: %+v", p)
	}
	old.answer()
	before.receive()
	read := r.dial().send("GET /other HTTP/1.1\nHost: a\n\n")
	r.next().answer()
	if res := read.receive(); res.StatusCode != 200 {
		t.Errorf("a read: %s %s", res.Status, res.body)
	}
}
