package guard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// eachMember calls do for every member of text, which is one JSON object, in
// their order: a json.Decoder, which could do so too, costs more than all that
// is done with a body behind it. What is no JSON is refused by encoding/json
// before, so that a look at brackets and quotes is enough here.
func eachMember(text []byte, do func(name string, value []byte) error) error {
	if !utf8.Valid(text) {
		return errors.New("the body is not UTF-8") // encoding/json would mend it
	}
	text = trim(text)
	switch {
	case len(text) == 0 || text[0] != '{':
		return errors.New("the body must be one JSON object")
	case !json.Valid(text):
		return whyInvalid(text)
	}
	for rest := trim(text[1:]); rest[0] != '}'; {
		n := valueLen(rest)
		name, err := unquote(rest[:n])
		if err != nil {
			return fmt.Errorf("the body is not JSON: %w", err)
		}
		rest = trim(trim(rest[n:])[1:]) // behind the colon
		n = valueLen(rest)
		if err := do(name, rest[:n]); err != nil {
			return err
		}
		if rest = trim(rest[n:]); rest[0] == ',' {
			rest = trim(rest[1:])
		}
	}
	return nil
}

// whyInvalid tells a text that begins with an object from one that is none.
func whyInvalid(text []byte) error {
	var first json.RawMessage
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&first); err != nil {
		return fmt.Errorf("the body is not JSON: %w", err)
	}
	return errors.New("something stands behind the JSON object")
}

// unquote returns a string of valid JSON. One without escapes stands there as it
// is.
func unquote(text []byte) (s string, err error) {
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text[1 : len(text)-1]), nil
	}
	return s, json.Unmarshal(text, &s)
}

// trim takes off what JSON takes for space, in front.
func trim(text []byte) []byte { return bytes.TrimLeft(text, " \t\r\n") }

// valueLen is the length of the value that valid JSON goes on with.
func valueLen(text []byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			if quoted = !quoted; !quoted && depth == 0 {
				return i + 1
			}
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth == 0 { // of the object around a number, true, false or null
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case depth == 0 && (c == ',' || c == ' ' || c == '\t' || c == '\r' || c == '\n'):
			return i
		}
	}
	return len(text)
}
