//go:build !linux

package client

import "time"

var epoch = time.Now()

// boottime takes the wall clock where that has gone further than the monotonic
// one, which may stand still in suspend. A wall clock that is set forward ends
// a lease too early, and never too late.
func boottime() time.Duration {
	now := time.Now()
	return max(now.Sub(epoch), now.Round(0).Sub(epoch.Round(0)))
}
