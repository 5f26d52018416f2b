package route

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// maxPlaceholders is how many placeholders a key template may have.
const maxPlaceholders = 16

// keyPart is one piece of a template.
type keyPart struct {
	from    source
	text    string   // the literal text, or the placeholder as it stands in the template
	name    string   // of the parameter, query or form field (as it stands), header (canonical) or XML attribute
	steps   []string // of the JSON pointer, or of the XML element path
	filters []filter // in the order in which they apply
	index   int      // of the path's value, once the template is bound to a pattern
}

// template is a key template, read and found good. Keys of one template are
// injective: values are escaped to bytes that the literal before the next
// placeholder leaves, so a key can be read back from left to right.
type template []keyPart

// parseTemplate reads a template.
func parseTemplate(text string) (template, error) {
	if text == "" {
		return nil, fmt.Errorf("the key is empty; write a template like account:{id}")
	}
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("the key must be valid UTF-8")
	}
	var t template
	placeholders, literal := 0, 0
	for rest := text; rest != ""; {
		end := strings.IndexByte(rest, '{')
		if end < 0 {
			end = len(rest)
		}
		if end > 0 {
			if err := checkText(rest[:end]); err != nil {
				return nil, err
			}
			t = append(t, keyPart{from: fromLiteral, text: rest[:end]})
			literal += end
			rest = rest[end:]
			continue
		}
		inside, after, ok := strings.Cut(rest[1:], "}")
		if !ok {
			return nil, fmt.Errorf("the key has a { without }")
		}
		part, err := parsePlaceholder(inside)
		if err != nil {
			return nil, err
		}
		t = append(t, part)
		placeholders++
		rest = after
	}
	if placeholders > maxPlaceholders {
		return nil, fmt.Errorf("the key has %d placeholders, at most %d are allowed", placeholders, maxPlaceholders)
	}
	if literal+placeholders > tokenstore.MaxKey {
		return nil, fmt.Errorf("the key would always be longer than %d bytes", tokenstore.MaxKey)
	}
	return t, t.checkApart()
}

func checkText(text string) error {
	for i := range len(text) {
		switch c := text[i]; {
		case c == '%':
			return fmt.Errorf("the key has a %% in its text; that is kept for escaped values, choose another mark")
		case c == '}':
			return fmt.Errorf("the key has a } without {")
		case c <= ' ' || c == 0x7f:
			return fmt.Errorf("the key has a space or control byte in its text; choose another mark")
		}
	}
	return nil
}

// checkApart holds the template injective: behind every placeholder but the
// last, the literal has a byte that the placeholder's escaped value cannot
// have, so its end is seen.
func (t template) checkApart() error {
	last := -1 // the placeholder before, as an index of t
	for i, part := range t {
		if part.from == fromLiteral {
			continue
		}
		if last >= 0 {
			before := t[last]
			parted := last+1 < i && strings.IndexFunc(t[last+1].text, func(r rune) bool {
				return r >= 0x80 || !unreserved[byte(r)] && (r != '/' || !before.from.keepsSlash())
			}) >= 0
			if !parted {
				return fmt.Errorf("nothing in the key tells where %s ends and %s begins; put a mark like : between them, outside A-Z a-z 0-9 - . _ ~%s",
					before.text, part.text, map[bool]string{true: " and /"}[before.from.keepsSlash()])
			}
		}
		last = i
	}
	return nil
}

// bind finds the values of the template in what a pattern gives. The error
// names every placeholder that the pattern does not have.
func (t template) bind(p *pattern) (template, error) {
	bound := slices.Clone(t)
	var missing []string
	for i, part := range bound {
		if part.from != fromParam && part.from != fromRest {
			continue
		}
		bound[i].index = slices.Index(p.names, part.name)
		if bound[i].index < 0 {
			missing = append(missing, part.text)
		}
	}
	if missing == nil {
		return bound, nil
	}
	if missing[0] == "{*}" {
		return nil, fmt.Errorf("the key has {*}, but the path %q does not end in /*", p.text)
	}
	return nil, fmt.Errorf("the key has %s, but the path %q has no such parameter", strings.Join(missing, ", "), p.text)
}
