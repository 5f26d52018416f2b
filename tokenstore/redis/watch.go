package redis

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// pingEvery is how often the connection of the watch is tried: a dead one that
// nobody has closed says nothing, as does one on which nothing happens.
const pingEvery = time.Second

var errSilent = errors.New("the connection for notifications is dead: Redis answers no ping on it")

// Watch implements session.Backend. Redis tells subscribers at most once, so
// nothing depends on it but how long somebody waits.
func (b *Backend) Watch(ctx context.Context, sink session.Sink) error {
	ctx, cancel := context.WithCancelCause(ctx)
	raised, gone, leased := b.channel(raisedChannel), b.channel(goneChannel), b.channel(leasedChannel)
	sub := b.main.Subscribe(ctx) // connects with the first channel
	var pings sync.WaitGroup
	defer pings.Wait()
	defer cancel(nil)
	// A read on it looks at no context: closing it is what ends it.
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })()
	defer func() { _ = sub.Close() }()

	if err := sub.Subscribe(ctx, raised, gone, leased); err != nil {
		return err
	}
	var heard atomic.Bool
	pings.Go(func() { cancel(ping(ctx, sub, &heard)) })
	for {
		got, err := sub.Receive(ctx)
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return err
		}
		heard.Store(true)
		if s, ok := got.(*redis.Subscription); ok && s.Kind == "subscribe" && s.Count == 3 { // it is on all channels
			session.TellListening(sink)
		}
		if m, ok := got.(*redis.Message); ok && m.Channel == leased {
			session.TellLeased(sink, tokenstore.Key(m.Payload))
		} else if ok {
			tell(sink, m.Channel == raised, m.Payload)
		}
	}
}

// ping ends when nothing was heard for as long as a ping may take, or ctx ends.
func ping(ctx context.Context, sub *redis.PubSub, heard *atomic.Bool) error {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for silent := 0; ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		if silent++; heard.Swap(false) {
			silent = 0
		}
		if silent >= 3 {
			return errSilent
		}
		if err := sub.Ping(ctx); err != nil {
			return err
		}
	}
}

// tell passes on one message. What cannot be read tells nothing.
func tell(sink session.Sink, raised bool, payload string) {
	switch {
	case raised && len(payload) > tokenstore.TokenSize:
		if t, err := decodeToken(payload[:tokenstore.TokenSize]); err == nil {
			sink.Raised(tokenstore.Mark{Key: tokenstore.Key(payload[tokenstore.TokenSize:]), Token: t})
		}
	case !raised && len(payload) > memberSize:
		if e, err := decodeMember(payload[memberSize:], payload[:memberSize]); err == nil {
			sink.Gone(e)
		}
	}
}
