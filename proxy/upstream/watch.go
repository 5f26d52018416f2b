package upstream

import "context"

// watch has f called in a goroutine of its own when ctx is done, unless stop is
// called before.
//
// A context that has an AfterFunc itself is asked directly: context.AfterFunc
// would put one of its own in between, for each exchange.
func watch(ctx context.Context, f func()) (stop func() bool) {
	if own, ok := ctx.(interface{ AfterFunc(func()) func() bool }); ok {
		return own.AfterFunc(f)
	}
	return context.AfterFunc(ctx, f)
}
