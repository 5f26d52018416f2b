package postgres

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// Delete is one round trip.
func (b *Backend) Delete(ctx context.Context, entries []session.Entry) error {
	// In the order in which an acquire locks them.
	entries = slices.SortedFunc(slices.Values(entries), func(a, b session.Entry) int {
		return cmp.Or(strings.Compare(string(a.Key), string(b.Key)), a.Token.Compare(b.Token),
			slices.Compare(a.Session[:], b.Session[:]), cmp.Compare(int64(a.Nonce), int64(b.Nonce)))
	})
	n := len(entries)
	keys, tokens, sessions, nonces := make([][]byte, n), make([][]byte, n), make([]pgtype.UUID, n), make([]int64, n)
	for i := range entries {
		e := &entries[i]
		keys[i], tokens[i], sessions[i], nonces[i] = []byte(e.Key), encode(e.Token), uuid(e.Session), int64(e.Nonce)
	}
	var shared []tokenstore.Key
	var key []byte
	err := call(ctx, b.work, b.sql.remove, []any{keys, tokens, sessions, nonces}, []any{&key}, func() error {
		shared = append(shared, tokenstore.Key(key))
		return nil
	})
	if err != nil {
		return err
	}
	b.notes.add(shared...)
	return nil
}

// Look reads everything in one statement, and so at one moment.
func (b *Backend) Look(ctx context.Context, keys []tokenstore.Key) (states []session.State, err error) {
	raw := make([][]byte, len(keys))
	for i := range keys {
		raw[i] = []byte(keys[i])
	}
	var r row
	var key, token []byte
	var owner pgtype.UUID
	var nonce *int64
	var overtaken *bool
	err = call(ctx, b.work, b.sql.look, []any{raw}, []any{&key, &r.highest, &r.raisedAt, &r.holder, &token, &owner, &nonce, &overtaken}, func() error {
		if last := len(states) - 1; last < 0 || string(states[last].Key) != string(key) {
			st := session.State{Key: tokenstore.Key(key)}
			if rec, err := r.record(st.Key); err == nil { // of a damaged one nothing is told; the others do not suffer
				st.Record, st.Exists = rec, true
			}
			states = append(states, st)
		}
		if nonce == nil {
			return nil
		}
		st := &states[len(states)-1]
		e := session.Entry{Key: st.Key, Session: owner.Bytes, Nonce: uint64(*nonce)}
		if err := e.Token.UnmarshalBinary(token); err != nil {
			return err
		}
		st.Open = append(st.Open, e)
		if e.Unordered() && overtaken != nil && *overtaken {
			st.Overtaken = append(st.Overtaken, e)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return states, nil
}

// Entries reads them in one statement, row by row.
func (b *Backend) Entries(ctx context.Context, s session.ID) (entries []session.Entry, err error) {
	var key, token []byte
	var nonce int64
	err = call(ctx, b.work, b.sql.entries, []any{uuid(s)}, []any{&key, &token, &nonce}, func() error {
		e := session.Entry{Key: tokenstore.Key(key), Session: s, Nonce: uint64(nonce)}
		entries = append(entries, e)
		return entries[len(entries)-1].Token.UnmarshalBinary(token)
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}
