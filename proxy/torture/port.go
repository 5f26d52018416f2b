package torture

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// given are the ports that FreeAddress has returned: whoever got one may not
// listen there yet.
var given sync.Map

// FreeAddress returns a loopback address on which nothing listens now, and each
// of them once.
//
// It stays below the ports that the kernel gives to outgoing connections: a
// test that kills the proxy and starts it again at the same address would
// else find, now and then, that a client has been given this very port.
func FreeAddress() (string, error) {
	const low, high = 12_000, 30_000
	var last error
	for range 100 {
		port := low + rand.IntN(high-low)
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		if _, twice := given.LoadOrStore(port, true); twice {
			last = fmt.Errorf("%s was given to another", addr)
			continue
		}
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
