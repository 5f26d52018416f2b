package config

import (
	"reflect"
	"strings"
)

// Diff returns the settings in which two configurations differ, in the order
// of the reference, rules as a whole.
func Diff(a, b *Config) []string {
	return diff("", reflect.ValueOf(*a), reflect.ValueOf(*b))
}

func diff(path string, a, b reflect.Value) (paths []string) {
	if a.Kind() == reflect.Pointer && !a.IsNil() && !b.IsNil() {
		a, b = a.Elem(), b.Elem()
	}
	if a.Kind() != reflect.Struct {
		if reflect.DeepEqual(a.Interface(), b.Interface()) {
			return nil
		}
		return []string{path}
	}
	for i := range a.NumField() {
		name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("yaml"), ",")
		if name == "" {
			continue
		}
		paths = append(paths, diff(join(path, name), a.Field(i), b.Field(i))...)
	}
	return paths
}
