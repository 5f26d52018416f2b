package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/demo"
)

// The demo's last act fails where the grant of a lease is no fence: A's write,
// late as it is, lands, since B has not written yet.
func TestDemoJudgesTheGrant(t *testing.T) {
	t.Parallel()
	binary, err := exec.LookPath("fenceproxy") // TestMain puts it there
	if err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(t.TempDir(), "fenceproxy")
	script := "#!/bin/sh\nif [ \"$1\" = lock ]; then shift; set -- lock --no-fence \"$@\"; fi\nexec " + binary + " \"$@\"\n"
	if err := os.WriteFile(self, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err = demo.Run(t.Context(), demo.Options{Out: &out, Self: self})
	if err == nil || err.Error() != "act 4 did not end as promised: worker A should be answered 409 stale-token, and was answered 204" {
		t.Errorf("%v\n%s", err, &out)
	}
}
