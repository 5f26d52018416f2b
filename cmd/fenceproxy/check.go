package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/config"
)

func newCheck() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "check --config FILE",
		Short: "Load and provision a configuration and print everything that is wrong with it",
		Args:  noArguments,

		ValidArgsFunction: words(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return fmt.Errorf("check needs --config FILE")
			}
			cfg, report := config.LoadFile(file, os.LookupEnv)
			p := plan(cfg, &report)
			lint(cfg, p, &report)
			return tell(cmd.OutOrStdout(), file, report)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "the configuration file")
	return cmd
}

// tell prints the errors, then the warnings, and returns an error with the
// exit code where there are errors.
func tell(w io.Writer, file string, report config.Report) error {
	for _, p := range report.Errors {
		fmt.Fprintln(w, p.Error())
	}
	for _, p := range report.Warnings {
		fmt.Fprintln(w, "warning: "+p.Error())
	}
	if n := len(report.Errors); n > 0 {
		return &exitError{exitUsage, fmt.Errorf("%s: %s", file, count(n, "error", "errors"))}
	}
	fmt.Fprintf(w, "%s: fine\n", file)
	return nil
}
