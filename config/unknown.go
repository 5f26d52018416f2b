package config

import (
	"reflect"
	"slices"
	"strings"
)

// unknown says what is wrong with a setting that no struct has: misspelt, at
// the wrong place, or neither.
func unknown(path, name string) (message, remedy string) {
	group := generic(path)
	if name == "<<" {
		return "merge keys are not supported", "write the settings out"
	}
	here, all := neighbours(group)
	if s := nearest(name, here); s != "" {
		return "is not a setting", "did you mean " + s + "?"
	}
	if s := sameName(join(group, name), name, all); s != "" {
		return "is not a setting", "did you mean " + s + "?"
	}
	if len(here) == 0 {
		return "is not a setting", "nothing can be set here"
	}
	return "is not a setting", "here stand: " + strings.Join(here, ", ")
}

// neighbours are the names that may stand in a group, and the paths of all
// settings.
func neighbours(group string) (here, all []string) {
	all = settings("", reflect.TypeFor[Config]())
	for _, p := range all {
		if name, ok := strings.CutPrefix(p, join(group, "")); ok && !strings.Contains(name, ".") {
			here = append(here, name)
		}
	}
	return here, all
}

// sameName returns the setting of that name which stands nearest to where it
// was looked for, "" where there is none. Defaults go before the rules that
// override them.
func sameName(path, name string, all []string) string {
	best, most := "", -1
	for _, p := range all {
		if p != name && !strings.HasSuffix(p, "."+name) {
			continue
		}
		near := 0
		for near < min(len(p), len(path)) && p[near] == path[near] {
			near++
		}
		if near > most || near == most && inRule(best) && !inRule(p) {
			best, most = p, near
		}
	}
	return best
}

func inRule(path string) bool { return strings.HasPrefix(path, "rules[]") }

// nearest returns the one of names that name is most likely a misspelling
// of, "" where none is near.
func nearest(name string, names []string) string {
	const longest = 40 // nothing that long is a misspelling of a setting
	if len(name) > longest {
		return ""
	}
	best, least := "", 3
	for _, n := range slices.Sorted(slices.Values(names)) {
		d := distance(fold(name), fold(n))
		if d < least && d*3 <= len(n) {
			best, least = n, d
		}
	}
	return best
}

// fold makes headerTimeout, header-timeout and header_timeout one name.
func fold(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

// distance counts the letters to insert, drop, replace or swap with their
// neighbour to get from a to b.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
