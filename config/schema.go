package config

import (
	"reflect"
	"slices"
	"strings"
)

// field is one setting of a struct.
type field struct {
	index []int
	one   bool // a list that may also be given as one value
}

// fieldsOf returns the settings of a struct by name, those of its inlined
// structs included.
func fieldsOf(t reflect.Type) map[string]field {
	fields := map[string]field{}
	for _, sf := range reflect.VisibleFields(t) {
		name, option, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		if name != "" {
			fields[name] = field{index: sf.Index, one: option == "one"}
		}
	}
	return fields
}

// settings returns the paths of all settings below t, sorted; the items of a
// list are [], as in rules[].key.
func settings(path string, t reflect.Type) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return settings(path+"[]", t.Elem())
	case t.Kind() != reflect.Struct:
		return nil
	}
	var paths []string
	for name, f := range fieldsOf(t) {
		at := join(path, name)
		paths = append(paths, at)
		paths = append(paths, settings(at, t.FieldByIndex(f.index).Type)...)
	}
	slices.Sort(paths)
	return paths
}

// generic turns the indexes of a path into [].
func generic(path string) string {
	var b strings.Builder
	inside := false
	for _, r := range path {
		if r == ']' {
			inside = false
		}
		if !inside {
			b.WriteRune(r)
		}
		if r == '[' {
			inside = true
		}
	}
	return b.String()
}
