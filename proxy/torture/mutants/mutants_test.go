package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestJudge: only a test that ran and failed has killed its mutant.
func TestJudge(t *testing.T) {
	const run, fail, pass = "=== RUN   TestX\n", "--- FAIL: TestX (0.00s)\n", "--- PASS: TestX (0.00s)\n"
	const timeout = "panic: test timed out after 1m0s\n"
	for _, row := range []struct {
		name   string
		out    string
		failed bool
		hangs  time.Duration
		want   verdict
	}{
		{"failed", run + fail + "FAIL\n", true, 0, wasKilled},
		{"panicked", run + "panic: deadlock\nFAIL\tpkg\t1s\n", true, 0, wasKilled},
		{"passed", run + pass + "ok\n", false, 0, hasSurvived},
		{"does not compile", "# pkg\nx.go:1: undefined\nFAIL\tpkg [build failed]\n", true, 0, doesNotBuild},
		{"bad import", "FAIL\tpkg [setup failed]\n", true, 0, doesNotBuild},
		{"no such test", "testing: warning: no tests to run\nok pkg [no tests to run]\n", false, 0, didNotRun},
		{"another test failed", "=== RUN   TestXY\n--- FAIL: TestXY (0.00s)\n", true, 0, didNotRun},
		{"go test itself failed", "go: no such tool\n", true, 0, didNotRun},
		{"skipped", run + "--- SKIP: TestX (0.00s)\nok\n", false, 0, didNotRun},
		{"skipped, and the rest failed", run + "--- SKIP: TestX (0.00s)\nFAIL\n", true, 0, didNotRun},
		{"hung", run + timeout, true, 0, didHang},
		{"hung as it may", run + timeout, true, time.Second, wasKilled},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := judge(mutant{test: "TestX", hangs: row.hangs}, row.out, row.failed); got != row.want {
				t.Errorf("%v, want %v", got, row.want)
			}
		})
	}
}

// TestApply: an edit whose text stands not exactly once is an error.
func TestApply(t *testing.T) {
	for _, row := range []struct{ name, text, old, new, want, err string }{
		{"once", "a b c", "b", "x", "a x c", ""},
		{"removed", "a b c", "b ", "", "a c", ""},
		{"not there", "a c", "b", "x", "", "no longer applies"},
		{"twice", "a b b", "b", "x", "", "2 times"},
		{"changes nothing", "a b", "b", "b", "", "changes nothing"},
		{"no text", "a b", "", "b", "", "changes nothing"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := edit{"f.go", row.old, row.new}.apply(row.text)
			if got != row.want || (err == nil) != (row.err == "") || err != nil && !strings.Contains(err.Error(), row.err) {
				t.Errorf("%q, %v; want %q, %q", got, err, row.want, row.err)
			}
		})
	}
}

// TestPattern: the pattern selects this test and no other.
func TestPattern(t *testing.T) {
	const test = "TestX/early 200, then (a|b)"
	want := []string{"^TestX$", `^early_200,_then_\(a\|b\)$`}
	got := strings.Split(pattern(test), "/")
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Fatalf("%q, want %q", got, want)
	}
	if !regexp.MustCompile(got[1]).MatchString("early_200,_then_(a|b)") {
		t.Error("it does not match its own test")
	}
}

// TestTable: names are unique, every mutant is complete, and each still
// applies to the code beside it. Whether it is killed is what the command
// shows.
func TestTable(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	seen := map[string]bool{}
	for _, m := range all() {
		if seen[m.name] {
			t.Errorf("there are two mutants %s", m.name)
		}
		seen[m.name] = true
		if m.rule == "" || m.pkg == "" || m.test == "" || len(m.edits) == 0 {
			t.Errorf("mutant %s is incomplete: %+v", m.name, m)
		}
		files := map[string]string{}
		for _, e := range m.edits {
			if _, ok := files[e.file]; !ok {
				b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.file)))
				if err != nil {
					t.Errorf("mutant %s: %v", m.name, err)
					continue
				}
				files[e.file] = string(b)
			}
			text, err := e.apply(files[e.file])
			if err != nil {
				t.Errorf("mutant %s: %v", m.name, err)
				continue
			}
			files[e.file] = text
		}
	}
	// The rules marked S of the protocol's part on one proxy.
	for _, story := range []string{"lock", "F", "E", "Q", "H", "A", "A2", "B", "B2", "C", "C2", "J", "D", "I", "F2-in-flight", "F2-unsettled", "F3", "L1", "L2"} {
		if !seen[story] {
			t.Errorf("no mutant takes out the rule of story %s", story)
		}
	}
}

// TestMutate: the tree is as it was after a mutant, also after one that does
// not apply.
func TestMutate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f.go")
	const before = "one two"
	if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func() string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, row := range []struct {
		name  string
		edits []edit
		want  string // while it is made
		fails bool
	}{
		{"two edits of one file", []edit{{"f.go", "one", "1"}, {"f.go", "two", "2"}}, "1 2", false},
		{"the second does not apply", []edit{{"f.go", "one", "1"}, {"f.go", "three", "3"}}, "1 two", true},
		{"no such file", []edit{{"f.go", "one", "1"}, {"g.go", "x", "y"}}, "1 two", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			restore, err := (&tree{dir}).mutate(mutant{edits: row.edits})
			if (err != nil) != row.fails || read() != row.want {
				t.Errorf("%v, %q; want %q", err, read(), row.want)
			}
			if err := restore(); err != nil || read() != before {
				t.Errorf("afterwards: %v, %q", err, read())
			}
		})
	}
}
