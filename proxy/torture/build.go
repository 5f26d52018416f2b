package torture

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// BinaryVariable names a binary to test instead of one built from this module.
const BinaryVariable = "FENCEPROXY_TORTURE_BINARY"

// Build makes the fenceproxy binary in dir and returns its path. It is built
// with the race detector where the test is, so that a race in the proxy is
// found by whatever test meets it, see Proxy.Complaints.
func Build(dir string) (string, error) {
	if path := os.Getenv(BinaryVariable); path != "" {
		return path, nil
	}
	path := filepath.Join(dir, "fenceproxy")
	args := []string{"build", "-o", path}
	if raceEnabled {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "github.com/fenceproxy/fenceproxy/cmd/fenceproxy")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the proxy: %w\n%s", err, out)
	}
	return path, nil
}
