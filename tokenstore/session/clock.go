package session

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// Boottime is the time since boot, suspended time included. A monotonic clock
// stands still in suspend: a proxy that slept through its session would wake up
// and take it for valid (X4). A clock that cannot be read has passed every
// deadline.
func Boottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(suspendClock, &ts); err != nil {
		return math.MaxInt64
	}
	return time.Duration(ts.Nano())
}
