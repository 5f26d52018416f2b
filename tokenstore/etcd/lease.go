package etcd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// Leases stand under lease/KEY, and the counter under granted; ended has the
// key of the last lease that was ended. All lie between alive/ and mark/, where
// the watch of raises looks that does not see what is deleted.
func (l layout) leases() string                    { return string(l) + "lease/" }
func (l layout) leaseOf(key tokenstore.Key) string { return l.leases() + string(key) }
func (l layout) granted() string                   { return string(l) + "granted" }
func (l layout) ended() string                     { return string(l) + "ended" }

// encodeGranted is the value of the counter, with a checksum. There is none
// while it is 0.
func encodeGranted(n uint64) string {
	b := binary.BigEndian.AppendUint64(nil, n)
	return string(binary.BigEndian.AppendUint32(b, checksum("granted", b)))
}

func decodeGranted(kv *mvccpb.KeyValue) (uint64, error) {
	if kv == nil {
		return 0, nil
	}
	if len(kv.Value) != 8+sealSize || encodeGranted(binary.BigEndian.Uint64(kv.Value)) != string(kv.Value) {
		return 0, fmt.Errorf("the counter %s of leases is damaged: restore it, or set it above every token that was granted, by fenceproxy store import", kv.Key)
	}
	return binary.BigEndian.Uint64(kv.Value), nil
}

// readLease are the operations whose answers leaseState reads.
func (b *Backend) readLease(key tokenstore.Key) []clientv3.Op {
	return []clientv3.Op{clientv3.OpGet(b.keys.leaseOf(key)), clientv3.OpGet(b.keys.granted()), clientv3.OpGet(b.keys.markOf(key))}
}

// leaseState reads the answers. The revision is a floor: it grows with every
// change, and a snapshot that is restored with --bump-revision takes it along.
func leaseState(key tokenstore.Key, answers []*etcdserverpb.ResponseOp, revision int64) (st session.LeaseState, err error) {
	if kv := only(answers[0]); kv != nil {
		if st.Lease, err = session.DecodeLease(key, kv.Value); err == nil && !st.Lease.Held() {
			err = &tokenstore.DamagedError{Key: key, Why: "of its lease, the value is empty"}
		}
		if err != nil {
			return session.LeaseState{}, err
		}
	}
	if st.Granted, err = decodeGranted(only(answers[1])); err != nil {
		return session.LeaseState{}, tokenstore.Unavailable(err)
	}
	st.Floor = uint64(revision)
	if kv := only(answers[2]); kv != nil {
		st.Record, err = decodeRecord(key, kv.Value)
		st.Exists = !errors.As(err, &st.Damaged)
	}
	return st, nil
}

// LeaseState implements session.LeaseBackend, as do the methods that follow.
func (b *Backend) LeaseState(ctx context.Context, key tokenstore.Key) (session.LeaseState, error) {
	resp, err := b.txn(ctx, nil, b.readLease(key), nil)
	if err != nil {
		return session.LeaseState{}, err
	}
	return leaseState(key, resp.Responses, resp.Header.Revision)
}

// SwapLease is one round trip.
func (b *Backend) SwapLease(ctx context.Context, s session.LeaseSwap) (done bool, now session.LeaseState, err error) {
	lease, read := b.keys.leaseOf(s.Key), b.readLease(s.Key)
	believed, then := missing(lease), []clientv3.Op{clientv3.OpDelete(lease), clientv3.OpPut(b.keys.ended(), string(s.Key))}
	if s.Was.Held() {
		believed = []clientv3.Cmp{clientv3.Compare(clientv3.Value(lease), "=", string(session.EncodeLease(s.Key, s.Was)))}
	}
	if s.Next.Held() {
		then = []clientv3.Op{clientv3.OpPut(lease, string(session.EncodeLease(s.Key, s.Next)))}
	}
	if !s.Grant {
		resp, err := b.txn(ctx, believed, then, read)
		if err != nil || resp.Succeeded {
			return err == nil, now, err
		}
		now, err = leaseState(s.Key, resp.Responses, resp.Header.Revision)
		return false, now, err
	}
	if s.Granted == 0 {
		believed = append(believed, missing(b.keys.granted())...)
	} else {
		believed = append(believed, clientv3.Compare(clientv3.Value(b.keys.granted()), "=", encodeGranted(s.Granted)))
	}
	then = append(then, clientv3.OpPut(b.keys.granted(), encodeGranted(s.Next.Token.Major)))
	// No comparison of a value holds where there is none.
	mark := b.keys.markOf(s.Key)
	below := []clientv3.Cmp{clientv3.Compare(clientv3.Value(mark), "<", string(appendHead(nil, s.Next.Token)))}
	resp, err := b.txn(ctx, believed, []clientv3.Op{
		clientv3.OpTxn(missing(mark), then, []clientv3.Op{clientv3.OpTxn(below, then, read)}),
	}, read)
	if err != nil {
		return false, now, err
	}
	answers := resp.Responses
	if resp.Succeeded {
		outer := answers[0].GetResponseTxn()
		if outer.Succeeded {
			return true, now, nil
		}
		inner := outer.Responses[0].GetResponseTxn()
		if inner.Succeeded {
			return true, now, nil
		}
		answers = inner.Responses
	}
	now, err = leaseState(s.Key, answers, resp.Header.Revision)
	return false, now, err
}

// Leases goes by the order of the keys, as Entries does.
func (b *Backend) Leases(ctx context.Context) (held []tokenstore.KeyLease, damaged []*tokenstore.DamagedError, err error) {
	from, end := b.keys.leases(), clientv3.GetPrefixRangeEnd(b.keys.leases())
	for {
		resp, err := b.txn(ctx, nil, []clientv3.Op{clientv3.OpGet(from, clientv3.WithRange(end), clientv3.WithLimit(pageSize))}, nil)
		if err != nil {
			return nil, nil, err
		}
		page := resp.Responses[0].GetResponseRange()
		for _, kv := range page.Kvs {
			key := tokenstore.Key(strings.TrimPrefix(string(kv.Key), b.keys.leases()))
			l, err := session.DecodeLease(key, kv.Value)
			var why *tokenstore.DamagedError
			if errors.As(err, &why) {
				damaged = append(damaged, why)
			} else {
				held = append(held, tokenstore.KeyLease{Key: key, Lease: l})
			}
			from = string(kv.Key) + "\x00"
		}
		if !page.More {
			return held, damaged, nil
		}
	}
}

// RaiseGranted puts a counter that is damaged right too.
func (b *Backend) RaiseGranted(ctx context.Context, granted uint64) (uint64, error) {
	read := []clientv3.Op{clientv3.OpGet(b.keys.granted())}
	resp, err := b.txn(ctx, nil, read, nil)
	for {
		if err != nil {
			return 0, err
		}
		kv := only(resp.Responses[0])
		now, err2 := decodeGranted(kv)
		if err2 == nil && now >= granted || granted == 0 {
			return now, err2
		}
		resp, err = b.txn(ctx, []clientv3.Cmp{unchanged(b.keys.granted(), kv)}, []clientv3.Op{clientv3.OpPut(b.keys.granted(), encodeGranted(granted))}, read)
		if err == nil && resp.Succeeded {
			return granted, nil
		}
	}
}

// tellLeased tells of a grant or an end, where a key of etcd is that.
func (b *Backend) tellLeased(kv *mvccpb.KeyValue, sink session.Sink) {
	if string(kv.Key) == b.keys.ended() {
		session.TellLeased(sink, tokenstore.Key(kv.Value))
	}
	name, ok := strings.CutPrefix(string(kv.Key), b.keys.leases())
	if !ok {
		return
	}
	if l, err := session.DecodeLease(tokenstore.Key(name), kv.Value); err == nil && l.Beat == 0 {
		session.TellLeased(sink, tokenstore.Key(name)) // a renewal is no news
	}
}
