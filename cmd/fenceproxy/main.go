// Command fenceproxy is an HTTP reverse proxy, run as a sidecar, that refuses
// stale writes by their fencing tokens. Each command has a file; run.go puts
// the packages together and is the only file that knows them all.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// variable is the environment variable of a flag: --data is FENCEPROXY_DATA.
func variable(flag string) string {
	return "FENCEPROXY_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// nameVariables has the help of a command, and of all below it, name the
// variable of each flag.
func nameVariables(cmd *cobra.Command) {
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) { f.Usage += " ($" + variable(f.Name) + ")" })
	}
	for _, c := range cmd.Commands() {
		nameVariables(c)
	}
}

// fromEnvironment gives every flag that was not set the value of its
// variable.
func fromEnvironment(flags *pflag.FlagSet) error {
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		value, ok := os.LookupEnv(variable(f.Name))
		if f.Changed || !ok || f.Name == "help" {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", variable(f.Name), err))
		}
	})
	return errors.Join(errs...)
}
