// Command mutants shows that the tests hold the protocol: it takes out each
// rule marked S in the protocol, one at a time, and each check of the token
// parser, of the path's canonical form, of the outcome table, and of what is
// synced before a power cut. It works in a temporary copy of the module, and
// runs the one test that must fail then.
//
//	go run ./proxy/torture/mutants            all of them
//	go run ./proxy/torture/mutants -only A2   one of them; J,path-* for several
//	go run ./proxy/torture/mutants -list      what there is
//
// A mutant counts as killed only if its test ran and failed. One that does not
// compile, no longer applies, or whose test did not run is an error, since it
// has shown nothing. The exit status is 0 only if all are killed.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"strings"
	"time"
)

func main() {
	only := flag.String("only", "", "run the mutants with this name alone, or with one of several, like J,path-*")
	list := flag.Bool("list", false, "print the mutants and end")
	verbose := flag.Bool("v", false, "print what the tests printed")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "mutants: what is %q? see -help\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *list {
		for _, m := range all() {
			fmt.Printf("%-22s %s (%s)\n", m.name, m.rule, m.test)
		}
		return
	}
	ok, err := run(ctx, os.Stdout, *only, *verbose)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// run plays the chosen mutants and prints the table. ok says that all of them
// were killed.
func run(ctx context.Context, w io.Writer, only string, verbose bool) (ok bool, err error) {
	chosen, err := choose(all(), only)
	if err != nil {
		return false, err
	}
	tree, err := copyModule(ctx)
	if err != nil {
		return false, fmt.Errorf("copying the module: %w", err)
	}
	defer tree.remove()

	start := time.Now()
	if err := tree.unharmed(ctx, chosen); err != nil {
		return false, err
	}
	all := 0
	for _, runs := range tests(chosen) {
		all += len(runs)
	}
	fmt.Fprintf(w, "%d tests pass as the code stands (%.0f s)\n", all, time.Since(start).Seconds())
	killed, survived, broken := 0, 0, 0
	for _, m := range chosen {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		r := tree.try(ctx, m)
		switch r.verdict {
		case wasKilled:
			killed++
		case hasSurvived:
			survived++
		default:
			broken++
		}
		fmt.Fprintf(w, "%-8s %5.1f s  %-22s %s (%s)\n", r.verdict, r.took.Seconds(), m.name, m.rule, m.test)
		if r.why != "" {
			fmt.Fprintf(w, "%18s%s\n", "", r.why)
		}
		if verbose || r.verdict != wasKilled && r.verdict != hasSurvived {
			fmt.Fprintln(w, r.output)
		}
	}
	if broken > 0 {
		fmt.Fprintf(w, "%d mutants have shown nothing, see above\n", broken)
	}
	fmt.Fprintf(w, "mutants: %d killed, %d survived\n", killed, survived+broken)
	return survived+broken == 0 && killed > 0, nil
}

// choose returns the mutants to play: all, or those that one of the patterns
// names, which are parted by commas.
func choose(ms []mutant, only string) (chosen []mutant, err error) {
	if only == "" {
		return ms, nil
	}
	for pattern := range strings.SplitSeq(only, ",") {
		found := false
		for _, m := range ms {
			if ok, err := path.Match(pattern, m.name); err != nil {
				return nil, fmt.Errorf("-only %s: %w", pattern, err)
			} else if ok {
				chosen, found = append(chosen, m), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no mutant %q; -list names them", pattern)
		}
	}
	return chosen, nil
}
