package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/config"
	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/embedded"
)

// newStore is the tool for a store that no proxy uses.
func newStore() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Make or check a token store that no proxy uses",
		RunE:  func(*cobra.Command, []string) error { return errors.New("store needs a command: init or verify") },
	}
	cmd.AddCommand(
		newStoreCommand("init", "Make the store of a configuration; there must be none yet, or a shared one is left as it is", storeInit, initShared),
		newStoreCommand("verify", "Check every record of a store, and that none is lost", storeVerify, nil),
	)
	return cmd
}

// newStoreCommand is a command on the store that a file names: an embedded
// one, or a shared one where shared is not nil.
func newStoreCommand(name, short string, do func(w io.Writer, e *config.Embedded, p planned) error, shared func(context.Context, io.Writer, engine) error) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   name + " --config FILE",
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return fmt.Errorf("store %s needs --config FILE", name)
			}
			cfg, report := config.LoadFile(file, os.LookupEnv)
			p := plan(cfg, &report)
			if err := report.Err(); err != nil {
				return &exitError{exitUsage, err}
			}
			var err error
			switch {
			case cfg.Store.Memory != nil:
				return &exitError{exitUsage, errors.New("store.memory keeps nothing: there is no store to work on")}
			case cfg.Store.Embedded != nil:
				err = do(cmd.OutOrStdout(), cfg.Store.Embedded, p)
			case shared == nil:
				return &exitError{exitUsage, fmt.Errorf("store %s is for an embedded store: the engine of a shared one looks after it", name)}
			default:
				err = shared(cmd.Context(), cmd.OutOrStdout(), engineOf(cfg, p, zap.NewNop()))
			}
			if err != nil {
				return &exitError{exitFailed, err}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "the configuration file")
	return cmd
}

func storeInit(w io.Writer, e *config.Embedded, p planned) error {
	s, err := embedded.Open(embedded.Options{Path: e.Path, Create: true, Rules: p.fingerprints, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	if !s.Created() {
		// Its marker was erased just now; what it said must stay true.
		return errors.Join(fmt.Errorf("%s holds a store already, with %d keys: it was left as it is", e.Path, s.Keys()), s.Close(!s.Recovered()))
	}
	if err := s.Close(true); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s: made\n", e.Path)
	return err
}

// initShared makes the store's part of an engine, and opens it once.
func initShared(ctx context.Context, w io.Writer, e engine) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if err := e.init(ctx); err != nil {
		return fmt.Errorf("%s: %w", e.setting, err)
	}
	b, err := e.open(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", e.setting, err)
	}
	_, err = fmt.Fprintf(w, "%s: ready\n", e.setting)
	return errors.Join(err, b.Close())
}

func storeVerify(w io.Writer, e *config.Embedded, _ planned) error {
	r, err := embedded.Verify(e.Path)
	if errors.Is(err, tokenstore.ErrLocked) {
		return fmt.Errorf("%s is in use: stop the proxy, or verify a copy that was made while it stood: %w", e.Path, tokenstore.ErrLocked)
	}
	if err != nil {
		return err
	}
	for _, problem := range r.Problems {
		fmt.Fprintln(w, problem)
	}
	if !r.Sound() {
		return fmt.Errorf("%s is damaged: restore nothing older over it, since that would forget tokens; make a new store, and raise the tokens of the keys named above by hand before writers return", e.Path)
	}
	stop := "a clean stop"
	if !r.Clean {
		stop = "an unclean stop: the next start quarantines its keys for the settle time"
	}
	_, err = fmt.Fprintf(w, "%s: sound, %d keys, after %s\n", e.Path, r.Keys, stop)
	return err
}
