package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
)

func (f *keysFlags) export() *cobra.Command {
	return f.command("export", "Write all records to standard output, as a backup, in the form of store export", cobra.NoArgs, func(c keysCall) error {
		body, err := c.admin.Export(c.ctx)
		if err != nil {
			return err
		}
		defer func() { _ = body.Close() }()
		keys, err := readDump(io.TeeReader(body, c.out))
		if err != nil {
			return fmt.Errorf("what was written is no whole dump: %w", err)
		}
		_, err = fmt.Fprintf(c.errors, "exported, %s\n", count(keys, "key", "keys"))
		return err
	})
}

// readDump reads a dump to its end.
func readDump(from io.Reader) (keys int64, err error) {
	r, err := dump.NewReader(from)
	for ; err == nil; keys++ {
		_, err = r.Next()
	}
	if errors.Is(err, io.EOF) {
		return keys - 1, nil
	}
	return 0, err
}

func (f *keysFlags) importDump() *cobra.Command {
	var reason string
	cmd := f.command("import [DUMP]", "Raise the keys of a dump, from a file or standard input; a higher token is kept", takes(0, 1), func(c keysCall) error {
		if reason == "" {
			return usageOf("import needs --reason")
		}
		from := c.in
		if len(c.args) > 0 {
			file, err := os.Open(c.args[0])
			if err != nil {
				return &exitError{exitFailed, err}
			}
			defer func() { _ = file.Close() }()
			from = file
		}
		r, err := c.admin.Import(c.ctx, from, reason)
		if err != nil {
			return err
		}
		return c.print(r, importTable(r))
	})
	reasonFlag(cmd, &reason)
	return cmd
}
