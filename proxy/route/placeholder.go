package route

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// source says where the value of a placeholder comes from.
type source uint8

const (
	fromLiteral     source = iota // no placeholder
	fromParam                     // {name}
	fromRest                      // {*}
	fromPath                      // {path}
	fromQuery                     // {query.name}
	fromHeader                    // {header.Name}
	fromHost                      // {host}
	fromMethod                    // {method}
	fromGRPCService               // {grpc.service}
	fromGRPCMethod                // {grpc.method}
	fromJSON                      // {json:/pointer}
	fromForm                      // {form.name}
	fromXML                       // {xml:/a/b}, {xml:/a/@b}
)

// keepsSlash reports whether a / in the value stays a / in the key.
func (s source) keepsSlash() bool { return s == fromRest || s == fromPath }

// inBody reports whether the value is in the request's body.
func (s source) inBody() bool { return s == fromJSON || s == fromForm || s == fromXML }

// String is what a body is that has such values.
func (s source) String() string {
	switch s {
	case fromJSON:
		return "JSON"
	case fromForm:
		return "a form"
	case fromXML:
		return "XML"
	}
	return "nothing"
}

// parsePlaceholder reads what stands between the braces: a value, and filters
// behind it, each after a |.
func parsePlaceholder(inside string) (keyPart, error) {
	value, rest, filtered := strings.Cut(inside, "|")
	part := keyPart{text: "{" + inside + "}"}
	err := part.parseValue(value)
	for filtered && err == nil {
		var name string
		var f filter
		name, rest, filtered = strings.Cut(rest, "|")
		if f, err = parseFilter(name); err == nil {
			part.filters = append(part.filters, f)
		}
	}
	if err != nil {
		return part, fmt.Errorf("the placeholder %s: %w", part.text, err)
	}
	return part, nil
}

func (part *keyPart) parseValue(text string) error {
	if pointer, ok := strings.CutPrefix(text, "json:"); ok {
		part.from = fromJSON
		var err error
		part.steps, err = parsePointer(pointer)
		return err
	}
	if path, ok := strings.CutPrefix(text, "xml:"); ok {
		part.from = fromXML
		var err error
		part.steps, part.name, err = parseXMLPath(path)
		return err
	}
	kind, name, dotted := strings.Cut(text, ".")
	if dotted && name != "" {
		return part.parseField(kind, name)
	}
	switch {
	case dotted:
		return errUnknown
	case text == "*":
		part.from, part.name = fromRest, "*"
	case text == "path":
		part.from = fromPath
	case text == "host":
		part.from = fromHost
	case text == "method":
		part.from = fromMethod
	case isName(text):
		part.from, part.name = fromParam, text
	default:
		return errUnknown
	}
	return nil
}

// parseField reads a placeholder of two parts with a dot between.
func (part *keyPart) parseField(kind, name string) error {
	part.name = name
	switch {
	case kind == "query":
		part.from = fromQuery
	case kind == "form":
		part.from = fromForm
	case kind == "grpc" && name == "service":
		part.from = fromGRPCService
	case kind == "grpc" && name == "method":
		part.from = fromGRPCMethod
	case kind == "header" && isToken(name):
		part.from, part.name = fromHeader, http.CanonicalHeaderKey(name)
		if why := unfitForKey(part.name); why != "" {
			return errors.New(why)
		}
	default:
		return errUnknown
	}
	return nil
}

var errUnknown = errors.New("is unknown (right are a path parameter like {id}, {query.name}, {header.Name}, {host}, {method}, {path}, {*}, {json:/pointer}, {form.name}, {xml:/a/b}, {xml:/a/@b}, {grpc.service} and {grpc.method})")

// parsePointer reads a JSON pointer (RFC 6901) into its steps; "" is the whole
// document.
func parsePointer(pointer string) ([]string, error) {
	if pointer == "" {
		return nil, nil
	}
	if pointer[0] != '/' {
		return nil, fmt.Errorf("the pointer %q must begin with / (RFC 6901)", pointer)
	}
	steps := strings.Split(pointer[1:], "/")
	for i, step := range steps {
		bare := strings.NewReplacer("~0", "", "~1", "").Replace(step)
		if strings.Contains(bare, "~") {
			return nil, fmt.Errorf("the pointer %q has a ~ that is neither ~0 (for ~) nor ~1 (for /)", pointer)
		}
		steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
	}
	return steps, nil
}

// parseXMLPath reads a path of element names from the root on, with an
// attribute at its end or none.
func parseXMLPath(path string) (steps []string, attribute string, err error) {
	rest, ok := strings.CutPrefix(path, "/")
	if !ok {
		return nil, "", fmt.Errorf("the path %q must begin with / and the name of the root element", path)
	}
	steps = strings.Split(rest, "/")
	if last := len(steps) - 1; strings.HasPrefix(steps[last], "@") && last > 0 {
		steps, attribute = steps[:last], steps[last][1:]
		if !isXMLName(attribute) {
			return nil, "", fmt.Errorf("%q is no name of an attribute without prefix", attribute)
		}
	}
	for _, step := range steps {
		if !isXMLName(step) {
			return nil, "", fmt.Errorf("%q is no name of an element without prefix", step)
		}
	}
	return steps, attribute, nil
}

// isXMLName takes the names of XML without a colon, as far as anyone uses them.
func isXMLName(s string) bool {
	for i, r := range s {
		letter := r >= 0x80 || r == '_' || r < 0x80 && isLetter(byte(r))
		if !letter && (i == 0 || r != '-' && r != '.' && (r < '0' || r > '9')) {
			return false
		}
	}
	return s != "" && !strings.EqualFold(s, "xmlns")
}
