package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"slices"
)

// Lookup finds the variables that ${VAR} names; os.LookupEnv is one.
type Lookup func(name string) (value string, ok bool)

// Load reads a configuration from the YAML in data; name stands for the file
// in what is reported. Everything that is wrong is reported at once, except
// that text which is no YAML has one error. A nil lookup finds no variable.
//
// The Config is never nil, so that more errors can be found through it, but
// only where Report.Err is nil is it fit for use: a setting with an error has
// its default.
func Load(name string, data []byte, lookup Lookup) (*Config, Report) {
	if lookup == nil {
		lookup = func(string) (string, bool) { return "", false }
	}
	d := &decoder{cfg: Default(), lookup: lookup, bad: map[string]bool{}}
	d.cfg.origin = origin{file: name, at: map[string]Pos{}, alone: map[string]bool{}}
	text, root, problem := parse(name, data)
	if problem != nil {
		d.report.Errors = []Problem{*problem}
		return d.cfg, d.report
	}
	d.text = text
	d.value("", root, reflect.ValueOf(d.cfg).Elem(), field{})
	validate(d.cfg, &d.report, d.bad)
	slices.SortStableFunc(d.report.Errors, byPlace)
	slices.SortStableFunc(d.report.Warnings, byPlace)
	return d.cfg, d.report
}

// LoadFile reads the configuration file at path as Load does. A file that
// cannot be read is an error in the report.
func LoadFile(path string, lookup Lookup) (*Config, Report) {
	data, err := readFile(path)
	if err != nil {
		cfg := Default()
		cfg.origin.file = path
		p := Problem{Pos: Pos{File: path}, Message: "cannot be read: " + err.Error(), Remedy: "a readable YAML file"}
		return cfg, Report{Errors: []Problem{p}}
	}
	return Load(path, data, lookup)
}

// readFile reads no more than parse takes: the path may name a pipe or a
// device that never ends.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		var pathErr *fs.PathError
		if errors.As(err, &pathErr) {
			return nil, pathErr.Err // the place says the path
		}
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("after %d bytes: %w", len(data), err)
	}
	return data, nil
}
