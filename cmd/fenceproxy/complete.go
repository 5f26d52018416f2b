package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fenceproxy/fenceproxy/proxy/client"
)

// completePatience is how long a shell waits for the keys of a running proxy.
const completePatience = time.Second

// completions is what a shell offers behind a flag; behind the rest nothing
// that it knows of would be right.
var completions = map[string]cobra.CompletionFunc{
	"config":        extensions("yaml", "yml"),
	"data":          directories,
	"token-file":    files,
	"ca-file":       files,
	"cert-file":     files,
	"key-file":      files,
	"output":        words("table\tfor people", "json\tfor scripts"),
	"raised-before": words("7d", "30d", "90d", "365d"),
	"header":        words("X-Fencing-Token: ", "Content-Type: application/json"),
	"upstream":      words("http://127.0.0.1:9000"),
	"listen":        words("127.0.0.1:8080"),
	"admin":         words("127.0.0.1:9901"),
	"server":        words("http://127.0.0.1:9902"),
	"key":           words("{path}"),
}

// completeFlags gives the flags of a command, and of all below it, their
// completions.
func completeFlags(cmd *cobra.Command) {
	offer := func(f *pflag.Flag) {
		complete := completions[f.Name]
		if complete == nil {
			complete = words()
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, complete) // fails for a flag that has one
	}
	cmd.Flags().VisitAll(offer)
	cmd.PersistentFlags().VisitAll(offer)
	for _, c := range cmd.Commands() {
		completeFlags(c)
	}
}

func files(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

func directories(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

func extensions(all ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return all, cobra.ShellCompDirectiveFilterFileExt
	}
}

func words(all ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return all, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeKey offers the keys of the proxy that --admin names, where it answers.
func (f *keysFlags) completeKey(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var keys []cobra.Completion
	if len(args) == 0 {
		for _, k := range f.someKeys(cmd, typed, 100) {
			keys = append(keys, plain(k.Key))
		}
	}
	return keys, cobra.ShellCompDirectiveNoFileComp
}

// completeRule offers the rules that own the key, or without one some keys.
func (f *keysFlags) completeRule(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	prefix := ""
	if len(args) > 0 {
		prefix = args[0]
	}
	var rules []cobra.Completion
	for _, k := range f.someKeys(cmd, prefix, 1000) {
		if k.Rule != "" && !slices.Contains(rules, k.Rule) {
			rules = append(rules, k.Rule)
		}
	}
	return rules, cobra.ShellCompDirectiveNoFileComp
}

// someKeys are none where the proxy does not answer at once: a shell waits, and
// has no place for an error.
func (f *keysFlags) someKeys(cmd *cobra.Command, prefix string, limit int) []client.ListedKey {
	if fromEnvironment(cmd.Flags()) != nil {
		return nil
	}
	admin, err := f.client()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), completePatience)
	defer cancel()
	list, err := admin.Keys(ctx, prefix, "", limit)
	if err != nil {
		return nil
	}
	return list.Keys
}
