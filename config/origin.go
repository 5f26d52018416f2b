package config

import (
	"fmt"
	"strings"
)

// origin remembers where each setting comes from, so that errors found later
// and elsewhere are told at their place.
type origin struct {
	file  string
	at    map[string]Pos    // by path: of a setting's value; "" is the document
	alone map[string]bool   // lists that the file gives as one value, path: /x
	flags map[string]string // paths by flag, where flags made the configuration
}

// At returns the place of a setting's value, such as rules[0].path[1], or of
// the nearest setting around it where the file does not have it.
func (c *Config) At(path string) Pos {
	_, pos := c.origin.find(path)
	return pos
}

// Errorf makes an error of a setting from what another package found wrong
// with its value. path is as in Problem.Path; list items are told by their
// index, and index 0 may be used where the file gives one value instead of a
// list. A path that the file does not have gets the place around it.
func (c *Config) Errorf(path, format string, args ...any) Problem {
	name, pos := c.origin.find(path)
	return Problem{Pos: pos, Path: name, Message: fmt.Sprintf(format, args...), setting: path}
}

// given reports whether the file (or a flag) sets path.
func (c *Config) given(path string) bool {
	_, ok := c.origin.at[path]
	return ok || c.origin.flags[path] != ""
}

// find returns the name to print for path, and its place.
func (o *origin) find(path string) (string, Pos) {
	if flag := o.flags[path]; flag != "" {
		return flag, Pos{}
	}
	if list, ok := strings.CutSuffix(path, "[0]"); ok && (o.alone[list] || o.flags[list] != "") {
		return o.find(list)
	}
	for around := path; ; around = parent(around) {
		if pos, ok := o.at[around]; ok {
			return path, pos
		}
		if around == "" {
			return path, Pos{File: o.file}
		}
	}
}

// parent of rules[0].key is rules[0], of that rules, of that "".
func parent(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// join is the path of a setting inside another.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
