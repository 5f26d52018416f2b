package redis

import (
	"sync"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// Backend is the store as one proxy sees it.
type Backend struct {
	prefix string
	marker string // its content, as it was when the store was opened
	log    *zap.Logger

	// keep is for what keeps the session alone: after a cut that closes nothing,
	// all connections of main may hang for as long as a call may take, each
	// until it is found out, and the session must not wait for that.
	main, keep *redis.Client

	mu    sync.Mutex            // guards acked
	acked map[session.ID]uint64 // the acquires of a session that are known to be recorded

	calls sync.WaitGroup // scripts under way, also those that nobody waits for
}

var _ session.Movable = (*Backend)(nil)

// Close implements session.Backend.
func (b *Backend) Close() error {
	err, keepErr := b.main.Close(), b.keep.Close()
	b.calls.Wait() // their connections are closed
	if err == nil {
		err = keepErr
	}
	return err
}

// known returns how many acquires of s are known to be recorded.
func (b *Backend) known(s session.ID) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.acked[s]
}

// acknowledged notes that n are.
func (b *Backend) acknowledged(s session.ID, n uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.acked[s] = max(b.acked[s], n)
}

// channel is where the proxies of this store tell each other what. Channels
// are not parted by databases, so it has the store's identity.
func (b *Backend) channel(what string) string { return b.prefix + what + ":" + b.marker }

const (
	raisedChannel = "raised" // token and key
	goneChannel   = "gone"   // member and key
)
