package embedded

import (
	bolt "go.etcd.io/bbolt"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

var (
	// fencesKey has what the configuration of the last life says of which writes
	// are fenced. The store only compares it.
	fencesKey = []byte("fences")
	// unfencedKey stands in a store beside the marker of a clean stop: writes that
	// no fence touched might still have been applied when it was stopped.
	unfencedKey   = []byte("unfenced writes")
	unfencedValue = []byte("yes")
)

// beginFences compares which writes are fenced with what was so in the life
// before. No record tells of the writes that were not: where they may still be
// on their way, and some may be fenced now, nobody knows which keys they are of,
// and doubt says so. Where they may be and the fences are the same, unfenced
// says so, and it is for this life to know of them. Without a word on the
// fences nothing is compared, and all stays as it is.
func beginFences(about *bolt.Bucket, now string, crashed bool) (unfenced, doubt bool, err error) {
	if now == "" {
		return false, false, nil
	}
	before, err := getSealed(about, fencesKey)
	if err != nil {
		return false, false, err
	}
	if unfenced, err = leftUnfenced(about); err != nil {
		return false, false, err
	}
	if err := putFences(about, now); err != nil {
		return false, false, err
	}
	if unfenced {
		if err := about.Delete(unfencedKey); err != nil {
			return false, false, err
		}
	}
	if string(before) != now {
		return false, unfenced || crashed && string(before) != tokenstore.AllFenced, nil
	}
	return unfenced, false, nil
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
	return about.Delete(settleKey)
}
