package embedded

import (
	"errors"

	bolt "go.etcd.io/bbolt"
)

var (
	// fencesKey has what the configuration of the last life says of which writes
	// are fenced. The store only compares it.
	fencesKey = []byte("fences")
	// unfencedKey stands in the store from the start of a life in which writes may
	// pass that no fence touches, until a clean stop. Beside the marker of that it
	// says that some might still have been applied then.
	unfencedKey   = []byte("unfenced writes")
	unfencedValue = []byte("yes")
)

// beginFences compares which writes are fenced with what was so in the life
// before. No record tells of the writes that were not: where they may still be
// on their way, and some may be fenced now, nobody knows which keys they are of,
// and doubt says so. The same behind a crash, also where every write was fenced: a
// rule that came, went, or gave a method away leaves the writes of before under
// keys that nobody asks for any more. Where unfenced ones may be behind a clean
// stop and the fences are the same, unfenced says so, and it is for this life to
// know of them. Without a word on the fences nothing is compared, and all stays as
// it is.
func beginFences(about *bolt.Bucket, now string, pass, crashed bool) (unfenced, doubt bool, err error) {
	if now == "" {
		return false, false, nil
	}
	before, err1 := getSealed(about, fencesKey)
	left, err2 := leftUnfenced(about)
	if err := errors.Join(err1, err2); err != nil {
		return false, false, err
	}
	left = left || crashed && before == nil // a life that said nothing
	// What was left stays noted: should this life crash, the next one must still
	// know.
	if err := putFences(about, now, pass || left); err != nil {
		return false, false, err
	}
	same := string(before) == now
	return left && same && !crashed, (left || crashed) && !same, nil
}

// putFences notes which writes are fenced, before one passes, and whether others
// may. That they might have stays noted, also where a reload refuses them: they
// can be on their way for long behind it.
func putFences(about *bolt.Bucket, now string, pass bool) error {
	if now == "" {
		return nil
	}
	if pass {
		if err := putSealed(about, unfencedKey, unfencedValue); err != nil {
			return err
		}
	}
	return putSealed(about, fencesKey, []byte(now))
}

// leftUnfenced reports whether unfenced writes may be left of the life before.
func leftUnfenced(about *bolt.Bucket) (bool, error) {
	left, err := getSealed(about, unfencedKey)
	return left != nil, err
}

// endFences notes at a clean stop whether unfenced writes are left behind. The
// longest settle time stays with them.
func endFences(about *bolt.Bucket, left bool) error {
	if left {
		return putSealed(about, unfencedKey, unfencedValue)
	}
	return errors.Join(about.Delete(unfencedKey), about.Delete(settleKey))
}
