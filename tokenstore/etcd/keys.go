package etcd

import (
	"context"
	"errors"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
)

// List implements session.Backend, for one range read.
func (b *Backend) List(ctx context.Context, prefix string, after tokenstore.Key, limit int) (list []tokenstore.Listed, next tokenstore.Key, err error) {
	if limit <= 0 || limit > pageSize {
		limit = pageSize
	}
	from, end := b.keys.marks()+prefix, clientv3.GetPrefixRangeEnd(b.keys.marks()+prefix)
	if behind := b.keys.marks() + string(after) + "\x00"; after != "" && behind > from {
		from = behind
	}
	if from >= end {
		return nil, "", nil
	}
	resp, err := b.txn(ctx, nil, []clientv3.Op{clientv3.OpGet(from, clientv3.WithRange(end), clientv3.WithLimit(int64(limit)))}, nil)
	if err != nil {
		return nil, "", tokenstore.Unavailable(err)
	}
	page := resp.Responses[0].GetResponseRange()
	for _, kv := range page.Kvs {
		key := tokenstore.Key(strings.TrimPrefix(string(kv.Key), b.keys.marks()))
		rec, err := decodeRecord(key, kv.Value)
		l := tokenstore.Listed{Key: key, Record: rec}
		_ = errors.As(err, &l.Damaged)
		list = append(list, l)
	}
	if page.More && len(list) > 0 {
		next = list[len(list)-1].Key
	}
	return list, next, nil
}

// Import implements session.Movable, in steps of as many records as one
// transaction may have.
func (b *Backend) Import(ctx context.Context, records []dump.Record) error {
	for len(records) > 0 {
		part := records[:min(len(records), maxOps)]
		records = records[len(part):]
		if err := b.importPart(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

func (b *Backend) importPart(ctx context.Context, part []dump.Record) error {
	var reads []clientv3.Op
	for i := range part {
		if err := tokenstore.CheckMarks([]tokenstore.Mark{{Key: part[i].Key}}); err != nil {
			return err
		}
		if len(part[i].Holder) > maxHolder {
			return errHolder
		}
		reads = append(reads, clientv3.OpGet(b.keys.markOf(part[i].Key)))
	}
	resp, err := b.txn(ctx, nil, reads, nil)
	for {
		if err != nil {
			return tokenstore.Unavailable(err)
		}
		var cmps []clientv3.Cmp
		var puts []clientv3.Op
		for i := range part {
			kv := only(resp.Responses[i])
			value, err := grow(&part[i], kv)
			if err != nil {
				return err
			}
			if value != "" {
				mark := b.keys.markOf(part[i].Key)
				cmps = append(cmps, unchanged(mark, kv))
				puts = append(puts, clientv3.OpPut(mark, value))
			}
		}
		if len(puts) == 0 {
			return nil
		}
		resp, err = b.txn(ctx, cmps, puts, reads)
		if err == nil && resp.Succeeded {
			return nil
		}
	}
}

// grow returns the value of a record that is imported over what is there, ""
// where that stays.
func grow(r *dump.Record, kv *mvccpb.KeyValue) (string, error) {
	if kv != nil {
		rec, err := decodeRecord(r.Key, kv.Value)
		if err != nil {
			return "", err
		}
		if rec.Highest == r.Highest && rec.Holder == "" && r.Holder != "" {
			rec.Holder = r.Holder // or another one could write with its token
			return encodeRecord(r.Key, rec), nil
		}
		if !rec.Highest.Less(r.Highest) {
			return "", nil
		}
	}
	return encodeRecord(r.Key, r.Record), nil
}
