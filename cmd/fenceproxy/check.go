package main

import (
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/config"
	"github.com/fenceproxy/fenceproxy/proxy"
	"github.com/fenceproxy/fenceproxy/proxy/route"
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

// lint adds what may be meant, but seldom is.
func lint(cfg *config.Config, p planned, report *config.Report) {
	if report.Err() != nil {
		return // it looks at rules that are right as they stand
	}
	enforces := slices.IndexFunc(p.rules, func(r proxy.Rule) bool { return r.Fenced && !r.Observe })
	for i := range p.rules {
		switch {
		case !p.rules[i].Observe:
		case cfg.UnmatchedWrites != config.Forward:
			report.Warn(cfg.Errorf(cfg.Setting(i, "mode"), "rule %s observes, but writes that no rule covers, and other spellings of its paths, are refused all the same: set unmatched_writes: forward as long as nothing is to be refused", p.rules[i].Name))
		case enforces >= 0:
			report.Warn(cfg.Errorf(cfg.Setting(i, "mode"), "rule %s observes, but other spellings of its paths are refused all the same as long as rule %s enforces: they could be taken for one of its paths", p.rules[i].Name, p.rules[enforces].Name))
		}
	}
	for _, w := range route.Lint(p.routes) {
		report.Warn(cfg.Errorf(fmt.Sprintf("rules[%d].%s", w.Rule, w.Setting), "%s", w.Msg))
	}
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
	switch n := len(report.Errors); n {
	case 0:
		fmt.Fprintf(w, "%s: fine\n", file)
		return nil
	case 1:
		return &exitError{exitUsage, fmt.Errorf("%s: 1 error", file)}
	default:
		return &exitError{exitUsage, fmt.Errorf("%s: %d errors", file, n)}
	}
}
