package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/config"
	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/embedded"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// newStore is the tool for a store that no proxy uses.
func newStore() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Make, check or move a token store that no proxy uses",
		RunE:  needsCommand("init, verify, export or import"),
	}
	cmd.AddCommand(
		newStoreCommand("init", "Make the store of a configuration; there must be none yet, or a shared one is left as it is", cobra.NoArgs, storeInit, initShared),
		newStoreCommand("verify", "Check every record of a store, and that none is lost", cobra.NoArgs, storeVerify, verifyShared),
		newStoreCommand("export", "Write all of a store to standard output, for store import", cobra.NoArgs, storeExport, exportShared),
		newStoreCommand("import [DUMP]", "Take what store export wrote, from a file or standard input; the higher token of each key is kept", takes(0, 1), storeImport, importShared),
	)
	return cmd
}

// storeCall is one call of a command on a store.
type storeCall struct {
	ctx      context.Context
	in       io.Reader
	out, err io.Writer
	args     []string
	cfg      *config.Config
	p        planned
}

// newStoreCommand is a command on the store that a file names, an embedded or
// a shared one.
func newStoreCommand(use, short string, args cobra.PositionalArgs, do func(c storeCall, e *config.Embedded) error, shared func(c storeCall, e engine) error) *cobra.Command {
	var file string
	name, rest, _ := strings.Cut(use, " ")
	cmd := &cobra.Command{
		Use:   strings.TrimRight(name+" --config FILE "+rest, " "),
		Short: short,
		Args:  args,
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return fmt.Errorf("store %s needs --config FILE", name)
			}
			cfg, report := config.LoadFile(file, os.LookupEnv)
			p := plan(cfg, &report)
			if err := report.Err(); err != nil {
				return &exitError{exitUsage, err}
			}
			c := storeCall{cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args, cfg, p}
			var err error
			switch {
			case cfg.Store.Memory != nil:
				return &exitError{exitUsage, errors.New("store.memory keeps nothing: there is no store to work on")}
			case cfg.Store.Embedded != nil:
				err = do(c, cfg.Store.Embedded)
			default:
				err = shared(c, engineOf(cfg, p, zap.NewNop()))
			}
			if exit := (*exitError)(nil); err != nil && !errors.As(err, &exit) {
				err = &exitError{exitFailed, err}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "the configuration file")
	return cmd
}

func storeInit(c storeCall, e *config.Embedded) error {
	s, err := embedded.Open(embedded.Options{Path: e.Path, Create: true, Rules: c.p.fingerprints, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	if !s.Created() {
		// Its marker was erased just now; what it said must stay true.
		return errors.Join(fmt.Errorf("%s holds a store already, with %s: it was left as it is", e.Path, count(s.Keys(), "key", "keys")), s.Close(!s.Recovered()))
	}
	if err := s.Close(true); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "%s: made\n", e.Path)
	return err
}

// initShared makes the store's part of an engine, and opens it once.
func initShared(c storeCall, e engine) error {
	ctx, cancel := context.WithTimeout(c.ctx, openTimeout)
	defer cancel()
	if err := e.init(ctx); err != nil {
		return fmt.Errorf("%s: %w", e.setting, err)
	}
	return withShared(c, e, func(session.Movable) error {
		_, err := fmt.Fprintf(c.out, "%s: ready\n", e.setting)
		return err
	})
}

func storeVerify(c storeCall, e *config.Embedded) error {
	r, err := embedded.Verify(e.Path)
	if errors.Is(err, tokenstore.ErrLocked) {
		return fmt.Errorf("%s is in use: stop the proxy, or verify a copy that was made while it stood: %w", e.Path, tokenstore.ErrLocked)
	}
	if err != nil {
		return err
	}
	for _, problem := range r.Problems {
		fmt.Fprintln(c.out, problem)
	}
	if !r.Sound() {
		return fmt.Errorf("%s is damaged: restore nothing older over it, since that would forget tokens; make a new store, and raise the tokens of the keys named above by hand before writers return", e.Path)
	}
	_, err = fmt.Fprintf(c.out, "%s: sound, %s, after %s\n", e.Path, count(r.Keys, "key", "keys"), stopWords(r.Clean))
	return err
}

// stopWords say how a store was left.
func stopWords(clean bool) string {
	if clean {
		return "a clean stop"
	}
	return "an unclean stop: the next start quarantines its keys for the settle time"
}
