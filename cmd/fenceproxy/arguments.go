package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// noArguments refuses a file that is named without its flag.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments; write --config %s", cmd.Name(), args[0])
	}
	return nil
}

// needsCommand is what a command does that is only a group of others, which are
// named.
func needsCommand(others string) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("%s has no command %q: %s", cmd.Name(), args[0], others)
		}
		return fmt.Errorf("%s needs a command: %s", cmd.Name(), others)
	}
}

// takes refuses other numbers of arguments, and shows how the command is called.
func takes(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if least <= len(args) && len(args) <= most {
			return nil
		}
		_, path, _ := strings.Cut(cmd.CommandPath(), " ")
		_, named, _ := strings.Cut(cmd.Use, " ")
		example, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n")
		return fmt.Errorf("%s takes %s, as in: %s", path, named, example)
	}
}

// strictly makes usage errors of what cobra's own commands answer with their
// help, and with 0: a script would take that for done.
func strictly(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			cmd.Args, cmd.RunE = nil, needsCommand("bash, zsh, fish or powershell")
		case "help":
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				if _, rest, err := root.Find(args); err != nil || len(rest) > 0 {
					return fmt.Errorf("there is no command %q; fenceproxy help names all", strings.Join(args, " "))
				}
				cmd.Run(cmd, args)
				return nil
			}
		}
	}
}
