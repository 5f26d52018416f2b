package main

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// commandsOf are all that a user sees, cobra's own left out.
func commandsOf(cmd *cobra.Command) (all []*cobra.Command) {
	all = append(all, cmd)
	for _, c := range cmd.Commands() {
		if !c.Hidden && c.Name() != "completion" && c.Name() != "help" {
			all = append(all, commandsOf(c)...)
		}
	}
	return all
}

// Every command says what it does, how it ends and how it is called, and the
// examples are such calls.
func TestHelp(t *testing.T) {
	root := newRoot()
	seen := 0
	for _, cmd := range commandsOf(root) {
		seen++
		path := cmd.CommandPath()
		if len(cmd.Long) < 60 || cmd.Short == "" {
			t.Errorf("%s does not say what it does: %q", path, cmd.Long)
		}
		if !regexp.MustCompile(`Exit codes: 0 |The exit code is `).MatchString(cmd.Long) {
			t.Errorf("%s does not tell its exit codes", path)
		}
		for line := range strings.Lines(cmd.Long + "\n") {
			if len(strings.TrimRight(line, "\n")) > 100 {
				t.Errorf("%s has a line that a terminal breaks: %s", path, line)
			}
		}
		if cmd.Example == "" {
			t.Errorf("%s has no example", path)
		}
		for line := range strings.Lines(cmd.Example) {
			if !strings.HasPrefix(line, "  "+path) {
				t.Errorf("%s has an example of something else: %s", path, line)
			}
			line, _, _ = strings.Cut(line, " -- ")
			called, _, err := root.Find(strings.Fields(line)[1:])
			if err != nil {
				t.Errorf("%s has an example that is no command: %s", path, line)
				continue
			}
			for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(line, -1) {
				if called.Flag(flag[2:]) == nil {
					t.Errorf("%s has an example with %s, which it does not have", path, flag)
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("%d commands", seen)
	}
	for words := range manuals {
		if cmd, rest, err := root.Find(strings.Fields(words)); err != nil || len(rest) > 0 || cmd.Hidden {
			t.Errorf("there is a manual of %q, and no such command", words)
		}
	}
}

// A flag of one name is one thing, since all of them share its variable: what is
// set for one command must not change what another one means.
func TestFlagsOfOneName(t *testing.T) {
	kebab := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	first := map[string]*pflag.Flag{}
	for _, cmd := range commandsOf(newRoot()) {
		for _, set := range []*pflag.FlagSet{cmd.LocalNonPersistentFlags(), cmd.PersistentFlags()} {
			set.VisitAll(func(f *pflag.Flag) {
				if !kebab.MatchString(f.Name) || f.Usage == "" {
					t.Errorf("%s: --%s is not in kebab case, or says nothing", cmd.CommandPath(), f.Name)
				}
				was := first[f.Name]
				if was == nil {
					first[f.Name] = f
					return
				}
				if was.Value.Type() != f.Value.Type() || f.DefValue != was.DefValue && f.DefValue != "" && was.DefValue != "" && f.Name != "listen" {
					t.Errorf("%s: --%s is %s (%s) here and %s (%s) elsewhere", cmd.CommandPath(), f.Name, f.Value.Type(), f.DefValue, was.Value.Type(), was.DefValue)
				}
			})
		}
	}
	// A directory for serve must not be the body of a request to explain.
	for _, cmd := range commandsOf(newRoot()) {
		if f := cmd.Flag("data"); f != nil && cmd.Name() != "serve" {
			t.Errorf("%s has --data", cmd.CommandPath())
		}
	}
}

// What bash offers, by the script that completion bash prints.
func TestCompletionInBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	// Of the package bash-completion the script needs this much.
	const session = `
_get_comp_words_by_ref() { cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=("${COMP_WORDS[@]}") cword=$COMP_CWORD; }
__ltrim_colon_completions() { :; }
compopt() { :; }
_filedir() { COMPREPLY=("files:$1"); }
source <(fenceproxy completion bash --no-descriptions)
offer() {
	COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE} COMPREPLY=() COMP_TYPE=9
	__start_fenceproxy
	echo "${*:2}=${COMPREPLY[*]}"
}
offer fenceproxy se
offer fenceproxy keys s
offer fenceproxy keys list --b
offer fenceproxy keys list --output j
offer fenceproxy serve --confi
offer fenceproxy serve --config fi
offer fenceproxy serve --data d
offer fenceproxy explain --config file.yaml D
offer fenceproxy completion ba
`
	cmd := exec.Command(bash, "--norc", "-c", session)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	want := []string{"se=serve", "keys s=settle", "keys list --b=--busy", "keys list --output j=json", "serve --confi=--config", "serve --config fi=files:yaml|yml|", "serve --data d=files:-d", "explain --config file.yaml D=DELETE", "completion ba=bash"}
	for i := range got {
		got[i] = strings.TrimSpace(strings.ReplaceAll(got[i], "= ", "="))
	}
	if !slices.Equal(got, want) {
		t.Errorf("bash offers\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
