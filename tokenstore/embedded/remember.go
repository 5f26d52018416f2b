package embedded

import (
	"context"

	bolt "go.etcd.io/bbolt"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Remember implements tokenstore.Rememberer. It waits for the part of a fold
// that is under way.
func (s *Store) Remember(ctx context.Context, c tokenstore.Configuration) error {
	if ctx.Err() != nil {
		return tokenstore.Unavailable(context.Cause(ctx))
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	err := s.changeAlone(func(tx *bolt.Tx) error {
		about, rules := tx.Bucket(aboutBucket), tx.Bucket(rulesBucket)
		if err := addRules(rules, c.Rules); err != nil {
			return err
		}
		if _, err := beginUnordered(about, c.Unordered); err != nil {
			return err
		}
		if _, err := beginSettle(about, c.Settle); err != nil {
			return err
		}
		if err := putFences(about, c.Fences); err != nil {
			return err
		}
		return raiseEpochs(about, c.Epochs)
	})
	if err != nil && !isRefusal(err) {
		err = tokenstore.Unavailable(err)
	}
	return err
}

// addRules remembers rules that are new, and refuses those that have changed.
func addRules(b *bolt.Bucket, now tokenstore.Rules) error {
	before, _, err := readRules(b)
	if err != nil {
		return err
	}
	if changed := before.Changed(now); len(changed) > 0 {
		return &tokenstore.ChangedRulesError{Rules: changed}
	}
	for name, fp := range now {
		if _, ok := before[name]; ok {
			continue
		}
		if err := putSealed(b, ruleKey(name), append([]byte{settledRule}, fp...)); err != nil {
			return err
		}
	}
	return nil
}
