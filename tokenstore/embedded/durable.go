package embedded

import (
	"context"
	"sync"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// durable knows the number of the last transaction that is on the disk. bbolt
// shows a transaction to readers once its meta page is written, which is
// before that page is synced: a reader that looked in between would take a
// record for durable that a power cut can still undo (story A2).
type durable struct {
	mu    sync.Mutex // guards what follows
	txid  int
	moved chan struct{} // closed by the next advance; nil where nobody waits
}

// advance says that transaction txid is on the disk.
func (d *durable) advance(txid int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.txid = txid
	if d.moved != nil {
		close(d.moved)
		d.moved = nil
	}
}

func (d *durable) last() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.txid
}

// wait returns when transaction txid is on the disk. Its errors wrap
// ErrUnavailable: ctx ended, or the store has failed or closed and nobody
// will ever know.
func (d *durable) wait(ctx context.Context, txid int, failed, closed <-chan struct{}) error {
	for {
		d.mu.Lock()
		if txid <= d.txid {
			d.mu.Unlock()
			return nil
		}
		if d.moved == nil {
			d.moved = make(chan struct{})
		}
		moved := d.moved
		d.mu.Unlock()
		select {
		case <-moved:
		case <-failed:
			return tokenstore.Unavailable(errFailed)
		case <-closed:
			return tokenstore.Unavailable(errClosed)
		case <-ctx.Done():
			return tokenstore.Unavailable(context.Cause(ctx))
		}
	}
}
