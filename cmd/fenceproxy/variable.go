package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// What a flag is annotated with: the variables that it has instead of the one of
// its name, and the one that has set it.
const (
	hasVariables = "fenceproxy_variables"
	setBy        = "fenceproxy_set_by"
)

// variables are the environment variables of a flag: --data is FENCEPROXY_DATA.
// The first that is set counts, empty or not.
func variables(f *pflag.Flag) []string {
	if names := f.Annotations[hasVariables]; names != nil {
		return names
	}
	return []string{"FENCEPROXY_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))}
}

// tokenVariable gives --token-file the variable of one listener: that of another
// holds a secret which this one must not be sent. The one for both is for those
// who have a single listener.
func tokenVariable(flags *pflag.FlagSet, name string) {
	_ = flags.SetAnnotation("token-file", hasVariables, []string{name, "FENCEPROXY_TOKEN_FILE"}) // fails for a flag that is not there
}

// variableOf is the variable that has set a flag; "" where none has.
func variableOf(f *pflag.Flag) string { return strings.Join(f.Annotations[setBy], "") }

// nameVariables has the help of a command, and of all below it, name the
// variables of each flag.
func nameVariables(cmd *cobra.Command) {
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) { f.Usage += " ($" + strings.Join(variables(f), ", else $") + ")" })
	}
	for _, c := range cmd.Commands() {
		nameVariables(c)
	}
}

// fromEnvironment gives every flag that was not set the value of its variable.
func fromEnvironment(flags *pflag.FlagSet) error {
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" {
			return
		}
		for _, name := range variables(f) {
			value, ok := os.LookupEnv(name)
			if !ok {
				continue
			}
			if err := flags.Set(f.Name, value); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
			_ = flags.SetAnnotation(f.Name, setBy, []string{name}) // fails for a flag that is not there
			return
		}
	})
	return errors.Join(errs...)
}
