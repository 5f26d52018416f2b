package torture

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// FreeAddress returns a loopback address on which nothing listens now.
//
// It stays below the ports that the kernel gives to outgoing connections: a
// test that kills the proxy and starts it again at the same address would
// else find, now and then, that a client has been given this very port.
func FreeAddress() (string, error) {
	const low, high = 12_000, 30_000
	var last error
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", low+rand.IntN(high-low))
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			last = err
			continue
		}
		ln.Close()
		return addr, nil
	}
	return "", fmt.Errorf("no free port between %d and %d on loopback: %w", low, high, last)
}
