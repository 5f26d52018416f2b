package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
)

// wrong is an error that knows what would be right.
type wrong struct{ message, remedy string }

func (w *wrong) Error() string { return w.message + " (" + w.remedy + ")" }

// setScalar reads value into v by v's type. Ranges are not its business.
func setScalar(v reflect.Value, value string) error {
	for _, r := range value {
		if unicode.IsControl(r) {
			return &wrong{fmt.Sprintf("holds the character %U", r), "one line of text"}
		}
	}
	remedy := wanted(v.Type(), field{})
	switch to := v.Addr().Interface().(type) {
	case *time.Duration:
		d, err := time.ParseDuration(value)
		if err != nil {
			return &wrong{quote(value) + " is not a duration", remedy}
		}
		*to = d
	case *Size:
		s, err := parseSize(value)
		if err != nil {
			return &wrong{quote(value) + " is not a size", remedy}
		}
		*to = s
	case *FileMode:
		m, err := parseFileMode(value)
		if err != nil {
			return &wrong{quote(value) + " is not the mode of a file", remedy}
		}
		*to = m
	case *int:
		n, err := parseDigits(value)
		if err != nil {
			return &wrong{err.Error(), remedy}
		}
		if n > math.MaxInt32 { // the largest int of every platform
			return &wrong{quote(value) + " is too large", remedy}
		}
		*to = int(n)
	case *uint64:
		n, err := parseDigits(value)
		if err != nil {
			return &wrong{err.Error(), remedy}
		}
		*to = n
	case *bool:
		if value != "true" && value != "false" {
			return &wrong{quote(value) + " is not known", remedy}
		}
		*to = value == "true"
	case choice:
		return setChoice(v, value, to)
	case *string:
		*to = value
	default:
		return fmt.Errorf("settings of type %s cannot be read", v.Type())
	}
	return nil
}

func setChoice(v reflect.Value, value string, to choice) error {
	all := to.choices()
	if slices.Contains(all, value) {
		v.SetString(value)
		return nil
	}
	remedy := strings.Join(all, " or ")
	if s := nearest(value, all); s != "" {
		remedy = "did you mean " + s + "? " + remedy
	}
	return &wrong{quote(value) + " is not known", remedy}
}

// wanted says what a setting of type t takes.
func wanted(t reflect.Type, f field) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch v := reflect.New(t).Interface().(type) {
	case *time.Duration:
		return "a duration such as 30s, 500ms or 1m30s"
	case *Size:
		return "a size such as 65536, 64KiB or 1MiB"
	case *FileMode:
		return `four octal digits, as in "0660"`
	case *int:
		return "digits alone, as in 64"
	case *uint64:
		return "digits alone, 0 to 18446744073709551615"
	case *bool:
		return "true or false"
	case choice:
		return strings.Join(v.choices(), " or ")
	case *string:
		return "text"
	case *Memory:
		return "{}: it has no settings"
	}
	switch {
	case t.Kind() == reflect.Struct:
		return "settings, each as name: value"
	case f.one:
		return "one value or a list"
	}
	return "a list, as in [a, b] or one item a line after -"
}
