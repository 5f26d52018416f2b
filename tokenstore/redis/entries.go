package redis

import (
	"context"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// page is how many entries one script reads: Redis does nothing else meanwhile.
const page = 1000

// Delete implements session.Backend.
func (b *Backend) Delete(ctx context.Context, entries []session.Entry) error {
	args := append(make([]any, 0, 1+2*len(entries)), b.channel(goneChannel))
	for i := range entries {
		args = append(args, string(entries[i].Key), encodeMember(&entries[i]))
	}
	_, err := b.ok(ctx, b.main, deleteScript, args...)
	return err
}

// Look implements session.Backend. Of a record that cannot be read only the
// open entries are told: other keys must not suffer.
func (b *Backend) Look(ctx context.Context, keys []tokenstore.Key) (states []session.State, err error) {
	found, err := b.look(ctx, keys)
	if err != nil {
		return nil, err
	}
	for i, key := range keys {
		st := session.State{Key: key}
		if rec, ok, err := decodeRecord(key, found[i].record); err == nil {
			st.Record, st.Exists = rec, ok
		}
		for _, m := range found[i].members {
			e, err := decodeMember(string(key), m)
			if err != nil {
				return nil, err
			}
			st.Open = append(st.Open, e)
		}
		states = append(states, st)
	}
	return states, nil
}

// Load implements session.Backend.
func (b *Backend) Load(ctx context.Context, key tokenstore.Key) (rec tokenstore.Record, ok bool, err error) {
	found, err := b.look(ctx, []tokenstore.Key{key})
	if err != nil {
		return rec, false, tokenstore.Unavailable(err)
	}
	if rec, ok, err = decodeRecord(key, found[0].record); err != nil {
		return tokenstore.Record{}, false, err
	}
	return rec, ok, nil
}

// looked is what Redis has of one key.
type looked struct {
	record  string
	members []string
}

func (b *Backend) look(ctx context.Context, keys []tokenstore.Key) ([]looked, error) {
	args := make([]any, len(keys))
	for i := range keys {
		args[i] = string(keys[i])
	}
	a, err := b.ok(ctx, b.main, lookScript, args...)
	if err != nil {
		return nil, err
	}
	states, err := a.list(0)
	if err != nil || len(states) != len(keys) {
		return nil, errShape
	}
	found := make([]looked, len(keys))
	for i := range states {
		pair, err := part[[]any](states, i)
		if err != nil {
			return nil, err
		}
		state := answer{rest: pair}
		if found[i].record, err = state.text(0); err != nil {
			return nil, err
		}
		if found[i].members, err = state.texts(1, 1); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Entries implements session.Backend.
func (b *Backend) Entries(ctx context.Context, s session.ID) (entries []session.Entry, err error) {
	for last := ""; ; {
		a, err := b.ok(ctx, b.main, entriesScript, encodeID(s), last, page)
		if err != nil {
			return nil, err
		}
		own, err := a.texts(0, 1)
		if err != nil {
			return nil, err
		}
		for _, text := range own {
			e, err := decodeOwn(s, text)
			if err != nil {
				return nil, err
			}
			entries = append(entries, e)
		}
		if len(own) < page {
			return entries, nil
		}
		last = own[len(own)-1]
	}
}
