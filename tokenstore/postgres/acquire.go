package postgres

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// answer is what the function acquire returns, row by row.
type answer struct {
	s     session.ID
	wants []session.Want

	// of one row
	said               string
	key, token, holder []byte
	session            pgtype.UUID
	nonce              *int64

	session.Acquired
	refusal error
	done    bool
}

// Acquire is one round trip.
func (b *Backend) Acquire(ctx context.Context, s session.ID, wants []session.Want) (got session.Acquired, err error) {
	// In the order of keys, in which everybody locks them.
	wants = slices.SortedFunc(slices.Values(wants), func(a, b session.Want) int { return strings.Compare(string(a.Key), string(b.Key)) })
	n := len(wants)
	keys, tokens, holders, nonces := make([][]byte, n), make([][]byte, n), make([][]byte, n), make([]int64, n)
	for i := range wants {
		w := &wants[i]
		keys[i], tokens[i], holders[i], nonces[i] = []byte(w.Key), encode(w.Token), []byte(w.Holder), int64(w.Nonce)
	}
	a := &answer{s: s, wants: wants}
	err = call(ctx, b.work, b.sql.acquire, []any{uuid(s), keys, tokens, holders, nonces},
		[]any{&a.said, &a.key, &a.token, &a.session, &a.nonce, &a.holder}, a.row)
	switch {
	case err != nil:
		return got, err
	case a.refusal != nil:
		return got, a.refusal
	case !a.done:
		return got, errNoEnd
	}
	for i := range a.Older {
		if a.Older[i].Session != s {
			b.notes.add(a.Older[i].Key)
		}
	}
	return a.Acquired, nil
}

func (a *answer) row() error {
	switch a.said {
	case "older":
		e := session.Entry{Key: tokenstore.Key(a.key), Session: a.session.Bytes}
		if a.nonce == nil || !a.session.Valid {
			return fmt.Errorf("an entry of key %s has no owner", e.Key)
		}
		e.Nonce = uint64(*a.nonce)
		if err := e.Token.UnmarshalBinary(a.token); err != nil {
			return err
		}
		a.Older = append(a.Older, e)
	case "done":
		a.done, a.Raised = true, a.nonce != nil && *a.nonce > 0
	default:
		var err error
		a.refusal, err = a.refuse()
		return err
	}
	return nil
}

// refuse returns the refusal that the row tells, or an error where it tells
// none: what is not understood is no refusal.
func (a *answer) refuse() (refusal, err error) {
	if a.said == "over" {
		return session.ErrSessionOver, nil
	}
	i := slices.IndexFunc(a.wants, func(w session.Want) bool { return string(w.Key) == string(a.key) })
	if i < 0 {
		return nil, fmt.Errorf("PostgreSQL answers %q about key %s, which was not asked for", a.said, a.key)
	}
	m := a.wants[i].Mark
	if a.said == "damaged" {
		return &tokenstore.DamagedError{Key: m.Key, Why: "its token is not of the right length"}, nil
	}
	var highest tokenstore.Token
	if err := highest.UnmarshalBinary(a.token); err != nil {
		return nil, err
	}
	switch {
	case a.said == "stale" && m.Token.Less(highest):
		return &tokenstore.StaleError{Key: m.Key, Token: m.Token, Highest: highest}, nil
	case a.said == "collision" && m.Token == highest && !bytes.Equal(a.holder, []byte(m.Holder)):
		return &tokenstore.CollisionError{Key: m.Key, Token: m.Token, Holder: m.Holder, Current: string(a.holder)}, nil
	}
	return nil, fmt.Errorf("PostgreSQL answers %q for token %s of key %s under %s", a.said, m.Token, m.Key, highest)
}

func encode(t tokenstore.Token) []byte {
	b, _ := t.AppendBinary(make([]byte, 0, tokenstore.TokenSize))
	return b
}
