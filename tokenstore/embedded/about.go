package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

var (
	keysBucket  = []byte("keys")
	aboutBucket = []byte("about")
	rulesBucket = []byte("rules")

	formatKey     = []byte("format")
	formatVersion = []byte("fenceproxy store 1")
	cleanKey      = []byte("clean stop")
	cleanValue    = []byte("yes")
	foldedKey     = []byte("folded generation")
	begunKey      = []byte("begun generation")

	// unorderedKey stands in the store from the start of a life in which writes
	// may pass that no record tells of, until a clean stop.
	unorderedKey   = []byte("unordered writes")
	unorderedValue = []byte("yes")
	// settleKey has the longest settle time of the same lives, in nanoseconds. It
	// stays beside unfencedKey.
	settleKey = []byte("longest settle")
)

// A fingerprint is stored behind one of these bytes. An unsettled one was
// accepted as changed after an unclean stop, and no clean stop has been since.
const (
	settledRule   = '='
	unsettledRule = '~'
)

func putSealed(b *bolt.Bucket, key, value []byte) error {
	return b.Put(key, seal(key, bytes.Clone(value)))
}

// getSealed returns nil where there is nothing under key.
func getSealed(b *bolt.Bucket, key []byte) ([]byte, error) {
	raw := b.Get(key)
	if raw == nil {
		return nil, nil
	}
	value, err := unseal(key, raw)
	if err != nil {
		return nil, fmt.Errorf("the entry %q: %w", key, err)
	}
	return value, nil
}

// checkFormat tells a store from any other bbolt file. Its error wraps
// ErrForeign.
func checkFormat(tx *bolt.Tx) error {
	about, keys, rules := tx.Bucket(aboutBucket), tx.Bucket(keysBucket), tx.Bucket(rulesBucket)
	if about == nil || keys == nil || rules == nil {
		return fmt.Errorf("%w: it has not the parts of one", tokenstore.ErrForeign)
	}
	format, err := getSealed(about, formatKey)
	if err != nil {
		return err
	}
	if !bytes.Equal(format, formatVersion) {
		return fmt.Errorf("%w: its format is %q, and this program knows %q; open it with the version that wrote it", tokenstore.ErrForeign, format, formatVersion)
	}
	return nil
}

// isClean reports whether the store carries the marker of a clean stop.
func isClean(about *bolt.Bucket) (bool, error) {
	clean, err := getSealed(about, cleanKey)
	return bytes.Equal(clean, cleanValue), err
}

// logState says which logs there must be: those of all generations behind
// folded, without a gap, up to begun at least. Both are 0 in a new store, whose
// first life begins generation 1.
type logState struct {
	folded uint64 // the marks of generations up to this one are in the file
	begun  uint64 // the log of this one was on the disk when this was written
}

func readLogState(about *bolt.Bucket) (state logState, err error) {
	for key, n := range map[string]*uint64{string(foldedKey): &state.folded, string(begunKey): &state.begun} {
		b, err := getSealed(about, []byte(key))
		switch {
		case err != nil:
			return logState{}, err
		case len(b) == 8:
			*n = binary.BigEndian.Uint64(b)
		case b != nil:
			return logState{}, fmt.Errorf("the entry %q has %d bytes: %w", key, len(b), errSeal)
		}
	}
	return state, nil
}

func (l logState) write(about *bolt.Bucket) error {
	return errors.Join(
		putSealed(about, foldedKey, binary.BigEndian.AppendUint64(nil, l.folded)),
		putSealed(about, begunKey, binary.BigEndian.AppendUint64(nil, l.begun)))
}

// beginLife does in one transaction what a start changes: the marker of a
// clean stop is erased (rule 2), and the rules are compared and remembered. A
// rule that has gone stays remembered, for the day on which it returns.
func beginLife(tx *bolt.Tx, now tokenstore.Rules, accept []string) (recovered bool, changed []string, err error) {
	about, rules := tx.Bucket(aboutBucket), tx.Bucket(rulesBucket)
	clean, err := getSealed(about, cleanKey)
	if err != nil {
		return false, nil, err
	}
	recovered = !bytes.Equal(clean, cleanValue)
	if clean != nil {
		if err := about.Delete(cleanKey); err != nil {
			return false, nil, err
		}
	}

	before, unsettled, err := readRules(rules)
	if err != nil {
		return false, nil, err
	}
	changed = before.Changed(now)
	refused := slices.DeleteFunc(slices.Clone(changed), func(name string) bool { return slices.Contains(accept, name) })
	if len(refused) > 0 {
		return false, nil, &tokenstore.ChangedRulesError{Rules: refused}
	}
	// Writes of before the crash may still be on their way under the old keys
	// of a changed rule. Should this life crash too, the next one finds the
	// rule as it is now, and must still know (rule 3).
	for _, name := range unsettled {
		if _, here := now[name]; here && !slices.Contains(changed, name) {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	for _, name := range slices.Sorted(maps.Keys(now)) {
		state := byte(settledRule)
		if recovered && slices.Contains(changed, name) {
			state = unsettledRule
		}
		value := append([]byte{state}, now[name]...)
		if old, err := getSealed(rules, ruleKey(name)); err == nil && bytes.Equal(old, value) {
			continue
		}
		if err := putSealed(rules, ruleKey(name), value); err != nil {
			return false, nil, err
		}
	}
	return recovered, changed, nil
}

// beginUnordered notes that writes may pass in this life that no record tells
// of, before one does. It reports whether they may, or might have before the
// crash: nobody knows then what is still on its way.
func beginUnordered(about *bolt.Bucket, now bool) (unordered bool, err error) {
	before, err := getSealed(about, unorderedKey)
	if err != nil || before != nil || !now {
		return before != nil, err
	}
	return true, putSealed(about, unorderedKey, unorderedValue)
}

// beginSettle notes the longest settle time before a write can be lost from
// sight under it, and returns the longest since the last clean stop.
func beginSettle(about *bolt.Bucket, now time.Duration) (time.Duration, error) {
	before, err := readSettle(about)
	if err != nil {
		return 0, err
	}
	now = max(now, before)
	return now, putSealed(about, settleKey, binary.BigEndian.AppendUint64(nil, uint64(now)))
}

// readSettle returns the longest settle time since the last clean stop, 0
// where none is noted.
func readSettle(about *bolt.Bucket) (time.Duration, error) {
	b, err := getSealed(about, settleKey)
	if err != nil || b != nil && len(b) != 8 {
		return 0, fmt.Errorf("the entry %q: %w", settleKey, errors.Join(errSeal, err))
	}
	if b == nil {
		return 0, nil
	}
	return time.Duration(binary.BigEndian.Uint64(b)), nil
}

// raiseEpochs remembers the highest epoch of every rule, and refuses a lower
// one than a rule has had.
func raiseEpochs(about *bolt.Bucket, now map[string]uint64) error {
	for _, name := range slices.Sorted(maps.Keys(now)) {
		key := epochKey(name)
		old, err := getSealed(about, key)
		if err != nil || old != nil && len(old) != 8 {
			return errors.Join(fmt.Errorf("the epoch of rule %s: %w", name, errSeal), err)
		}
		var highest uint64
		if old != nil {
			highest = binary.BigEndian.Uint64(old)
		}
		switch {
		case now[name] < highest:
			return &tokenstore.EpochError{Rule: name, Epoch: now[name], Highest: highest}
		case now[name] > highest:
			if err := putSealed(about, key, binary.BigEndian.AppendUint64(nil, now[name])); err != nil {
				return err
			}
		}
	}
	return nil
}

func epochKey(name string) []byte { return []byte("epoch " + name) }

// endLife does in one transaction what a clean stop changes (rule 12). unfenced
// says that writes which no fence touched are left behind; known is false in a
// life that cannot say.
func endLife(tx *bolt.Tx, unfenced, known bool) error {
	rules := tx.Bucket(rulesBucket)
	before, unsettled, err := readRules(rules)
	if err != nil {
		return err
	}
	for _, name := range unsettled {
		if err := putSealed(rules, ruleKey(name), append([]byte{settledRule}, before[name]...)); err != nil {
			return err
		}
	}
	about := tx.Bucket(aboutBucket)
	if !known { // what was left by the life before still is
		if unfenced, err = leftUnfenced(about); err != nil {
			return err
		}
	}
	if err := errors.Join(about.Delete(unorderedKey), endFences(about, unfenced)); err != nil {
		return err
	}
	return putSealed(about, cleanKey, cleanValue)
}

// ruleKey is a rule's name as bbolt takes it: never empty.
func ruleKey(name string) []byte { return []byte("rule " + name) }

// readRules returns the fingerprints on record, and the names of those that
// are unsettled.
func readRules(b *bolt.Bucket) (rules tokenstore.Rules, unsettled []string, err error) {
	rules = tokenstore.Rules{}
	err = b.ForEach(func(k, raw []byte) error {
		value, err := unseal(k, raw)
		name, isRule := bytes.CutPrefix(k, ruleKey(""))
		if err != nil || !isRule || len(value) == 0 {
			return fmt.Errorf("the fingerprint %q: %w", k, errors.Join(errSeal, err))
		}
		rules[string(name)] = tokenstore.Fingerprint(value[1:])
		if value[0] != settledRule {
			unsettled = append(unsettled, string(name))
		}
		return nil
	})
	return rules, unsettled, err
}
