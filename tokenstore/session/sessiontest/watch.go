package sessiontest

import (
	"context"

	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// Watch implements session.Backend. What happens while the proxy is cut off or
// deaf is never heard of.
func (p *Port) Watch(ctx context.Context, sink session.Sink) error {
	p.set(func() { p.sink, p.heard = sink, nil })
	defer p.set(func() { p.sink, p.heard = nil, nil })
	for {
		select {
		case <-p.kick:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		p.Awake()
		var heard []func(session.Sink)
		p.set(func() { heard, p.heard = p.heard, nil })
		for _, tell := range heard {
			tell(sink)
		}
	}
}

// announce tells everybody who listens. It waits for nobody.
func announce(ports []*Port, tell func(session.Sink)) {
	for _, p := range ports {
		p.set(func() {
			if p.sink != nil && !p.cut && !p.deaf {
				p.heard = append(p.heard, tell)
			}
		})
		select {
		case p.kick <- struct{}{}:
		default: // it is awake already
		}
	}
}
