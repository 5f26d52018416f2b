package shared

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
)

// built is the proxy's binary, made once, when the first test asks for it.
var built func() (string, error)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "fenceproxy-shared-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		built = sync.OnceValues(func() (string, error) { return torture.Build(dir) })
		return m.Run()
	}())
}
