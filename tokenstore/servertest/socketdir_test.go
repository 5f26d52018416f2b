package servertest

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// However long TMPDIR is, a socket can be made, and nothing stays behind.
func TestSocketDir(t *testing.T) {
	for _, n := range []int{1, 60, 70, 200} {
		long := filepath.Join(t.TempDir(), strings.Repeat("x", n))
		if err := os.Mkdir(long, 0o700); err != nil {
			t.Fatal(err)
		}
		var dir string
		t.Run("", func(t *testing.T) {
			t.Setenv("TMPDIR", long)
			dir = SocketDir(t)
			l, err := net.Listen("unix", filepath.Join(dir, strings.Repeat("s", 20)))
			if err != nil {
				t.Fatal(err)
			}
			_ = l.Close()
		})
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s stays behind: %v", dir, err)
		}
		if left, _ := os.ReadDir(long); len(left) > 0 {
			t.Errorf("%v stay behind", left)
		}
	}
}
