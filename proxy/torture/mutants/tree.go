package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// tree is a copy of the module, in which mutants are made.
type tree struct{ dir string }

// copyModule copies what git knows of the module, and what is new and not
// ignored, to a temporary directory. The checkout is only read.
func copyModule(ctx context.Context) (*tree, error) {
	mod, err := output(ctx, ".", "go", "env", "GOMOD")
	if err != nil {
		return nil, err
	}
	root := filepath.Dir(strings.TrimSpace(mod))
	files, err := output(ctx, root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "fenceproxy-mutants-")
	if err != nil {
		return nil, err
	}
	t := &tree{dir}
	for name := range strings.SplitSeq(files, "\x00") {
		if name == "" {
			continue
		}
		if err := copyFile(filepath.Join(dir, name), filepath.Join(root, name)); err != nil {
			t.remove()
			return nil, err
		}
	}
	return t, nil
}

// copyFile copies a regular file. One that git knows and that has been removed
// is left out.
func copyFile(to, from string) error {
	info, err := os.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	return os.WriteFile(to, b, info.Mode().Perm())
}

func (t *tree) remove() { _ = os.RemoveAll(t.dir) }

// mutate makes the edits of m. restore puts the files back as they were and is
// to be called after an error too.
func (t *tree) mutate(m mutant) (restore func() error, err error) {
	before := map[string][]byte{}
	restore = func() error {
		var errs []error
		for path, b := range before {
			errs = append(errs, os.WriteFile(path, b, 0o666))
		}
		return errors.Join(errs...)
	}
	for _, e := range m.edits {
		path := filepath.Join(t.dir, filepath.FromSlash(e.file))
		b, err := os.ReadFile(path)
		if err != nil {
			return restore, fmt.Errorf("the mutant no longer applies: %w", err)
		}
		text, err := e.apply(string(b))
		if err != nil {
			return restore, err
		}
		if _, ok := before[path]; !ok {
			before[path] = b
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			return restore, err
		}
	}
	return restore, nil
}

// output runs a command and returns its standard output.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", cmd, err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
