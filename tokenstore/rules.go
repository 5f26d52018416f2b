package tokenstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Fingerprint stands for all that decides the keys of one rule: its paths,
// template, filters, format and path policy.
type Fingerprint string

// Rules are the fingerprints of the rules by their names.
type Rules map[string]Fingerprint

// Changed returns the names of the rules that are in both r and now, with
// another fingerprint, sorted. Rules that came or went are not changed.
func (r Rules) Changed(now Rules) []string {
	var names []string
	for name, fp := range now {
		if old, ok := r[name]; ok && old != fp {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Configuration is what a store remembers of the configuration under which it
// is used.
type Configuration struct {
	// Rules are the fingerprints of the fenced rules.
	Rules Rules
	// Epochs are the epochs of the rules by their names.
	Epochs map[string]uint64
	// Unordered says that writes may be on their way of which no record tells.
	Unordered bool
	// Fences stands for which writes are fenced, for a store that compares it with
	// that of its next life; "" says nothing.
	Fences string
	// Settle is the longest time after which a write may still be applied.
	Settle time.Duration
}

// Rememberer is a Store whose configuration can change while it is in use. It
// need not be one.
type Rememberer interface {
	// Remember takes c over, durably, or nothing of it. It MUST have returned nil
	// before a write passes under c. A rule that makes its keys otherwise than is
	// on record is a *ChangedRulesError, an epoch below the highest that its rule
	// has had an *EpochError, and Settle beyond what the store keeps entries for a
	// *SettleError: such a change needs a restart. Other errors wrap
	// ErrUnavailable. What was remembered of rules that c does not name stays, as
	// do a longer Settle and Unordered.
	Remember(ctx context.Context, c Configuration) error
}

// SettleError refuses a settle time that is longer than the entries of a proxy
// that is gone are kept for (R9).
type SettleError struct {
	Settle, Linger time.Duration
}

func (e *SettleError) Error() string {
	return fmt.Sprintf("a settle time of %v is longer than linger, %v, for which the shared store keeps what a lost proxy had in flight; raise linger at every proxy, which needs a restart", e.Settle, e.Linger)
}

// Take adds c to what is remembered, or refuses it as Rememberer says.
func (r *Configuration) Take(c Configuration) error {
	if changed := r.Rules.Changed(c.Rules); len(changed) > 0 {
		return &ChangedRulesError{Rules: changed}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Epochs)) {
		if epoch := c.Epochs[name]; epoch < r.Epochs[name] {
			return &EpochError{Rule: name, Epoch: epoch, Highest: r.Epochs[name]}
		}
	}
	if r.Rules == nil {
		r.Rules, r.Epochs = Rules{}, map[string]uint64{}
	}
	maps.Copy(r.Rules, c.Rules)
	maps.Copy(r.Epochs, c.Epochs)
	r.Unordered = r.Unordered || c.Unordered
	r.Settle = max(r.Settle, c.Settle)
	return nil
}
