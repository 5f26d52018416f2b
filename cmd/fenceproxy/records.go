package main

import (
	"context"
	"fmt"

	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
	"github.com/fenceproxy/fenceproxy/tokenstore/etcd"
	"github.com/fenceproxy/fenceproxy/tokenstore/postgres"
	"github.com/fenceproxy/fenceproxy/tokenstore/redis"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// maxPart is how many records every engine takes in one step.
const maxPart = 500

// stored is a record of a shared store, or why it cannot be read.
type stored struct {
	dump.Record
	damaged error
}

// list reads the next page behind after. next is empty at the end. PostgreSQL
// itself keeps out what is no token: a damaged record there ends the list.
func list(ctx context.Context, b session.Backend, after string) (page []stored, next string, err error) {
	switch b := b.(type) {
	case *etcd.Backend:
		records, next, err := b.Keys(ctx, "", after, maxPart)
		for _, r := range records {
			l := stored{Record: dump.Record{Key: r.Key, Record: r.Record}}
			if r.Damaged != nil {
				l.damaged = r.Damaged
			}
			page = append(page, l)
		}
		return page, next, err
	case *postgres.Backend:
		records, next, err := b.Keys(ctx, "", after, maxPart)
		for _, r := range records {
			page = append(page, stored{Record: dump.Record{Key: r.Key, Record: r.Record}})
		}
		return page, next, err
	case *redis.Backend:
		records, next, err := b.Keys(ctx, "", after, maxPart)
		for _, r := range records {
			page = append(page, stored{Record: dump.Record{Key: r.Key, Record: r.Record}, damaged: r.Err})
		}
		return page, next, err
	}
	return nil, "", fmt.Errorf("%T cannot be listed", b)
}

// add records the highest tokens of another store, and keeps the higher one.
func add(ctx context.Context, b session.Backend, part []dump.Record) error {
	switch b := b.(type) {
	case *etcd.Backend:
		records := make([]etcd.KeyRecord, len(part))
		for i, r := range part {
			records[i] = etcd.KeyRecord{Key: r.Key, Record: r.Record}
		}
		return b.Import(ctx, records)
	case *postgres.Backend:
		records := make([]postgres.KeyRecord, len(part))
		for i, r := range part {
			records[i] = postgres.KeyRecord{Key: r.Key, Record: r.Record}
		}
		return b.Import(ctx, records)
	case *redis.Backend:
		records := make([]redis.KeyRecord, len(part))
		for i, r := range part {
			records[i] = redis.KeyRecord{Key: r.Key, Record: r.Record}
		}
		return b.Import(ctx, records)
	}
	return fmt.Errorf("%T cannot be imported into", b)
}
