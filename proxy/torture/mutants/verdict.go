package main

import "strings"

// verdict is what became of a mutant.
type verdict uint8

const (
	// isBroken is the zero value: what nobody understands has shown nothing.
	isBroken verdict = iota
	wasKilled
	hasSurvived
	noLongerApplies
	doesNotBuild
	didNotRun
	didHang
)

func (v verdict) String() string {
	return [...]string{"BROKEN", "killed", "SURVIVED", "NO MATCH", "NO BUILD", "NO TEST", "HANGS"}[v]
}

// judge reads what go test -v printed of the one test of m. failed says that
// go test ended with an error.
func judge(m mutant, out string, failed bool) verdict {
	switch {
	case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
		return doesNotBuild
	case !started(out, m.test):
		return didNotRun
	case strings.Contains(out, "panic: test timed out after"):
		if m.hangs > 0 {
			return wasKilled
		}
		return didHang
	case failed && !strings.Contains(out, "--- SKIP: "+printed(m.test)+" "):
		return wasKilled
	case strings.Contains(out, "--- PASS: "+printed(m.test)+" ") && !failed:
		return hasSurvived
	}
	return didNotRun // skipped
}

// started reports whether the test began.
func started(out, test string) bool {
	return strings.Contains(out, "=== RUN   "+printed(test)+"\n")
}

// passed reports whether the test ran and passed.
func passed(out, test string) bool {
	return strings.Contains(out, "--- PASS: "+printed(test)+" ")
}

// reason is the first line with which the test says why it failed.
func reason(out string) string {
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if strings.Contains(line, "_test.go:") || strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
			return short(line)
		}
	}
	return ""
}

func short(line string) string {
	const most = 140
	if len(line) > most {
		return line[:most] + "…"
	}
	return line
}
