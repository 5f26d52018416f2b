package servertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
)

// The ports that are given away stay below those that the kernel gives to
// outgoing connections: one who kills a server and starts it again at the same
// address would else find, now and then, that a client has been given this very
// port.
//
// They come in blocks, of which a process has one. So no other test, of this
// process or of another, is given the port of a server that does not listen at
// the moment.
const (
	lowest, highest = 12_000, 30_000
	block           = 300
)

// ours is the block of this process. It is taken with the first address, and
// kept by listening to its first port, until the process ends.
var ours struct {
	mu   sync.Mutex
	base int // 0 for none yet
	last int // the port given last, from base on
	kept net.Listener
}

// FreeAddress returns a loopback address on which nothing listens now. It is
// given to nobody else before the rest of the block was.
func FreeAddress() (string, error) {
	ours.mu.Lock()
	defer ours.mu.Unlock()
	if ours.base == 0 {
		if err := takeBlock(); err != nil {
			return "", err
		}
	}
	for range block - 1 {
		ours.last = ours.last%(block-1) + 1
		addr := fmt.Sprintf("127.0.0.1:%d", ours.base+ours.last)
		if ln, err := net.Listen("tcp", addr); err == nil {
			return addr, ln.Close()
		}
	}
	return "", fmt.Errorf("no port from %d to %d is free on loopback", ours.base, ours.base+block-1)
}

func takeBlock() error {
	const blocks = (highest - lowest) / block
	for _, i := range rand.Perm(blocks) {
		base := lowest + i*block
		if ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", base)); err == nil {
			ours.base, ours.kept = base, ln
			return nil
		}
	}
	return fmt.Errorf("no block of ports between %d and %d is free on loopback", lowest, highest)
}

// OnFree starts a server at n free addresses. Where a program that knows nothing
// of blocks has taken one before the server could, it starts it at others.
func OnFree(n int, start func(addrs []string) error) error {
	var err error
	for range 5 {
		addrs := make([]string, n)
		for i := range addrs {
			var none error
			if addrs[i], none = FreeAddress(); none != nil {
				return errors.Join(none, err)
			}
		}
		if err = start(addrs); err == nil || !strings.Contains(strings.ToLower(err.Error()), "address already in use") {
			return err
		}
	}
	return err
}
