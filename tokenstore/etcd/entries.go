package etcd

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// entriesOf appends the entries of key among kvs to entries. One that cannot
// be read is an error: it may be one that has to be waited for.
func (b *Backend) entriesOf(key tokenstore.Key, entries []session.Entry, kvs []*mvccpb.KeyValue) ([]session.Entry, error) {
	for _, kv := range kvs {
		e, err := b.keys.readOpen(kv.Key)
		if err != nil {
			return nil, err
		}
		if e.Key == key {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// olderOf appends those of entriesOf that a want has to wait for.
func (b *Backend) olderOf(w *session.Want, older []session.Entry, kvs []*mvccpb.KeyValue) ([]session.Entry, error) {
	entries, err := b.entriesOf(w.Key, nil, kvs)
	for _, e := range entries {
		if !w.Unordered && e.Below(w.Token) {
			older = append(older, e)
		}
	}
	return older, err
}

// Delete implements session.Backend.
func (b *Backend) Delete(ctx context.Context, entries []session.Entry) error {
	for len(entries) > 0 {
		part := entries[:min(len(entries), maxOps/2)]
		entries = entries[len(part):]
		ops := make([]clientv3.Op, 0, maxOps)
		for i := range part {
			ops = append(ops, clientv3.OpDelete(b.keys.openOf(&part[i])), clientv3.OpDelete(b.keys.ownOf(&part[i])))
		}
		if _, err := b.txn(ctx, nil, ops, nil); err != nil {
			return err
		}
	}
	return nil
}

// Entries implements session.Backend. It goes by the order of the keys, so that
// what is there all the time is not missed by reading page after page.
func (b *Backend) Entries(ctx context.Context, s session.ID) (entries []session.Entry, err error) {
	from, end := b.keys.own(s), clientv3.GetPrefixRangeEnd(b.keys.own(s))
	for {
		resp, err := b.txn(ctx, nil, []clientv3.Op{clientv3.OpGet(from, clientv3.WithRange(end), clientv3.WithLimit(pageSize), clientv3.WithKeysOnly())}, nil)
		if err != nil {
			return nil, err
		}
		page := resp.Responses[0].GetResponseRange()
		for _, kv := range page.Kvs {
			e, err := b.keys.readOwn(s, kv.Key)
			if err != nil {
				return nil, err
			}
			entries = append(entries, e)
			from = string(kv.Key) + "\x00"
		}
		if !page.More {
			return entries, nil
		}
	}
}
