package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"
)

const (
	testTime  = 60 * time.Second // for one test; mutant.hangs may say less
	buildTime = 5 * time.Minute  // for building and running it
)

// result is how a mutant fared.
type result struct {
	verdict verdict
	why     string // a line for people
	output  string
	took    time.Duration
}

// try makes the mutant, runs its test, and puts the code back.
func (t *tree) try(ctx context.Context, m mutant) (r result) {
	start := time.Now()
	defer func() { r.took = time.Since(start) }()
	restore, err := t.mutate(m)
	defer func() {
		if err := restore(); err != nil {
			r = result{verdict: isBroken, why: "the code was not put back: " + err.Error()}
		}
	}()
	if err != nil {
		return result{verdict: noLongerApplies, output: err.Error()}
	}
	limit := m.hangs
	if limit == 0 {
		limit = testTime
	}
	out, err := t.test(ctx, m.pkg, pattern(m.test), limit)
	r = result{verdict: judge(m, out, err != nil), output: out}
	if r.verdict == wasKilled {
		r.why = reason(out)
	}
	return r
}

// test runs tests of one package without the race detector and without the
// result of an earlier run. The build cache is the user's own.
func (t *tree) test(ctx context.Context, pkg, run string, limit time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, buildTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-v", "-count=1", "-vet=off", "-timeout", limit.String(), "-run", run, pkg)
	cmd.Dir = t.dir
	cmd.WaitDelay = 10 * time.Second // a child of a test may hold its output
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// tests returns the tests of the mutants as one -run expression for each package.
// Of a test with many subtests only those run that a mutant must fail.
func tests(ms []mutant) map[string][]string {
	byPkg := map[string][]string{}
	for _, m := range ms {
		if run := pattern(m.test); !slices.Contains(byPkg[m.pkg], run) {
			byPkg[m.pkg] = append(byPkg[m.pkg], run)
		}
	}
	return byPkg
}

// unharmed makes sure that every test which a mutant must fail is there and
// passes without it, one run for each package.
func (t *tree) unharmed(ctx context.Context, ms []mutant) error {
	byPkg := tests(ms)
	var errs []error
	for _, pkg := range slices.Sorted(maps.Keys(byPkg)) {
		out, err := t.test(ctx, pkg, strings.Join(byPkg[pkg], "|"), 5*testTime)
		if err != nil {
			errs = append(errs, fmt.Errorf("the tests of %s fail without any mutant: %w\n%s", pkg, err, out))
			continue
		}
		for _, m := range ms {
			if m.pkg == pkg && !passed(out, m.test) {
				errs = append(errs, fmt.Errorf("mutant %s: %s has no test %s that ran and passed", m.name, pkg, m.test))
			}
		}
	}
	return errors.Join(errs...)
}
