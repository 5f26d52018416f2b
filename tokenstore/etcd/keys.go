package etcd

import (
	"context"
	"errors"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// KeyRecord is a key and its record, or why that cannot be read.
type KeyRecord struct {
	Key     tokenstore.Key
	Record  tokenstore.Record
	Damaged *tokenstore.DamagedError
}

// Keys returns the records of the keys that begin with prefix and come behind
// after, in the order of their bytes, at most limit (0 or less: 1,000). Where
// there are more, next is the after of the next call, else "".
func (b *Backend) Keys(ctx context.Context, prefix, after string, limit int) (records []KeyRecord, next string, err error) {
	if limit <= 0 || limit > pageSize {
		limit = pageSize
	}
	from, end := b.keys.marks()+prefix, clientv3.GetPrefixRangeEnd(b.keys.marks()+prefix)
	if behind := b.keys.marks() + after + "\x00"; after != "" && behind > from {
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
		kr := KeyRecord{Key: key, Record: rec}
		_ = errors.As(err, &kr.Damaged)
		records = append(records, kr)
	}
	if page.More && len(records) > 0 {
		next = string(records[len(records)-1].Key)
	}
	return records, next, nil
}

// Import records the highest tokens of another store; a higher one that is
// here is kept, and so is the holder of an equal one. Only the writes that the
// other store knew nothing of are not held back by this: no proxy may use
// either store meanwhile. After an error a part of it may be done.
func (b *Backend) Import(ctx context.Context, records []KeyRecord) error {
	for len(records) > 0 {
		part := records[:min(len(records), maxOps)]
		records = records[len(part):]
		if err := b.importPart(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

func (b *Backend) importPart(ctx context.Context, part []KeyRecord) error {
	var reads []clientv3.Op
	for i := range part {
		if err := tokenstore.CheckMarks([]tokenstore.Mark{{Key: part[i].Key}}); err != nil {
			return err
		}
		if part[i].Damaged != nil {
			return part[i].Damaged
		}
		if len(part[i].Record.Holder) > maxHolder {
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
func grow(kr *KeyRecord, kv *mvccpb.KeyValue) (string, error) {
	if kv != nil {
		rec, err := decodeRecord(kr.Key, kv.Value)
		if err != nil {
			return "", err
		}
		if !rec.Highest.Less(kr.Record.Highest) {
			return "", nil
		}
	}
	return encodeRecord(kr.Key, kr.Record), nil
}
