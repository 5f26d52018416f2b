package leases

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
)

// built is the proxy's binary, made once, when the first test asks for it.
var built func() (string, error)

// TestMain is the command under a lease, too, and the bare server: see
// command_test.go and process_test.go.
func TestMain(m *testing.M) {
	if os.Getenv(bareVariable) != "" {
		os.Exit(serveBare())
	}
	if orders := os.Getenv(ordersVariable); orders != "" {
		os.Exit(obey(orders))
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "fenceproxy-leases-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		built = sync.OnceValues(func() (string, error) { return torture.Build(dir) })
		return m.Run()
	}())
}
