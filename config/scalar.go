package config

import (
	"fmt"
	"reflect"
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
	case *int:
		n, err := parseDigits(value)
		if err != nil {
			return &wrong{err.Error(), remedy}
		}
		*to = int(n)
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
	built, unbuilt := to.choices()
	for _, c := range unbuilt {
		if c == value {
			return &wrong{value + notBuilt, strings.Join(built, " or ")}
		}
	}
	for _, c := range built {
		if c == value {
			v.SetString(value)
			return nil
		}
	}
	remedy := strings.Join(built, " or ")
	if s := nearest(value, built); s != "" && len(built) > 1 {
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
	case *int:
		return "digits alone, as in 64"
	case *bool:
		return "true or false"
	case choice:
		built, _ := v.choices()
		return strings.Join(built, " or ")
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
