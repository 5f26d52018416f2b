package config

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// Pos is a place in a file. Line and Col count from 1, Col in characters;
// both are 0 where a file as a whole is meant, or a flag.
type Pos struct {
	File string
	Line int
	Col  int
}

// String is FILE:LINE:COL, FILE, or "" for a flag.
func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return p.File + ":" + strconv.Itoa(p.Line) + ":" + strconv.Itoa(p.Col)
}

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	Pos Pos
	// Path of the setting, as in rules[0].key; a flag's name where flags made
	// the configuration; "" where the file cannot be read so far.
	Path string
	// Message says what is wrong.
	Message string
	// Remedy says what would be right; "" where Message does.
	Remedy string

	setting string // the path, also where Path is a flag
}

// Error prints FILE:LINE:COL: path.to.setting: what is wrong (what would be
// right), always one line.
func (p Problem) Error() string {
	var b strings.Builder
	for _, part := range []string{p.Pos.String(), p.Path} {
		if part != "" {
			b.WriteString(part + ": ")
		}
	}
	b.WriteString(p.Message)
	if p.Remedy != "" {
		b.WriteString(" (" + p.Remedy + ")")
	}
	return oneLine(b.String())
}

// Report is all that was found, each list sorted by place.
type Report struct {
	// Errors forbid the configuration's use.
	Errors []Problem
	// Warnings do not.
	Warnings []Problem
}

// Err returns nil where there is no error, and else one error that prints
// them all, a line each. A Config is fit for use only where it is nil.
func (r *Report) Err() error {
	if len(r.Errors) == 0 {
		return nil
	}
	lines := make([]string, len(r.Errors))
	for i, p := range r.Errors {
		lines[i] = p.Error()
	}
	return errors.New(strings.Join(lines, "\n"))
}

// Add puts more errors into their places.
func (r *Report) Add(errs ...Problem) {
	r.Errors = append(r.Errors, errs...)
	slices.SortStableFunc(r.Errors, byPlace)
}

// Warn puts more warnings into their places.
func (r *Report) Warn(warnings ...Problem) {
	r.Warnings = append(r.Warnings, warnings...)
	slices.SortStableFunc(r.Warnings, byPlace)
}

// Has reports whether an error was found at a setting, inside it, or at what
// holds it, so that its value says nothing: rules[0] has the error of
// rules[0].key, and rules[0].key that of rules. A file that cannot be read has
// an error at every setting.
func (r *Report) Has(path string) bool {
	return slices.ContainsFunc(r.Errors, func(p Problem) bool {
		return within(p.setting, path) || within(path, p.setting)
	})
}

// within reports whether the setting at path is, or is a part of, outer.
func within(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (outer == "" || rest == "" || rest[0] == '.' || rest[0] == '[')
}

func byPlace(a, b Problem) int {
	return cmp.Or(cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Col, b.Pos.Col))
}

// oneLine escapes what would break the line or the terminal it is read on.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}

// quote shows a piece of the file in a message, cut where it is long.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		return strconv.Quote(strings.ToValidUTF8(s[:most], "")) + "…"
	}
	return strconv.Quote(s)
}
