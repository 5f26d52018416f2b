package config

import (
	"regexp"
	"strings"
)

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand replaces ${VAR} and ${VAR:-default} in one value of a parsed file,
// so that what a variable holds can never become structure. The default
// counts where VAR is not set or empty; $${ stands for ${. What a variable
// holds is not expanded again.
func expand(value string, lookup Lookup) (string, error) {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(value, "${")
		if !ok {
			b.WriteString(value)
			return b.String(), nil
		}
		if literal, ok := strings.CutSuffix(before, "$"); ok {
			b.WriteString(literal + "${")
			value = rest
			continue
		}
		b.WriteString(before)
		inside, after, closed := strings.Cut(rest, "}")
		name, fallback, hasDefault := strings.Cut(inside, ":-")
		switch {
		case !closed:
			return "", &wrong{"${ is not closed", "${VAR} or ${VAR:-default}; $${ for the text itself"}
		case !variable.MatchString(name):
			return "", &wrong{quote("${"+inside+"}") + " is not a variable", "${VAR} or ${VAR:-default}; $${ for the text itself"}
		case strings.Contains(fallback, "{"):
			// The } of a {name} would end the variable, and what follows
			// would stay whatever VAR holds.
			return "", &wrong{"the default of ${" + name + "} holds a brace", "a default without { and }"}
		}
		held, set := lookup(name)
		switch {
		case hasDefault && held == "":
			held = fallback
		case !set:
			return "", &wrong{"the variable " + name + " is not set", "set it, or give a default: ${" + name + ":-default}"}
		}
		b.WriteString(held)
		value = after
	}
}
