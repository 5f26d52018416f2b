package lease

import (
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// maxWait is the longest that a client may wait for another holder.
const maxWait = 24 * time.Hour

// check refuses what cannot be granted, and fills in the default.
func (i *Issuer) check(r *Request) error {
	if err := checkKey(r.Key); err != nil {
		return err
	}
	if r.TTL == 0 {
		r.TTL = i.o.DefaultTTL
	}
	switch {
	case len(r.Holder) > tokenstore.MaxHolder || !printable(r.Holder):
		return &RequestError{fmt.Sprintf("the holder must be at most %d bytes of printable text", tokenstore.MaxHolder)}
	case r.Wait < 0 || r.Wait > maxWait:
		return &RequestError{fmt.Sprintf("wait is %v, and must be from 0s to %v", r.Wait, maxWait)}
	}
	return i.checkTTL(r.TTL)
}

func (i *Issuer) checkTTL(ttl time.Duration) error {
	if ttl < MinTTL || ttl > i.o.MaxTTL {
		return &RequestError{fmt.Sprintf("ttl is %v, and must be from %v to %v", ttl, MinTTL, i.o.MaxTTL)}
	}
	return nil
}

// checkKey refuses what no store keeps and no answer could show.
func checkKey(key tokenstore.Key) error {
	if len(key) == 0 || len(key) > tokenstore.MaxKey || !printable(string(key)) {
		return &RequestError{fmt.Sprintf("the key must be 1 to %d bytes of printable text, percent-encoded once in the path", tokenstore.MaxKey)}
	}
	return nil
}

func printable(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, c := range s {
		if !unicode.IsPrint(c) {
			return false
		}
	}
	return true
}
