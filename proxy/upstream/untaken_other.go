//go:build !linux

package upstream

import (
	"math"
	"net"
)

// untaken is only known on Linux: anywhere else all of it may be.
func untaken(net.Conn) int { return math.MaxInt32 }
