package attacks

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The page of threats names tests and files: all of them are there.
func TestThreatsAreShown(t *testing.T) {
	const root = "../../.."
	page, err := os.ReadFile(root + "/deploy/THREATS.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
			tests[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test\\w+)`").FindAllSubmatch(page, -1)
	if len(named) < 40 {
		t.Errorf("only %d tests are named", len(named))
	}
	for _, m := range named {
		if !tests[string(m[1])] {
			t.Errorf("there is no %s", m[1])
		}
	}
	for _, m := range regexp.MustCompile("`((?:proxy|tokenstore|cmd|config)/[\\w/.]+)`|\\]\\(([^)#]+)[^)]*\\)").FindAllSubmatch(page, -1) {
		path := filepath.Join(root, string(m[1]))
		if len(m[2]) > 0 {
			path = filepath.Join(root, "deploy", string(m[2]))
		}
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	for _, m := range regexp.MustCompile(`TestScripts. \((\w+)\)`).FindAllSubmatch(page, -1) {
		if _, err := os.Stat(root + "/cmd/fenceproxy/testdata/script/" + string(m[1]) + ".txtar"); err != nil {
			t.Error(err)
		}
	}
}
