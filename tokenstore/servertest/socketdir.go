package servertest

import (
	"os"
	"testing"
)

// maxSocketDir leaves a name of 20 bytes in it room: the path of a unix socket has
// 103 bytes at most, on the system that takes the fewest.
const maxSocketDir = 80

// SocketDir makes a directory for unix sockets, whose paths must be short: what
// t.TempDir makes has the name of the test in it, and stands where TMPDIR says. It
// is removed at the end of the test.
func SocketDir(t testing.TB) string {
	t.Helper()
	for _, base := range []string{"", "/tmp", "/var/tmp"} { // "" is TMPDIR
		dir, err := os.MkdirTemp(base, "fp-")
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		if len(dir) <= maxSocketDir {
			return dir
		}
	}
	t.Fatalf("the path of a unix socket would be too long below %s, and nothing can be made in /tmp: set TMPDIR to a shorter one", os.TempDir())
	return ""
}
