package differential

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore/servertest"
)

// patience is how long an answer may take on a machine that is busy.
const patience = servertest.Patience

// configure writes a configuration file from testdata into a directory of its
// own, with its words replaced.
func configure(t *testing.T, name string, words ...string) (dir, file string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	file = filepath.Join(dir, name)
	replaced := strings.NewReplacer(append(words, "DIR", dir)...).Replace(string(text))
	if err := os.WriteFile(file, []byte(replaced), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, file
}

// ports runs a server that takes free ports and says them in its first line.
func ports(t *testing.T, advice string, env []string, name string, args ...string) (addrs []string) {
	t.Helper()
	defer func() {
		if len(addrs) == 0 {
			t.Log(advice)
		}
	}()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	for port := range strings.FieldsSeq(servertest.Says(t, cmd)) {
		addrs = append(addrs, "127.0.0.1:"+port)
	}
	return addrs
}
