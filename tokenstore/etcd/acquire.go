package etcd

import (
	"context"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// Acquire implements session.Backend: R2. One key takes one round trip, unless
// its record has to be read first to be decided about; several take two.
func (b *Backend) Acquire(ctx context.Context, s session.ID, wants []session.Want) (older []session.Entry, err error) {
	for i := range wants {
		if len(wants[i].Holder) > maxHolder {
			return nil, errHolder
		}
	}
	found := make([]*mvccpb.KeyValue, len(wants))
	if len(wants) == 1 && !wants[0].Unordered {
		var done bool
		if older, found, done, err = b.acquireOne(ctx, s, &wants[0]); done || err != nil {
			return older, err
		}
	} else if !slices.ContainsFunc(wants, ordered) {
		// Nothing is read of the records, and nothing can be refused.
	} else if found, err = b.read(ctx, s, wants); err != nil {
		return nil, err
	}
	for {
		next, err := decide(wants, found)
		if err != nil {
			return nil, err
		}
		var done bool
		if older, found, done, err = b.commit(ctx, s, wants, next, found); done || err != nil {
			return older, err
		}
	}
}

func ordered(w session.Want) bool { return !w.Unordered }

// acquireOne lets etcd decide, at one moment: the same token, or a lower one or
// none. Anything else comes back as found, and nothing was written.
func (b *Backend) acquireOne(ctx context.Context, s session.ID, w *session.Want) (older []session.Entry, found []*mvccpb.KeyValue, done bool, err error) {
	mark := b.keys.markOf(w.Key)
	first := tokenstore.Record{Highest: w.Token, Holder: w.Holder, RaisedAt: time.Now()}
	keep := b.put(s, w)
	raise := append(keep[:len(keep):len(keep)], clientv3.OpPut(mark, encodeRecord(w.Key, first)))
	keep = append(keep[:len(keep):len(keep)], b.call(w, 0))
	read := []clientv3.Op{clientv3.OpGet(mark)}
	resp, err := b.txn(ctx, []clientv3.Cmp{b.isAlive(s)}, []clientv3.Op{
		clientv3.OpTxn(notBelow(mark, w.Token),
			[]clientv3.Op{clientv3.OpTxn(sameAs(mark, w.Token, w.Holder), keep, read)},
			[]clientv3.Op{clientv3.OpTxn(noRecord(mark), read, raise)}),
	}, nil)
	if err != nil {
		return nil, nil, false, err
	}
	if !resp.Succeeded {
		return nil, nil, false, session.ErrSessionOver
	}
	outer := resp.Responses[0].GetResponseTxn()
	inner := outer.Responses[0].GetResponseTxn()
	if inner.Succeeded != outer.Succeeded { // it was read
		return nil, []*mvccpb.KeyValue{only(inner.Responses[0])}, false, nil
	}
	older, err = b.olderOf(w, nil, inner.Responses[0].GetResponseRange().Kvs)
	return older, nil, true, err
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

// call puts the key, where there are older entries, to where the watch of their
// owners finds it: a record that stays as it is tells them nothing.
func (b *Backend) call(w *session.Want, n int) clientv3.Op {
	from, end := b.keys.olderRange(w.Key, w.Token)
	return clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(from), ">", 0).WithRange(end)}, // there are some
		[]clientv3.Op{clientv3.OpPut(b.keys.callOf(n), encodeCall(w.Key, w.Token))}, nil)
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

// decide returns the values of the records that change, "" for the others. A
// refusal is true already: what was read is committed, and records only grow.
func decide(wants []session.Want, values []*mvccpb.KeyValue) (next []string, err error) {
	now := time.Now()
	next = make([]string, len(wants))
	for i := range wants {
		w := &wants[i]
		if w.Unordered {
			continue // it asks nothing of the record
		}
		var rec tokenstore.Record
		if values[i] != nil {
			if rec, err = decodeRecord(w.Key, values[i].Value); err != nil {
				return nil, err
			}
		}
		rec, changed, err := rec.Raise(values[i] != nil, w.Mark, now)
		if err != nil {
			return nil, err
		}
		if changed {
			next[i] = encodeRecord(w.Key, rec)
		}
	}
	return next, nil
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
		if !w.Unordered {
			cmps = append(cmps, unchanged(b.keys.markOf(w.Key), values[i]))
		}
	}
	for i := range wants { // behind the entries, so that those are at fixed places
		switch {
		case wants[i].Unordered:
		case next[i] != "":
			ops = append(ops, clientv3.OpPut(b.keys.markOf(wants[i].Key), next[i]))
		default:
			ops = append(ops, b.call(&wants[i], i))
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
		if older, err = b.olderOf(&wants[i], older, resp.Responses[i*per].GetResponseRange().Kvs); err != nil {
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
