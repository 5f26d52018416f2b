package postgres

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// noteTimeout bounds how long hints are tried to be sent. They lose their worth
// soon: by then the others have found out by themselves.
const noteTimeout = 2 * time.Second

// notifyAll sends them in a transaction that waits for no disk. One that did
// would keep all others that notify waiting, in the whole cluster.
const notifyAll = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, hint) FROM unnest($2::text[]) hint"

// notes are the keys that other proxies should look at, sent behind the
// callers, all that have come together in one call.
type notes struct {
	b      *Backend
	sender string // tells this proxy's own hints from those of the others
	kick   chan struct{}
	quit   chan struct{}
	ended  chan struct{}

	mu     sync.Mutex // guards keys and leased
	keys   map[tokenstore.Key]struct{}
	leased map[tokenstore.Key]struct{} // whose lease they should look at
}

func startNotes(b *Backend) *notes {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	n := &notes{b: b, sender: hex.EncodeToString(id[:]), kick: make(chan struct{}, 1), quit: make(chan struct{}), ended: make(chan struct{}), keys: map[tokenstore.Key]struct{}{}, leased: map[tokenstore.Key]struct{}{}}
	go n.run()
	return n
}

// add is for keys whose change is committed.
func (n *notes) add(keys ...tokenstore.Key) {
	if len(keys) == 0 {
		return
	}
	n.mu.Lock()
	for _, key := range keys {
		n.keys[key] = struct{}{}
	}
	n.mu.Unlock()
	n.wakeUp()
}

func (n *notes) wakeUp() {
	select {
	case n.kick <- struct{}{}:
	default: // it is awake already
	}
}

func (n *notes) run() {
	defer close(n.ended)
	for {
		select {
		case <-n.kick:
			n.send()
		case <-n.quit:
			n.send()
			return
		}
	}
}

// send sends what has come together. What cannot be sent is forgotten.
func (n *notes) send() {
	n.mu.Lock()
	keys := slices.Collect(maps.Keys(n.keys))
	leased := slices.Collect(maps.Keys(n.leased))
	clear(n.keys)
	clear(n.leased)
	n.mu.Unlock()
	var hints []string
	for _, key := range keys {
		hints = append(hints, n.hint(key))
	}
	for _, key := range leased {
		hints = append(hints, n.leaseHint(key))
	}
	if len(hints) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), noteTimeout)
	defer cancel()
	_ = call(ctx, n.b.life, notifyAll, []any{n.b.channel, hints}, []any{nil, nil}, noRow)
}

// stop sends the rest and ends.
func (n *notes) stop() {
	select {
	case <-n.quit:
	default:
		close(n.quit)
	}
	<-n.ended
}

// hint is what is sent: any bytes make a key, and not any make a text. It is
// well below the 8,000 bytes that PostgreSQL allows.
func (n *notes) hint(key tokenstore.Key) string {
	return n.sender + ":" + base64.RawStdEncoding.EncodeToString([]byte(key))
}

// read returns the key of a hint of another proxy.
func (n *notes) read(hint string) (key tokenstore.Key, ok bool) {
	sender, text, ok := strings.Cut(hint, ":")
	if !ok || sender == n.sender {
		return "", false
	}
	raw, err := base64.RawStdEncoding.DecodeString(text)
	return tokenstore.Key(raw), err == nil
}
