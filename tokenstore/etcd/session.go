package etcd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

var (
	errUsed  = errors.New("a session of this name was begun before")
	errLater = errors.New("a later keepalive was there before this one")
)

// life gets a new lease, which lives for ttl from now, and returns what puts
// alive/s on it. The value is a number that grows: a keepalive that is late
// finds a higher one and changes nothing. It would otherwise put the key back
// on its own lease, which ends sooner.
func (b *Backend) life(ctx context.Context, s session.ID, ttl time.Duration) (turn string, put clientv3.Op, err error) {
	// etcd counts in seconds. It may give more than was asked for, never less.
	lease, err := loggedIn(ctx, b, func() (*clientv3.LeaseGrantResponse, error) {
		return b.client.Grant(ctx, int64((ttl+time.Second-1)/time.Second))
	})
	if err != nil {
		return "", put, err
	}
	turn = string(binary.BigEndian.AppendUint64(nil, b.turn.Add(1)))
	return turn, clientv3.OpPut(b.keys.aliveOf(s), turn, clientv3.WithLease(lease.ID)), nil
}

// Begin implements session.Backend.
func (b *Backend) Begin(ctx context.Context, s session.ID, ttl time.Duration) error {
	_, alive, err := b.life(ctx, s, ttl)
	if err != nil {
		return err
	}
	sess := b.keys.sessOf(s)
	resp, err := b.txn(ctx, missing(sess), []clientv3.Op{clientv3.OpPut(sess, time.Now().UTC().Format(time.RFC3339)), alive}, nil)
	switch {
	case err != nil:
		return err
	case !resp.Succeeded:
		return errUsed
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mine[s] = struct{}{} // before it has an entry, of which makeGood has to know
	return nil
}

// KeepAlive implements session.Backend. It is confirmed when the watch has
// come to what it wrote: events come in the order of their revisions, so all
// raises before it have been told by then (R7).
func (b *Backend) KeepAlive(ctx context.Context, s session.ID, ttl time.Duration) (overtaken []tokenstore.Mark, err error) {
	revision, err := b.prolong(ctx, s, ttl)
	if err != nil {
		return nil, err
	}
	if err := b.heard.wait(ctx, revision); err != nil {
		select { // it may be dead and not know it
		case b.stuck <- struct{}{}:
		default:
		}
		return nil, fmt.Errorf("etcd has taken the keepalive, but the watch has not come to it (revision %d): raises may not have been heard of: %w", revision, err)
	}
	return nil, nil
}

// prolong tries several times, since the calls go to the members in turn and
// one of them may be silent. Each try is a keepalive by itself, and one that
// is done late does no harm. It leaves time for the watch.
func (b *Backend) prolong(ctx context.Context, s session.ID, ttl time.Duration) (revision int64, err error) {
	for tries := 4; tries > 1; tries-- {
		try, cancel := ctx, context.CancelFunc(func() {})
		if end, ok := ctx.Deadline(); ok {
			try, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(tries))
		}
		revision, err = b.prolongOnce(try, s, ttl)
		cancel()
		if err == nil || errors.Is(err, session.ErrSessionOver) || errors.Is(err, errLater) || ctx.Err() != nil {
			break
		}
	}
	return revision, err
}

func (b *Backend) prolongOnce(ctx context.Context, s session.ID, ttl time.Duration) (revision int64, err error) {
	turn, put, err := b.life(ctx, s, ttl)
	if err != nil {
		return 0, err
	}
	alive := b.keys.aliveOf(s)
	// A value that is not there is not lower: gone is final.
	resp, err := b.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.Value(alive), "<", turn)},
		[]clientv3.Op{put}, []clientv3.Op{clientv3.OpGet(alive, clientv3.WithCountOnly())})
	switch {
	case err != nil:
		return 0, err
	case resp.Succeeded:
		return resp.Header.Revision, nil
	case resp.Responses[0].GetResponseRange().Count == 0:
		return 0, session.ErrSessionOver
	default:
		return 0, errLater
	}
}

// End implements session.Backend.
func (b *Backend) End(ctx context.Context, s session.ID) error {
	_, err := b.txn(ctx, nil, []clientv3.Op{clientv3.OpDelete(b.keys.sessOf(s)), clientv3.OpDelete(b.keys.aliveOf(s))}, nil)
	if err == nil {
		b.mu.Lock()
		delete(b.mine, s)
		b.mu.Unlock()
	}
	return err
}

// Sessions implements session.Backend.
func (b *Backend) Sessions(ctx context.Context) (map[session.ID]bool, error) {
	resp, err := b.txn(ctx, nil, []clientv3.Op{
		clientv3.OpGet(b.keys.sess(), clientv3.WithPrefix(), clientv3.WithKeysOnly()),
		clientv3.OpGet(b.keys.alive(), clientv3.WithPrefix(), clientv3.WithKeysOnly()),
	}, nil)
	if err != nil {
		return nil, err
	}
	all := map[session.ID]bool{}
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		s, err := readSession(b.keys.sess(), kv.Key)
		if err != nil {
			return nil, err
		}
		all[s] = false
	}
	for _, kv := range resp.Responses[1].GetResponseRange().Kvs {
		s, err := readSession(b.keys.alive(), kv.Key)
		if err != nil {
			return nil, err
		}
		if _, registered := all[s]; registered {
			all[s] = true
		}
	}
	return all, nil
}
