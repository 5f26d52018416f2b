package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// OthersError refuses a change of rules while other proxies use the store:
// they would go on making the old keys, and the same resource would have two.
type OthersError struct {
	Rules  []string
	Others int // sessions that are alive
}

func (e *OthersError) Error() string {
	return fmt.Sprintf("the keys of rule %s are made otherwise than before, and %d other proxies use this store with the old ones; "+
		"stop all of them first, then start them with the new rules", strings.Join(e.Rules, ", "), e.Others)
}

// about is what the store remembers for all proxies.
type about struct {
	Rules  tokenstore.Rules  `json:"rules,omitempty"`
	Epochs map[string]uint64 `json:"epochs,omitempty"`
}

// beginFirst compares the rules with those that the store remembers, and
// begins the first session. Proxies with different rules may start at the same
// time: one that has changed the rules looks for others after that, and every
// one looks at the rules again once others can see it. So one of the two finds
// out, or both.
func (s *Store) beginFirst(ctx context.Context) (*life, error) {
	changed, err := s.compare(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.alone(ctx, changed); err != nil {
		return nil, err
	}
	var before []byte
	if before, s.changed, err = s.remember(ctx); err != nil {
		return nil, err
	}
	if len(s.changed) > 0 {
		if err := s.alone(ctx, s.changed); err != nil {
			s.restore(ctx, before)
			return nil, err
		}
		s.log.Warn("the keys of some rules are made otherwise than before, as accepted; the marks of their old keys count no more", zap.Strings("rules", s.changed))
	}
	l, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	if changed, err = s.compare(ctx); err == nil && len(changed) > 0 {
		err = &tokenstore.ChangedRulesError{Rules: changed}
	}
	if err != nil {
		l.end(err)
		s.forget(context.WithoutCancel(ctx), l.id)
		return nil, err
	}
	return l, nil
}

// remember compares and records the rules and epochs. It returns what was
// there, and the rules that have changed, as accepted.
func (s *Store) remember(ctx context.Context) (before []byte, changed []string, err error) {
	err = s.call(ctx, OpUpdate, func(ctx context.Context) error {
		return s.backend.Update(ctx, func(old []byte) ([]byte, error) {
			before = bytes.Clone(old)
			next, names, err := s.decide(old, s.opts.AcceptChanged)
			changed = names
			return next, err
		})
	})
	return before, changed, err
}

// decide is the pure part of remember.
func (s *Store) decide(old []byte, accept []string) (next []byte, changed []string, err error) {
	return remembered(old, s.opts.Rules, s.opts.Epochs, accept)
}

// remembered is what the store knows of the rules after it was told of these.
func remembered(old []byte, rules tokenstore.Rules, epochs map[string]uint64, accept []string) (next []byte, changed []string, err error) {
	a, err := readAbout(old)
	if err != nil {
		return nil, nil, err
	}
	changed = a.Rules.Changed(rules)
	refused := slices.DeleteFunc(slices.Clone(changed), func(name string) bool { return slices.Contains(accept, name) })
	if len(refused) > 0 {
		return nil, nil, &tokenstore.ChangedRulesError{Rules: refused}
	}
	for _, rule := range slices.Sorted(maps.Keys(epochs)) {
		epoch := epochs[rule]
		if highest := a.Epochs[rule]; epoch < highest {
			return nil, nil, &tokenstore.EpochError{Rule: rule, Epoch: epoch, Highest: highest}
		}
		if epoch > 0 {
			if a.Epochs == nil {
				a.Epochs = map[string]uint64{}
			}
			a.Epochs[rule] = epoch
		}
	}
	// A rule that has gone stays remembered, for the day on which it returns.
	for name, fp := range rules {
		if a.Rules == nil {
			a.Rules = tokenstore.Rules{}
		}
		a.Rules[name] = fp
	}
	next, err = json.Marshal(a) // maps are sorted: the same rules make the same bytes
	return next, changed, err
}

// restore takes a change of rules back, unless somebody has changed them since.
// The reason may be that ctx has ended, and the change must not stay for that.
func (s *Store) restore(ctx context.Context, before []byte) {
	ctx = context.WithoutCancel(ctx)
	mine, _, err := s.decide(before, s.opts.AcceptChanged)
	if err != nil {
		return
	}
	_ = s.call(ctx, OpUpdate, func(ctx context.Context) error {
		return s.backend.Update(ctx, func(now []byte) ([]byte, error) {
			if !bytes.Equal(now, mine) {
				return now, nil
			}
			return before, nil
		})
	})
}

// compare returns the rules that have changed, as accepted, and changes
// nothing.
func (s *Store) compare(ctx context.Context) (changed []string, err error) {
	err = s.call(ctx, OpUpdate, func(ctx context.Context) error {
		return s.backend.Update(ctx, func(old []byte) (_ []byte, err error) {
			_, changed, err = s.decide(old, s.opts.AcceptChanged)
			return old, err
		})
	})
	return changed, err
}

// alone makes sure, where rules have changed, that no other proxy uses the
// store and that none has left entries: a write in flight under an old key
// would hold nothing back on the new one. Entries of proxies that are gone are
// waited for until linger is over.
func (s *Store) alone(ctx context.Context, changed []string) error {
	for told := false; len(changed) > 0; told = true {
		alive, err := s.observe()
		if err != nil {
			return err
		}
		others := 0
		for _, ok := range alive {
			if ok {
				others++
			}
		}
		switch {
		case others > 0:
			return &OthersError{Rules: changed, Others: others}
		case len(alive) == 0:
			return nil
		case !told:
			s.log.Warn("the rules have changed: waiting until what the last proxies left behind is settled", zap.Duration("linger", s.opts.Linger))
		}
		for _, session := range s.lingered() {
			s.clearAway(session)
		}
		if !sleep(ctx, min(s.opts.SweepEvery, time.Second)) {
			return tokenstore.Unavailable(context.Cause(ctx))
		}
	}
	return nil
}

// Remember implements tokenstore.Rememberer. What other proxies have in flight
// that no fence touched is not known here.
func (s *Store) Remember(ctx context.Context, c tokenstore.Configuration) error {
	if c.Settle > s.opts.Linger {
		return &tokenstore.SettleError{Settle: c.Settle, Linger: s.opts.Linger}
	}
	if s.ctx.Err() != nil {
		return tokenstore.Unavailable(errClosed)
	}
	err := s.call(ctx, OpUpdate, func(ctx context.Context) error {
		return s.backend.Update(ctx, func(old []byte) ([]byte, error) {
			next, _, err := remembered(old, c.Rules, c.Epochs, nil)
			return next, err
		})
	})
	changed, epoch := (*tokenstore.ChangedRulesError)(nil), (*tokenstore.EpochError)(nil)
	if err != nil && !errors.As(err, &changed) && !errors.As(err, &epoch) && !errors.Is(err, tokenstore.ErrUnavailable) {
		err = tokenstore.Unavailable(err)
	}
	return err
}
