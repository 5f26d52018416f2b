package etcd

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Forget implements session.Backend: a read, and one transaction on its
// revision. An entry that came in between is found by that one; it needs no
// second read, since nothing but an Acquire puts any.
func (b *Backend) Forget(ctx context.Context, key tokenstore.Key, was tokenstore.Record) error {
	mark := b.keys.markOf(key)
	resp, err := b.txn(ctx, nil, []clientv3.Op{clientv3.OpGet(mark)}, nil)
	if err != nil {
		return err
	}
	kv := only(resp.Responses[0])
	if kv == nil {
		return nil
	}
	rec, err := decodeRecord(key, kv.Value)
	if err != nil {
		return err
	}
	if !rec.Same(was) {
		return &tokenstore.InUseError{Key: key, Why: "its token was raised meanwhile"}
	}
	from, end := b.keys.openRange(key)
	// Of a range this holds where it holds of each key in it, and of none.
	none := clientv3.Compare(clientv3.CreateRevision(from), "=", 0).WithRange(end)
	idle := append(missing(b.keys.leaseOf(key)), unchanged(mark, kv), none)
	resp, err = b.txn(ctx, idle, []clientv3.Op{clientv3.OpDelete(mark)}, nil)
	if err != nil {
		return err
	}
	if !resp.Succeeded {
		return &tokenstore.InUseError{Key: key, Why: "a proxy has an entry open on it, its lease is held, or its token was raised meanwhile"}
	}
	return nil
}
