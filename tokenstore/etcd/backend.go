package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// maxOps is how many operations etcd allows in one transaction, and pageSize
// how many keys are read at once.
const (
	maxOps   = 128
	pageSize = 1000
)

// Backend is a store in etcd as one proxy has it open.
type Backend struct {
	client *clientv3.Client
	login  *login
	keys   layout
	log    *zap.Logger

	turn  atomic.Uint64 // of the last Begin or KeepAlive: the value of alive/SESSION
	heard heard         // up to where the watch has told everything
	stuck chan struct{} // capacity 1; asks the watch to begin again

	mu   sync.Mutex
	mine map[session.ID]struct{} // guarded by mu: sessions begun here
}

var _ session.Movable = (*Backend)(nil)

// newBackend makes a client. It connects by itself, now and again.
func newBackend(o *Options) (*Backend, error) {
	b := &Backend{login: newLogin(o.Username, o.Password), keys: layout(o.Prefix), log: o.Logger, stuck: make(chan struct{}, 1), mine: map[session.ID]struct{}{}}
	b.heard.moved = make(chan struct{})
	var err error
	b.client, err = o.dial(b.login)
	return b, err
}

// Close implements session.Backend.
func (b *Backend) Close() error {
	if err := b.client.Close(); !errors.Is(err, context.Canceled) { // which is what it says when it is closed
		return err
	}
	return nil
}

// txn makes one transaction.
func (b *Backend) txn(ctx context.Context, cmps []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	return loggedIn(ctx, b, func() (*clientv3.TxnResponse, error) {
		return b.client.Txn(ctx).If(cmps...).Then(then...).Else(otherwise...).Commit()
	})
}

// explain adds what to do about some errors of etcd.
func explain(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace):
		return fmt.Errorf("%w: compact and defragment etcd, then etcdctl alarm disarm; set --auto-compaction-retention", err)
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return fmt.Errorf("%w: the user needs readwrite permission for all keys with this prefix", err)
	case errors.Is(err, rpctypes.ErrUserEmpty):
		return fmt.Errorf("%w: etcd asks for a login: set username and password_file", err)
	}
	return err
}

// checkFormat says why the marker, if there is one, is not that of a store.
func (b *Backend) checkFormat(kvs []*mvccpb.KeyValue) error {
	switch {
	case len(kvs) == 0:
		return fmt.Errorf("%w: etcd has keys under %s but not %s; choose another prefix, or restore what was there", tokenstore.ErrForeign, b.keys, b.keys.format())
	case string(kvs[0].Value) != formatValue:
		return fmt.Errorf("%w: %s is %q, and this program knows %q only; use the program that made it, or move the store with export and import",
			tokenstore.ErrForeign, b.keys.format(), kvs[0].Value, formatValue)
	}
	return nil
}

// record reads the answer to a get of mark/KEY.
func record(key tokenstore.Key, kvs []*mvccpb.KeyValue) (rec tokenstore.Record, ok bool, err error) {
	if len(kvs) == 0 {
		return rec, false, nil
	}
	rec, err = decodeRecord(key, kvs[0].Value)
	return rec, err == nil, err
}

// Load implements session.Backend.
func (b *Backend) Load(ctx context.Context, key tokenstore.Key) (rec tokenstore.Record, ok bool, err error) {
	resp, err := b.txn(ctx, nil, []clientv3.Op{clientv3.OpGet(b.keys.markOf(key))}, nil)
	if err != nil {
		return rec, false, tokenstore.Unavailable(err)
	}
	return record(key, resp.Responses[0].GetResponseRange().Kvs)
}

// Look implements session.Backend. Of a record that is damaged it tells as of
// one that does not exist: nothing can be said of its token, and its entries
// have to be found.
func (b *Backend) Look(ctx context.Context, keys []tokenstore.Key) (states []session.State, err error) {
	for len(keys) > 0 {
		part := keys[:min(len(keys), maxOps/2)]
		keys = keys[len(part):]
		var ops []clientv3.Op
		for _, key := range part {
			from, end := b.keys.openRange(key)
			ops = append(ops, clientv3.OpGet(b.keys.markOf(key)), clientv3.OpGet(from, clientv3.WithRange(end), clientv3.WithKeysOnly()))
		}
		resp, err := b.txn(ctx, nil, ops, nil)
		if err != nil {
			return nil, err
		}
		for i, key := range part {
			st := session.State{Key: key}
			st.Record, st.Exists, _ = record(key, resp.Responses[2*i].GetResponseRange().Kvs)
			if st.Open, err = b.entriesOf(key, nil, resp.Responses[2*i+1].GetResponseRange().Kvs); err != nil {
				return nil, err
			}
			states = append(states, st)
		}
	}
	return states, nil
}

// Update implements session.Backend.
func (b *Backend) Update(ctx context.Context, change func(old []byte) ([]byte, error)) error {
	about := b.keys.about()
	resp, err := b.txn(ctx, nil, []clientv3.Op{clientv3.OpGet(about)}, nil)
	for {
		if err != nil {
			return err
		}
		var old []byte
		var revision int64
		for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
			old, revision = kv.Value, kv.ModRevision
		}
		next, err2 := change(bytes.Clone(old))
		if err2 != nil || bytes.Equal(next, old) {
			return err2
		}
		write := clientv3.OpPut(about, string(next))
		if len(next) == 0 {
			write = clientv3.OpDelete(about)
		}
		resp, err = b.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(about), "=", revision)},
			[]clientv3.Op{write}, []clientv3.Op{clientv3.OpGet(about)})
		if err == nil && resp.Succeeded {
			return nil
		}
	}
}
