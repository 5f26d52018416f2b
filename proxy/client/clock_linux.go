package client

import (
	"math"
	"syscall"
	"time"
	"unsafe"
)

// clockBoottime is CLOCK_BOOTTIME, which package syscall has no name for.
const clockBoottime = 7

// boottime is the time since boot, suspended time included. Go's monotonic
// clock stands still in suspend: a holder that slept through its lease would
// wake up and take it for valid. A clock that cannot be read has passed every
// deadline.
func boottime() time.Duration {
	var ts syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return math.MaxInt64
	}
	return time.Duration(ts.Nano())
}
