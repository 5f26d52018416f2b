package route

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxParams is how many values one pattern may give, its `/*` included. It is
// fixed so that a Match holds them without an allocation.
const maxParams = 10

// pattern is one path pattern of a rule, read and found good.
type pattern struct {
	text     string
	parts    []patternPart
	names    []string // of the values, in order; "*" for a trailing /*
	segments []string // of the folded shape
}

type patternPart struct {
	kind patternKind
	text string // of a literal
	expr *expr  // of a parameter, or nil
}

type patternKind uint8

const (
	partLiteral patternKind = iota
	partParam
	partRest // a trailing *
)

// parsePattern reads a pattern in chi's syntax. chi panics at a bad one and
// accepts some that mean something else than they say; both are errors here.
// Static text may have what the policy allows.
func parsePattern(text string, policy PathPolicy) (*pattern, error) {
	p := &pattern{text: text}
	if !strings.HasPrefix(text, "/") {
		return nil, fmt.Errorf("the pattern %q must begin with /", text)
	}
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("the pattern %q must be valid UTF-8", text)
	}
	skeleton := "" // the pattern with x for every value, to look at its segments
	for rest := text; rest != ""; {
		end := strings.IndexAny(rest, "{}*")
		if end < 0 {
			end = len(rest)
		}
		if end > 0 {
			p.parts = append(p.parts, patternPart{kind: partLiteral, text: rest[:end]})
			skeleton += rest[:end]
			rest = rest[end:]
			continue
		}
		switch rest[0] {
		case '}':
			return nil, fmt.Errorf("the pattern %q has a } without {", text)
		case '*':
			if rest != "*" || !strings.HasSuffix(skeleton, "/") {
				return nil, fmt.Errorf("in the pattern %q the * must be last and follow a / (write /*, or a parameter like {name})", text)
			}
			p.parts = append(p.parts, patternPart{kind: partRest})
			p.names = append(p.names, "*")
			rest = ""
		default:
			n := closing(rest)
			if n < 0 {
				return nil, fmt.Errorf("the pattern %q has a { without }", text)
			}
			if err := p.addParam(rest[1:n], rest[n+1:]); err != nil {
				return nil, fmt.Errorf("the pattern %q: %w", text, err)
			}
			skeleton += "x"
			rest = rest[n+1:]
		}
	}
	if len(p.names) > maxParams {
		return nil, fmt.Errorf("the pattern %q has more than %d parameters", text, maxParams)
	}
	if err := checkLiteral(p, policy); err != nil {
		return nil, fmt.Errorf("the pattern %q has %w and could never match", text, err)
	}
	if err := checkSegments(skeleton); err != nil {
		return nil, fmt.Errorf("the pattern %q has %w and could never match", text, err)
	}
	p.segments = splitShape(p.parts)
	return p, nil
}

// closing is the index of the brace that closes the one at s[0], counted as
// chi counts, or -1.
func closing(s string) int {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

func (p *pattern) addParam(inside, after string) error {
	name, text, isExpr := strings.Cut(inside, ":")
	if !isName(name) {
		return fmt.Errorf("%q is no name of a parameter (letters, digits, _ and -, beginning with a letter or _)", name)
	}
	if slices.Contains([]string{"host", "method", "path"}, name) {
		return fmt.Errorf("the name {%s} is taken in key templates; choose another", name)
	}
	if slices.Contains(p.names, name) {
		return fmt.Errorf("the parameter {%s} stands twice", name)
	}
	// What follows ends the value. It must look the same in the folded form,
	// so it is no letter, nor a part of one.
	if after != "" {
		c := after[0]
		if c == '{' {
			return fmt.Errorf("nothing parts {%s} from the parameter behind it", name)
		}
		if c >= utf8.RuneSelf || isLetter(c) {
			return fmt.Errorf("a letter follows {%s}; put a / or a mark like - . : between", name)
		}
	}
	part := patternPart{kind: partParam}
	if isExpr {
		e, err := parseExpr(text, after != "" && after[0] != '/')
		if err != nil {
			return fmt.Errorf("the expression of {%s} %w", name, err)
		}
		part.expr = e
	}
	p.parts = append(p.parts, part)
	p.names = append(p.names, name)
	return nil
}

func checkLiteral(p *pattern, policy PathPolicy) error {
	for n, part := range p.parts {
		if part.kind != partLiteral {
			continue
		}
		if policy.EncodedSlash {
			part.text = strings.ReplaceAll(part.text, "%2f", slashMark)
			p.parts[n] = part
		}
		for i := range len(part.text) {
			switch c := part.text[i]; {
			case c == '?':
				return fmt.Errorf("a ?: patterns see no query (use {query.name} in the key)")
			case c == ';' && policy.Params:
			case c == ';':
				return errors.New("a ;, which needs path_policy: {params: keep}")
			case c == '#' || c == '\\':
				return fmt.Errorf("a %c: no canonical target has one", c)
			case c < 0x20 || c == 0x7f:
				return fmt.Errorf("a control byte")
			case c == '%':
				b, ok := unhex(part.text, i)
				if ok && b == '/' && policy.EncodedSlash {
					continue
				}
				if ok && b == '/' {
					return fmt.Errorf("an encoded slash, which needs path_policy: {encoded_slash: segment}")
				}
				if ok {
					return fmt.Errorf("the escape %s: static text is compared decoded, write the character itself", part.text[i:i+3])
				}
			}
		}
	}
	return nil
}

func checkSegments(skeleton string) error {
	segments := strings.Split(skeleton, "/")[1:]
	for i, seg := range segments {
		switch {
		case seg == "" && i < len(segments)-1:
			return fmt.Errorf("an empty segment (//)")
		case isDots(seg):
			return fmt.Errorf("a dot segment (. or ..)")
		}
	}
	return nil
}

// exact writes the pattern for chi, its parameters named by their position:
// two patterns of one shape come out alike.
func (p *pattern) exact() string { return writeParts(p.parts, false) }

// folded is exact for folded paths: static text in small letters and without a
// trailing slash, which a folded path never has.
func (p *pattern) folded() string {
	s := writeParts(p.parts, true)
	if len(s) > 1 {
		s = strings.TrimSuffix(s, "/")
	}
	return s
}

// places are where the pattern has an expression (the folded shape before it)
// and which.
func (p *pattern) places() map[string]string {
	at := map[string]string{}
	for i, part := range p.parts {
		if part.expr != nil {
			at[writeParts(p.parts[:i], true)] = part.expr.text
		}
	}
	return at
}

// inReading writes the pattern as paths look that a policy has relaxed.
func (p *pattern) inReading(policy PathPolicy) string {
	s := writeParts(p.parts, policy.CaseInsensitive)
	if policy.TrailingSlash && len(s) > 1 {
		s = strings.TrimSuffix(s, "/")
	}
	return s
}

// splitShape cuts the folded shape into segments. A / inside an expression
// parts none.
func splitShape(parts []patternPart) []string {
	segments, n := []string{""}, 0
	for _, part := range parts {
		text := writeParts([]patternPart{part}, true)
		if part.kind == partParam {
			text = strings.Replace(text, "{p0", "{p"+strconv.Itoa(n), 1)
			segments[len(segments)-1] += text
			n++
			continue
		}
		pieces := strings.Split(text, "/")
		segments[len(segments)-1] += pieces[0]
		segments = append(segments, pieces[1:]...)
	}
	return segments[1:] // before the first / is nothing
}

// takesIn reports whether p is broader than other: it ends in /* and stands
// for every path that other stands for.
func (p *pattern) takesIn(other *pattern) bool {
	n := len(p.segments) - 1
	if p.segments[n] != "*" || len(other.segments) <= n {
		return false
	}
	for i, seg := range p.segments[:n] {
		if seg != other.segments[i] && !isPlainParam(seg) {
			return false
		}
	}
	return true
}

// isPlainParam reports whether a segment of a shape is one parameter that
// takes every value.
func isPlainParam(seg string) bool {
	digits, ok := strings.CutPrefix(seg, "{p")
	_, err := strconv.Atoi(strings.TrimSuffix(digits, "}"))
	return ok && err == nil
}

func writeParts(parts []patternPart, folded bool) string {
	var b strings.Builder
	n := 0
	for _, part := range parts {
		switch part.kind {
		case partLiteral:
			if folded {
				b.WriteString(lower(part.text))
			} else {
				b.WriteString(part.text)
			}
		case partParam:
			b.WriteString("{p" + strconv.Itoa(n))
			if part.expr != nil {
				b.WriteString(":" + part.expr.forChi(folded))
			}
			b.WriteByte('}')
			n++
		case partRest:
			b.WriteByte('*')
		}
	}
	return b.String()
}

func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !isLetter(c) && c != '_' && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return s != ""
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
