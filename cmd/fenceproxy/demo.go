package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/demo"
)

func newDemo() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show on loopback how a paused worker loses data, and how the proxy keeps it",
		Long: `Show on loopback, in a few seconds and with nothing left behind, how a worker
that was paused loses another one's data, and how the proxy keeps it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return &exitError{exitFailed, fmt.Errorf("demo starts this program again and cannot find it: %w", err)}
			}
			// SIGPIPE too: `fenceproxy demo | head -5` must leave no process.
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
			defer stop()
			if err := demo.Run(ctx, demo.Options{Out: cmd.OutOrStdout(), Self: self}); err != nil {
				return &exitError{exitFailed, fmt.Errorf("demo: %w", err)}
			}
			return nil
		},
	}
	cmd.AddCommand(newDemoAPI(), newDemoWorker())
	return cmd
}

// newDemoWorker is what the demo starts itself again as.
func newDemoWorker() *cobra.Command {
	return &cobra.Command{
		Use:    "worker NAME LOCK FILE",
		Short:  "One worker of the demo",
		Hidden: true,
		Args:   cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := demo.Worker(cmd.Context(), args[0], args[1], args[2], cmd.InOrStdin(), cmd.OutOrStdout()); err != nil {
				return &exitError{exitFailed, err}
			}
			return nil
		},
	}
}
