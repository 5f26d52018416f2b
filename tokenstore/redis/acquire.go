package redis

import (
	"context"
	"fmt"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// Acquire implements session.Backend: R2 in one script.
func (b *Backend) Acquire(ctx context.Context, s session.ID, wants []session.Want) (got session.Acquired, err error) {
	args := append(make([]any, 0, 3+4*len(wants)), encodeID(s), b.known(s), b.channel(raisedChannel))
	for i := range wants {
		w := &wants[i]
		args = append(args, string(w.Key), encodeToken(w.Token), encodeNonce(w.Nonce), w.Holder)
	}
	a, err := b.run(ctx, b.main, acquireScript, args...)
	if err != nil {
		return got, err
	}
	if a.word != "ok" {
		return got, refusal(a, wants)
	}
	n, err := a.number(0)
	if err != nil {
		return got, err
	}
	pairs, err := a.texts(1, 2)
	if err != nil {
		return got, err
	}
	raised, err := a.number(2)
	if err != nil {
		return got, err
	}
	for i := 0; i < len(pairs); i += 2 {
		e, err := decodeMember(pairs[i], pairs[i+1])
		if err != nil {
			return session.Acquired{}, err
		}
		got.Older = append(got.Older, e)
	}
	got.Raised = raised > 0
	b.acknowledged(s, uint64(n))
	return got, nil
}

// refusal reads why nothing was recorded.
func refusal(a answer, wants []session.Want) error {
	key, err := a.text(0)
	if err != nil {
		return err
	}
	if a.word == "damaged" {
		return &tokenstore.DamagedError{Key: tokenstore.Key(key), Why: "what Redis has there is not a record of ours"}
	}
	current, err := a.text(1)
	if err != nil {
		return err
	}
	for i := range wants {
		m := &wants[i].Mark
		if string(m.Key) != key {
			continue
		}
		switch a.word {
		case "stale":
			highest, err := decodeToken(current)
			if err != nil {
				return err
			}
			return &tokenstore.StaleError{Key: m.Key, Token: m.Token, Highest: highest}
		case "collision":
			return &tokenstore.CollisionError{Key: m.Key, Token: m.Token, Holder: m.Holder, Current: current}
		}
	}
	return fmt.Errorf("%w: %q of a key that was not asked for", errShape, a.word)
}
