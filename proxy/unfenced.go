package proxy

import (
	"context"
	"time"
)

// AwaitUnfenced waits until every write is over, also one that no fence touches
// under the rules in force: for a stop, behind which a start may come with rules
// that fence it. The gate's are over before. One that still comes is refused:
// closing its connection does not stop a handler that is just beginning. There is
// one call, and no Switch behind it.
func (h *Handler) AwaitUnfenced(ctx context.Context) error {
	last := h.books.current.Load()
	shut := newBook(last.Rulebook)
	shut.number, shut.last, shut.shut = last.number, last.last, true
	h.books.current.Store(shut)
	last.leave()
	all := []*book{last}
	if former := h.books.former.Load(); former != nil {
		all = append(all, *former...)
	}
	return await(ctx, all)
}

// CountUnfenced counts one more write for so long, for all those that no fence
// touched in a life before and that may still be applied: a reload that fences
// them waits, as for its own.
func (h *Handler) CountUnfenced(settle time.Duration) {
	b := h.books.open()
	time.AfterFunc(settle, b.leave)
}

// await waits until the writes under the books are over.
func await(ctx context.Context, books []*book) error {
	for _, b := range books {
		select {
		case <-b.over:
		case <-ctx.Done():
			if !isClosed(b.over) { // when both are there, either may be chosen
				return ctx.Err()
			}
		}
	}
	return nil
}
