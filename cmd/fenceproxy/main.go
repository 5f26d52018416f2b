// Command fenceproxy is an HTTP reverse proxy, run as a sidecar, that refuses
// stale writes by their fencing tokens. Each command has a file; run.go puts
// the packages together and is the only file that knows them all.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// The exit codes.
const (
	exitFailed = 1 // failed while running
	exitUsage  = 2 // wrong usage or configuration
	exitBusy   = 3 // stopped while something was in flight, unsettled or quarantined
)

// exitError ends the command with a code, and without a word where err is nil.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func main() {
	os.Exit(execute(context.Background(), os.Args[1:]))
}

// execute runs one command line and returns the exit code.
func execute(ctx context.Context, args []string) int {
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	exit := &exitError{exitUsage, err} // cobra's own errors are all about usage
	errors.As(err, &exit)
	if exit.err != nil {
		fmt.Fprintf(standardError, "fenceproxy: %v\n", err)
		_ = standardError.Sync()
	}
	return exit.code
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "fenceproxy",
		Short:         "Refuses stale writes in front of any HTTP API, by their fencing tokens",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version(),
	}
	root.AddCommand(newServe(), newCheck(), newExplain(), newDemo(), newKeys(), newStore(), newLock(), newSchema(), newVersion())
	strictly(root)
	instruct(root)
	completeFlags(root)
	root.SetVersionTemplate("{{.Version}}\n")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return fromEnvironment(cmd.Flags()) }
	nameVariables(root)
	return root
}
