package differential

import (
	"math/rand/v2"
	"strings"
)

// mutation changes a spelling, or reports that it has nothing to change.
type mutation struct {
	kind  string
	apply func(*rand.Rand, *spelling) bool
	// pairs is how many spellings of this kind the servers must take for the
	// resource that they were made from, all servers together: fewer show
	// nothing. Where it is 0, why says what keeps the servers from it.
	pairs int
	why   string
}

// mutations are all kinds, those of the path first.
func mutations() []mutation {
	return append(append(pathMutations(), queryMutations()...), headerMutations()...)
}

// mutate makes n spellings, with the bases and what is remembered among them:
// from the bases, each by one to three mutations, and each kind about as often
// as every other.
func mutate(r *rand.Rand, n int) []spelling {
	from, kinds := bases(), mutations()
	all := append(bases(), remembered()...)
	seen := map[string]bool{}
	for i := 0; len(all) < n; i++ {
		s := from[r.IntN(len(from))].clone()
		steps := 1
		if p := r.IntN(10); p >= 6 {
			steps += 1 + p/9
		}
		next := i % len(kinds)
		for range steps {
			// A kind that needs a query, or a header, finds a base that has it.
			for try := 0; !kinds[next].apply(r, &s) && len(s.kinds) == 0 && try < 100; try++ {
				s = from[r.IntN(len(from))].clone()
			}
			s.kinds = append(s.kinds, kinds[next].kind)
			next = r.IntN(len(kinds))
		}
		if raw := s.bytes(); !seen[raw] {
			seen[raw] = true
			all = append(all, s)
		}
	}
	return all
}

func pick(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }

// splice puts text in the place of s[i:j].
func splice(s string, i, j int, text string) string { return s[:i] + text + s[j:] }

// editPath changes the target's path alone.
func editPath(edit func(*rand.Rand, string) string) func(*rand.Rand, *spelling) bool {
	return func(r *rand.Rand, s *spelling) bool {
		path, query, found := strings.Cut(s.target, "?")
		if !strings.HasPrefix(path, "/") {
			return false
		}
		edited := edit(r, path)
		if edited == path {
			return false
		}
		if s.target = edited; found {
			s.target += "?" + query
		}
		return true
	}
}

// indexes are where f says yes.
func indexes(s string, f func(i int) bool) (at []int) {
	for i := range len(s) {
		if f(i) {
			at = append(at, i)
		}
	}
	return at
}

// anyOf picks one of the places, or says there is none.
func anyOf(r *rand.Rand, places []int) (int, bool) {
	if len(places) == 0 {
		return 0, false
	}
	return places[r.IntN(len(places))], true
}

func isHex(c byte) bool { return strings.IndexByte("0123456789abcdefABCDEF", c) >= 0 }

// inEscape reports whether s[i] belongs to a percent-escape.
func inEscape(s string, i int) bool {
	for from := max(0, i-2); from <= i; from++ {
		if s[from] == '%' && from+2 < len(s) && isHex(s[from+1]) && isHex(s[from+2]) {
			return true
		}
	}
	return false
}
