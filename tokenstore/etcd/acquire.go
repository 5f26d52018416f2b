package etcd

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// Acquire implements session.Backend: R2. One key takes one round trip, unless
// its record has to be read first to be decided about; several take two.
func (b *Backend) Acquire(ctx context.Context, s session.ID, wants []session.Want) (got session.Acquired, err error) {
	for i := range wants {
		if len(wants[i].Holder) > maxHolder {
			return got, errHolder
		}
	}
	var found []*mvccpb.KeyValue
	if len(wants) == 1 {
		var done bool
		if got, found, done, err = b.acquireOne(ctx, s, &wants[0]); done || err != nil {
			return got, err
		}
	} else if found, err = b.read(ctx, s, wants); err != nil {
		return got, err
	}
	for {
		next, raised, err := decide(wants, found)
		if err != nil {
			return got, err
		}
		var done bool
		if got.Older, found, done, err = b.commit(ctx, s, wants, next, found); done || err != nil {
			got.Raised = raised
			return got, err
		}
	}
}

// acquireOne lets etcd decide, at one moment: the same token, or a lower one or
// none. Anything else comes back as found, and nothing was written. etcd cannot
// add a checksum up: the record comes back too, as it was before, and what was
// put on a damaged one is taken back.
func (b *Backend) acquireOne(ctx context.Context, s session.ID, w *session.Want) (got session.Acquired, found []*mvccpb.KeyValue, done bool, err error) {
	mark := b.keys.markOf(w.Key)
	read := []clientv3.Op{clientv3.OpGet(mark)}
	first := tokenstore.Record{Highest: w.Token, Holder: w.Holder, RaisedAt: time.Now()}
	keep := append(read[:1:1], b.put(s, w)...)
	raise := append(keep[:len(keep):len(keep)], clientv3.OpPut(mark, encodeRecord(w.Key, first)))
	resp, err := b.txn(ctx, []clientv3.Cmp{b.isAlive(s)}, []clientv3.Op{
		clientv3.OpTxn(notBelow(mark, w.Token),
			[]clientv3.Op{clientv3.OpTxn(sameAs(mark, w.Token, w.Holder), keep, read)},
			[]clientv3.Op{clientv3.OpTxn(noRecord(mark), read, raise)}),
	}, nil)
	if err != nil {
		return got, nil, false, err
	}
	if !resp.Succeeded {
		return got, nil, false, session.ErrSessionOver
	}
	outer := resp.Responses[0].GetResponseTxn()
	inner := outer.Responses[0].GetResponseTxn()
	if inner.Succeeded != outer.Succeeded { // it was read
		return got, []*mvccpb.KeyValue{only(inner.Responses[0])}, false, nil
	}
	if old := only(inner.Responses[0]); old != nil {
		if _, damaged := decodeRecord(w.Key, old.Value); damaged != nil {
			return got, nil, false, b.takeBack(ctx, s, w, old, resp.Header.Revision, damaged)
		}
	}
	got.Raised = !outer.Succeeded
	got.Older, err = b.entriesOf(w.Key, nil, inner.Responses[1].GetResponseRange().Kvs)
	return got, nil, true, err
}

// takeBack undoes what the transaction of a revision has put: the record is the
// damaged one again, so that its key goes on failing closed, unless somebody
// has raised it since. Only where that is known the error says so; else the
// entry counts as existing.
func (b *Backend) takeBack(ctx context.Context, s session.ID, w *session.Want, old *mvccpb.KeyValue, revision int64, damaged error) error {
	e := session.Entry{Key: w.Key, Token: w.Token, Session: s, Nonce: w.Nonce}
	mark := b.keys.markOf(w.Key)
	remove := []clientv3.Op{clientv3.OpDelete(b.keys.openOf(&e)), clientv3.OpDelete(b.keys.ownOf(&e))}
	restore := append(remove[:2:2], clientv3.OpPut(mark, string(old.Value)))
	if _, err := b.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(mark), "=", revision)}, restore, remove); err != nil {
		return fmt.Errorf("%v, and what was put there could not be taken back: %w", damaged, err)
	}
	return damaged
}

// put are the operations that put the entry of a want, behind the one that
// reads the older ones.
func (b *Backend) put(s session.ID, w *session.Want) []clientv3.Op {
	e := session.Entry{Key: w.Key, Token: w.Token, Session: s, Nonce: w.Nonce}
	from, end := b.keys.olderRange(w.Key, w.Token)
	return []clientv3.Op{
		clientv3.OpGet(from, clientv3.WithRange(end), clientv3.WithKeysOnly()),
		clientv3.OpPut(b.keys.openOf(&e), ""),
		clientv3.OpPut(b.keys.ownOf(&e), ""),
	}
}

// isAlive belongs into every transaction that puts an entry: of a session that
// was seen as gone none may appear, late as it may be.
func (b *Backend) isAlive(s session.ID) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(b.keys.aliveOf(s)), ">", 0)
}

// reads are the operations whose answers found reads.
func (b *Backend) reads(s session.ID, wants []session.Want) []clientv3.Op {
	ops := []clientv3.Op{clientv3.OpGet(b.keys.aliveOf(s), clientv3.WithKeysOnly())}
	for i := range wants {
		ops = append(ops, clientv3.OpGet(b.keys.markOf(wants[i].Key)))
	}
	return ops
}

// found returns the values of the records, nil for one that does not exist.
func found(answers []*etcdserverpb.ResponseOp) (values []*mvccpb.KeyValue, err error) {
	if only(answers[0]) == nil {
		return nil, session.ErrSessionOver
	}
	for _, a := range answers[1:] {
		values = append(values, only(a))
	}
	return values, nil
}

// only is what was read of one key.
func only(answer *etcdserverpb.ResponseOp) *mvccpb.KeyValue {
	if kvs := answer.GetResponseRange().Kvs; len(kvs) > 0 {
		return kvs[0]
	}
	return nil
}

func (b *Backend) read(ctx context.Context, s session.ID, wants []session.Want) ([]*mvccpb.KeyValue, error) {
	resp, err := b.txn(ctx, nil, b.reads(s, wants), nil)
	if err != nil {
		return nil, err
	}
	return found(resp.Responses)
}

// decide returns the values of the records that change, "" for the others, and
// whether one of them gets a higher token. A refusal is true already: what was read is committed, and records only grow.
func decide(wants []session.Want, values []*mvccpb.KeyValue) (next []string, raised bool, err error) {
	now := time.Now()
	next = make([]string, len(wants))
	for i := range wants {
		w := &wants[i]
		var rec tokenstore.Record
		if values[i] != nil {
			if rec, err = decodeRecord(w.Key, values[i].Value); err != nil {
				return nil, false, err
			}
		}
		grown, changed, err := rec.Raise(values[i] != nil, w.Mark, now)
		if err != nil {
			return nil, false, err
		}
		if changed {
			next[i] = encodeRecord(w.Key, grown)
		}
		raised = raised || values[i] == nil || rec.Highest.Less(grown.Highest)
	}
	return next, raised, nil
}

// commit writes all on condition that the records are still those that were
// read. Otherwise nothing was written, and it returns what they are now.
func (b *Backend) commit(ctx context.Context, s session.ID, wants []session.Want, next []string, values []*mvccpb.KeyValue) (older []session.Entry, now []*mvccpb.KeyValue, done bool, err error) {
	cmps, ops, per := []clientv3.Cmp{b.isAlive(s)}, []clientv3.Op(nil), 0
	for i := range wants {
		w := &wants[i]
		put := b.put(s, w)
		per = len(put)
		ops = append(ops, put...)
		cmps = append(cmps, unchanged(b.keys.markOf(w.Key), values[i]))
	}
	for i := range wants { // behind the entries, so that those are at fixed places
		if next[i] != "" {
			ops = append(ops, clientv3.OpPut(b.keys.markOf(wants[i].Key), next[i]))
		}
	}
	resp, err := b.txn(ctx, cmps, ops, b.reads(s, wants))
	if err != nil {
		return nil, nil, false, err
	}
	if !resp.Succeeded {
		now, err = found(resp.Responses)
		return nil, now, false, err
	}
	for i := range wants {
		if older, err = b.entriesOf(wants[i].Key, older, resp.Responses[i*per].GetResponseRange().Kvs); err != nil {
			return nil, nil, false, err
		}
	}
	return older, nil, true, nil
}

// unchanged holds where a key is still what was read of it.
func unchanged(key string, kv *mvccpb.KeyValue) clientv3.Cmp {
	var revision int64
	if kv != nil {
		revision = kv.ModRevision
	}
	return clientv3.Compare(clientv3.ModRevision(key), "=", revision)
}
