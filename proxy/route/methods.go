package route

import (
	"fmt"
	"slices"
	"strings"
)

// IsSafe reports whether a method is one that asks for no change: exactly GET,
// HEAD, OPTIONS or TRACE. Every other method is a write: unknown ones, those
// in small letters, and all of WebDAV.
func IsSafe(method string) bool {
	switch method {
	case "GET", "HEAD", "OPTIONS", "TRACE":
		return true
	}
	return false
}

// methods are a rule's methods in capital letters; nil is every write.
type methods []string

func parseMethods(names []string) (methods, error) {
	var ms methods
	for _, name := range names {
		m := strings.ToUpper(name)
		switch {
		case !isToken(name):
			return nil, fmt.Errorf("%q is no method", name)
		case m == "CONNECT" || m == "PRI":
			return nil, fmt.Errorf("%s never passes the proxy; leave it out", m)
		}
		ms = append(ms, m)
		if m == "GET" {
			ms = append(ms, "HEAD")
		}
	}
	return ms, nil
}

// covers reports whether the rule covers a method, as the client wrote it.
func (ms methods) covers(method string) bool {
	if ms == nil {
		return !IsSafe(method)
	}
	return slices.ContainsFunc(ms, func(m string) bool { return strings.EqualFold(m, method) })
}

// safe reports whether the rule covers requests with a safe method.
func (ms methods) safe() bool { return slices.ContainsFunc(ms, IsSafe) }

// common returns a method that both cover, or "".
func (ms methods) common(other methods) string {
	switch {
	case ms == nil && other == nil:
		return "every method that is not safe"
	case ms == nil:
		return other.common(ms)
	}
	for _, m := range ms {
		if other.covers(m) {
			return m
		}
	}
	return ""
}

// has is covers without folding letter case.
func (ms methods) has(method string) bool { return slices.Contains(ms, method) }

func (ms methods) String() string {
	if ms == nil {
		return "every method that is not safe"
	}
	return strings.Join(ms, ", ")
}
