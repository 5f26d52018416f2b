package route

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// jsonValue finds the string or number at a JSON pointer. The whole
// document must be valid, on the way to the value no name may stand twice, not
// even in other letter case, and a number must be in its shortest spelling: it
// keeps its exact text in the key, where 42.0 and 4.2e1 would be others than
// 42. The body costs one pass for each placeholder.
func jsonValue(body []byte, steps []string) (value, why string) {
	if why := badText(body); why != "" {
		return "", why
	}
	if !json.Valid(body) {
		return "", "cannot be read: the body is not one valid JSON document"
	}
	w := jsonWalk{Decoder: json.NewDecoder(bytes.NewReader(body))}
	w.UseNumber()
	w.value(steps)
	switch {
	case w.why != "":
		return "", w.why
	case !w.found:
		return "", "is missing in the body; send it once"
	}
	return w.text, ""
}

// jsonWalk goes through a valid document once.
type jsonWalk struct {
	*json.Decoder
	depth int
	found bool
	text  string
	why   string // the first reason to have no value
}

func (w *jsonWalk) refuse(why string) {
	if w.why == "" {
		w.why = why
	}
}

// next returns the next token, nil at an error. It stops all loops: More is
// false from then on.
func (w *jsonWalk) next() json.Token {
	token, err := w.Token()
	if err != nil {
		w.refuse("cannot be read: the body is not one valid JSON document")
		return nil
	}
	switch token {
	case json.Delim('{'), json.Delim('['):
		if w.depth++; w.depth > maxDepth {
			w.refuse("cannot be read: the body nests deeper than " + strconv.Itoa(maxDepth) + " objects and arrays")
		}
	case json.Delim('}'), json.Delim(']'):
		w.depth--
	}
	return token
}

// value walks over one value and takes what is at its steps.
func (w *jsonWalk) value(steps []string) {
	switch token := w.next().(type) {
	case json.Delim:
		if len(steps) == 0 {
			w.refuse("is an object or array in the body; name a string or number")
			w.skip()
			return
		}
		if token == '{' {
			w.object(steps)
		} else {
			w.array(steps)
		}
	case json.Number:
		w.take(steps, token.String(), isShortest(token.String()), "is a number in a long spelling; send "+
			"it without exponent, -0 and digits that change nothing")
	case string:
		// A lone surrogate comes out as U+FFFD too.
		w.take(steps, token, !strings.ContainsRune(token, '\ufffd'), "has U+FFFD or half a surrogate pair, which stands for a character that was lost; send the character")
	case bool:
		w.take(steps, "", false, "is true or false in the body, which some upstreams take for 1, 0 or nothing; send a string or number")
	default:
		w.take(steps, "", false, "is null in the body; send its name")
	}
}

// take takes a scalar, where the steps end at it.
func (w *jsonWalk) take(steps []string, text string, good bool, why string) {
	if len(steps) > 0 {
		return // nothing lies in a scalar: the value is missing
	}
	if !good {
		w.refuse(why)
	}
	w.text, w.found = text, true
}

func (w *jsonWalk) object(steps []string) {
	seen := false
	for w.why == "" && w.More() {
		name, _ := w.next().(string)
		same, why := sameName(name, steps[0])
		switch {
		case !same:
			w.skipValue()
			continue
		case seen:
			w.refuse("has the name " + strconv.Quote(steps[0]) + " twice on its way in the body; send it once")
		case why != "":
			w.refuse(why)
		}
		seen = true
		w.value(steps[1:])
	}
	w.close()
}

func (w *jsonWalk) array(steps []string) {
	for i := 0; w.why == "" && w.More(); i++ {
		if strconv.Itoa(i) == steps[0] {
			w.value(steps[1:])
		} else {
			w.skipValue()
		}
	}
	w.close()
}

// close reads the end of an object or array.
func (w *jsonWalk) close() {
	if w.why == "" {
		w.next()
	}
}

// skipValue walks over one value.
func (w *jsonWalk) skipValue() {
	if _, ok := w.next().(json.Delim); ok {
		w.skip()
	}
}

// skip walks to the end of the object or array that was just begun.
func (w *jsonWalk) skip() {
	for end := w.depth - 1; w.why == "" && w.depth > end; {
		w.next()
	}
}

// isShortest reports whether a JSON number has no second, shorter spelling. Of a
// fraction that is told by the number that most parsers make of it, a float64:
// 42.00000000000000000001 is 42 to them. Whole numbers of any length stand: who
// has such names reads them exactly.
func isShortest(number string) bool {
	if !strings.Contains(number, ".") {
		return !strings.ContainsAny(number, "eE") && number != "-0"
	}
	f, err := strconv.ParseFloat(number, 64)
	return err == nil && strconv.FormatFloat(f, 'f', -1, 64) == number
}
