package embedded

import (
	"errors"

	bolt "go.etcd.io/bbolt"
)

var (
	// fencesKey has what the configuration of the last life says of which writes
	// are fenced. The store only compares it.
	fencesKey = []byte("fences")
	// unfencedKey stands in the store from a clean stop at which writes might still
	// have been applied that no fence had touched, until the next one.
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
func beginFences(about *bolt.Bucket, now string, crashed bool) (unfenced, doubt bool, err error) {
	if now == "" {
		return false, false, nil
	}
	before, err1 := getSealed(about, fencesKey)
	left, err2 := leftUnfenced(about)
	same := string(before) == now
	return left && same && !crashed, (left || crashed) && !same, errors.Join(err1, err2, putFences(about, now))
}

// putFences notes which writes are fenced, before one passes.
func putFences(about *bolt.Bucket, now string) error {
	if now == "" {
		return nil
	}
	return putSealed(about, fencesKey, []byte(now))
}

// leftUnfenced reports whether a clean stop has left unfenced writes behind.
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
