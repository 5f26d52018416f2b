package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// heard is up to which revision every raise has been told.
type heard struct {
	mu       sync.Mutex // guards what follows
	revision int64
	moved    chan struct{} // closed, and made anew, when revision grows
}

func (h *heard) advance(revision int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if revision > h.revision {
		h.revision = revision
		close(h.moved)
		h.moved = make(chan struct{})
	}
}

func (h *heard) now() (revision int64, moved <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.revision, h.moved
}

// wait waits until everything up to revision has been told.
func (h *heard) wait(ctx context.Context, revision int64) error {
	for {
		at, moved := h.now()
		if at >= revision {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

var (
	errStuck    = errors.New("the watch did not come to what was written, and begins again")
	errWatchEnd = errors.New("the watch has ended")
)

// Watch implements session.Backend. It goes on where the last one stopped, so
// that nothing is missed in between unless etcd has forgotten it.
func (b *Backend) Watch(ctx context.Context, sink session.Sink) error {
	for {
		err := b.listen(ctx, sink)
		if !errors.Is(err, rpctypes.ErrCompacted) {
			return err
		}
		if err := b.makeGood(ctx, sink); err != nil {
			return err
		}
		session.TellListening(sink)
	}
}

// listen tells what has happened after what was told, and what happens.
func (b *Backend) listen(ctx context.Context, sink session.Sink) error {
	select { // what is asked of a watch that has ended already
	case <-b.stuck:
	default:
	}
	// A member without a leader ends the watch, so that another one is asked.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	// Of a token that has run out a watch says only that it may not.
	if err := b.login.renew(ctx, b.client, b.login.token.Load()); err != nil {
		return err
	}
	at, _ := b.heard.now()
	from := clientv3.WithRev(at + 1)
	// Proof is needed of raises alone, so what is gone has a watch of its own.
	raised := b.client.Watch(ctx, b.keys.alive(), clientv3.WithRange(b.keys.marksEnd()), from, clientv3.WithFilterDelete())
	gone := b.client.Watch(ctx, b.keys.open(), clientv3.WithPrefix(), from, clientv3.WithFilterPut())
	for {
		select {
		case resp, ok := <-raised:
			if err := watchError(ctx, &resp, ok); err != nil {
				return err
			}
			b.tellRaised(resp.Events, sink)
		case resp, ok := <-gone:
			if err := watchError(ctx, &resp, ok); err != nil {
				return err
			}
			for _, ev := range resp.Events {
				if e, err := b.keys.readOpen(ev.Kv.Key); err == nil {
					sink.Gone(e)
				}
			}
		case <-b.stuck:
			return errStuck
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// watchError is why a watch ends. With its context it ends too, and which of
// both is seen first is chance.
func watchError(ctx context.Context, resp *clientv3.WatchResponse, ok bool) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !ok {
		return errWatchEnd
	}
	return resp.Err()
}

// tellRaised tells of raises, and only then that they were told.
func (b *Backend) tellRaised(events []*clientv3.Event, sink session.Sink) {
	for _, ev := range events {
		if strings.HasPrefix(string(ev.Kv.Key), b.keys.calls()) {
			if m, err := decodeCall(ev.Kv.Value); err == nil {
				sink.Raised(m)
			}
			continue
		}
		name, ok := strings.CutPrefix(string(ev.Kv.Key), b.keys.marks())
		if !ok {
			b.tellLeased(ev.Kv, sink) // or the keepalive of somebody
			continue
		}
		key := tokenstore.Key(name)
		// A record that cannot be read has overtaken nothing: it was not written
		// by a raise.
		if rec, err := decodeRecord(key, ev.Kv.Value); err == nil {
			sink.Raised(tokenstore.Mark{Key: key, Token: rec.Highest, Holder: rec.Holder})
		}
	}
	if n := len(events); n > 0 {
		// Not the revision of the answer, which may be ahead of its events.
		b.heard.advance(events[n-1].Kv.ModRevision)
	}
}

// makeGood finds out, after events were lost, what has overtaken the entries
// of the sessions that began here. Keepalives wait meanwhile.
func (b *Backend) makeGood(ctx context.Context, sink session.Sink) error {
	// Everything is read after this revision, and listened to from there on.
	resp, err := b.txn(ctx, nil, []clientv3.Op{clientv3.OpGet(b.keys.format(), clientv3.WithCountOnly())}, nil)
	if err != nil {
		return err
	}
	b.log.Warn("etcd has compacted events away that were not heard of: the entries of this proxy are compared with the records instead")
	for _, s := range b.begun() {
		entries, err := b.Entries(ctx, s)
		if err != nil {
			return fmt.Errorf("after a compaction: %w", err)
		}
		if err := b.tellOvertaken(ctx, entries, sink); err != nil {
			return fmt.Errorf("after a compaction: %w", err)
		}
	}
	b.heard.advance(resp.Header.Revision)
	return nil
}

func (b *Backend) begun() (sessions []session.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.mine {
		sessions = append(sessions, s)
	}
	return sessions
}

func (b *Backend) tellOvertaken(ctx context.Context, entries []session.Entry, sink session.Sink) error {
	for len(entries) > 0 {
		part := entries[:min(len(entries), maxOps)]
		entries = entries[len(part):]
		var ops []clientv3.Op
		for i := range part {
			ops = append(ops, clientv3.OpGet(b.keys.markOf(part[i].Key)))
		}
		resp, err := b.txn(ctx, nil, ops, nil)
		if err != nil {
			return err
		}
		for i := range part {
			e := &part[i]
			rec, ok, err := record(e.Key, resp.Responses[i].GetResponseRange().Kvs)
			if err == nil && ok && e.Below(rec.Highest) {
				sink.Raised(tokenstore.Mark{Key: e.Key, Token: rec.Highest, Holder: rec.Holder})
			}
		}
	}
	return nil
}
