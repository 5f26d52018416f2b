package embedded

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The test binary runs itself as a child with one of these roles, in a
// directory that the other variable names.
const (
	childRole = "FENCEPROXY_EMBEDDED_TEST_ROLE"
	childDir  = "FENCEPROXY_EMBEDDED_TEST_DIR"
)

var roles = map[string]func(dir string) error{
	"raise until killed": raiseUntilKilled,
	"grant until killed": grantUntilKilled,
	"full disk":          fillDisk,
	"measure open":       measureOpen,
}

func runChild(role string) int {
	if err := roles[role](os.Getenv(childDir)); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1
	}
	return 0
}

// child prepares this binary to run a role.
func child(t testing.TB, role, dir string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childRole+"="+role, childDir+"="+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

// lines runs a child to its end and returns what it printed.
func lines(t testing.TB, cmd *exec.Cmd) []string {
	t.Helper()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("child: %v", err)
	}
	var all []string
	for sc := bufio.NewScanner(strings.NewReader(string(out))); sc.Scan(); {
		all = append(all, sc.Text())
	}
	return all
}
