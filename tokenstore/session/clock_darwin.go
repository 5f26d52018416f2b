package session

import "golang.org/x/sys/unix"

// suspendClock: on Darwin the monotonic clock goes on in suspend.
const suspendClock = unix.CLOCK_MONOTONIC
