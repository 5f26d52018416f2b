package route

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// xmlValue finds the text of the element at a path from the root on, or its
// attribute. What XML parsers are known to read in different ways has no
// value: a document type, entities beside the five of XML, another version or
// encoding than the usual, processing instructions, prefixes and changing namespaces on the way, comments and
// elements inside the text, and elements or attributes that stand twice on the
// way, in whatever letter case. A default namespace of the root is left to the
// upstream: names are compared without it.
func xmlValue(body []byte, steps []string, attribute string) (value, why string) {
	if why := badText(body); why != "" {
		return "", why
	}
	w := xmlWalk{steps: steps, attribute: attribute}
	d := xml.NewDecoder(bytes.NewReader(body))
	for first := true; w.why == ""; first = false {
		// RawToken does not resolve prefixes; that tags pair is seen to here.
		token, err := d.RawToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", "cannot be read: the body is not valid XML"
		}
		w.token(token, first)
	}
	switch {
	case w.why != "":
		return "", w.why
	case len(w.open) > 0 || !w.rooted:
		return "", "cannot be read: the body is not one XML document"
	case !w.found:
		return "", "is missing in the body; send it once"
	}
	return w.text, ""
}

// declaration is what an XML declaration may say. Another version has other line
// ends, another encoding other characters; encoding/xml looks for neither of
// them where a space stands before the =.
var declaration = regexp.MustCompile(`^version=["']1\.0["'](\s+encoding=["'](?i:utf-8)["'])?(\s+standalone=["'](yes|no)["'])?\s*$`)

// xmlWalk goes through a document once.
type xmlWalk struct {
	steps     []string
	attribute string // "" for the element's text

	open   []string // the names of the open elements
	onWay  int      // how many of them, from the root on, are those of steps
	seen   []bool   // of steps: an element of that name was met
	rooted bool     // the root was met
	texts  int      // pieces of the wanted text
	found  bool
	text   string
	why    string
}

func (w *xmlWalk) token(token xml.Token, first bool) {
	switch token := token.(type) {
	case xml.StartElement:
		w.start(&token)
	case xml.EndElement:
		w.end(fullName(token.Name))
	case xml.CharData:
		w.chars(string(token))
	case xml.Comment:
		if w.inValue() {
			w.why = "has a comment in its text; leave it out"
		}
	case xml.ProcInst:
		switch {
		case !first || token.Target != "xml":
			w.why = "cannot be read: the body has a processing instruction; leave it out"
		case !declaration.Match(token.Inst):
			w.why = `cannot be read: the XML declaration is not <?xml version="1.0" encoding="UTF-8"?>; send that one, or none`
		}
	default: // xml.Directive
		w.why = "cannot be read: the body has a document type; leave it out"
	}
}

// inValue reports whether the element whose text is wanted is open.
func (w *xmlWalk) inValue() bool {
	return w.attribute == "" && w.onWay == len(w.steps)
}

func (w *xmlWalk) start(e *xml.StartElement) {
	depth := len(w.open)
	switch {
	case depth == 0 && w.rooted:
		w.why = "cannot be read: the body has two root elements"
		return
	case depth >= maxDepth:
		w.why = "cannot be read: the body nests deeper than " + strconv.Itoa(maxDepth) + " elements"
		return
	case w.inValue():
		w.why = "has an element in its text; name that one"
		return
	}
	w.rooted = true
	w.open = append(w.open, fullName(e.Name))
	if w.onWay != depth || depth >= len(w.steps) {
		return
	}
	same, why := sameName(e.Name.Local, w.steps[depth])
	switch {
	case !same:
		return
	case e.Name.Space != "":
		w.why = "lies in an element with a prefix, " + strconv.Quote(fullName(e.Name)) + "; send it without"
	case why != "":
		w.why = why
	case len(w.seen) > depth && w.seen[depth]:
		w.why = "has the element " + w.steps[depth] + " twice on its way in the body; send it once"
	}
	if len(w.seen) == depth {
		w.seen = append(w.seen, true)
	}
	w.onWay++
	w.attributes(e.Attr, depth)
	if w.inValue() {
		w.found = true // maybe empty
	}
}

// attributes looks at those of an element on the way: none may stand twice,
// which this decoder does not see to.
func (w *xmlWalk) attributes(attrs []xml.Attr, depth int) {
	wanted := w.attribute != "" && w.onWay == len(w.steps)
	before := map[string]bool{}
	for _, a := range attrs {
		name := fullName(a.Name)
		if before[name] {
			w.refuse("cannot be read: an element has the attribute " + strconv.Quote(name) + " twice")
		}
		before[name] = true
		if name == "xmlns" && depth > 0 {
			w.refuse("lies in an element that changes the namespace; declare it at the root")
		}
		if !wanted {
			continue
		}
		same, why := sameName(a.Name.Local, w.attribute)
		switch {
		case !same:
			continue
		case a.Name.Space != "": // encoding/xml takes even xmlns:id for id
			w.refuse("is an attribute with a prefix, " + strconv.Quote(name) + "; send it without")
		case why != "":
			w.refuse(why)
		case w.found:
			w.refuse("is given twice; send it once")
		case strings.ContainsAny(a.Value, "\t\r\n"):
			w.refuse("has a tab or line end in the attribute, which some parsers read as a space; leave it out")
		}
		w.text, w.found = a.Value, true
	}
}

func (w *xmlWalk) refuse(why string) {
	if w.why == "" {
		w.why = why
	}
}

func (w *xmlWalk) end(name string) {
	n := len(w.open) - 1
	if n < 0 || w.open[n] != name {
		w.why = "cannot be read: the body is not valid XML"
		return
	}
	w.open = w.open[:n]
	if w.onWay > n {
		w.onWay = n
	}
}

func (w *xmlWalk) chars(text string) {
	if len(w.open) == 0 {
		if strings.Trim(text, " \t\r\n") != "" {
			w.why = "cannot be read: the body has text outside its root element"
		}
		return
	}
	if !w.inValue() || len(w.open) != len(w.steps) {
		return
	}
	if w.texts++; w.texts > 1 {
		w.why = "has its text in several pieces; send it in one"
		return
	}
	w.text = text
}

func fullName(n xml.Name) string {
	if n.Space != "" {
		return n.Space + ":" + n.Local
	}
	return n.Local
}
