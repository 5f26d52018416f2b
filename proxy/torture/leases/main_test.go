package leases

import (
	"os"
	"testing"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
)

// TestMain is the command under a lease, too, and the bare server: see
// command_test.go and process_test.go.
func TestMain(m *testing.M) {
	if os.Getenv(bareVariable) != "" {
		os.Exit(serveBare())
	}
	if orders := os.Getenv(ordersVariable); orders != "" {
		os.Exit(obey(orders))
	}
	torture.Main(m)
}
