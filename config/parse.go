package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	maxFile = 256 << 10 // bytes: thousands of rules; the parser takes seconds for the worst text of that size
	// maxDepth is how deep a file may nest. The parser recurses, and running
	// out of stack cannot be recovered from.
	maxDepth = 32
)

// text is the file by lines, for looking at what stands at a place.
type text struct {
	file  string
	lines [][]rune
}

// parse reads data as the one YAML document it must be. The root is nil for a
// file without settings.
func parse(file string, data []byte) (text, ast.Node, *Problem) {
	if len(data) > maxFile {
		return text{}, nil, &Problem{Pos: Pos{File: file}, Message: "is larger than 256 KiB", Remedy: "a configuration, not data"}
	}
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	if p := checkText(file, data); p != nil {
		return text{}, nil, p
	}
	src := text{file: file}
	// The parser counts \n, \r\n and a lone \r as line ends.
	for line := range strings.SplitSeq(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(data)), "\n") {
		src.lines = append(src.lines, []rune(line))
	}
	tree, err := parseTree(string(data))
	if err != nil {
		return src, nil, src.syntaxError(err)
	}
	root, p := src.onlyDocument(tree)
	return src, root, p
}

// parseTree turns a panic of the parser into an error: whatever a file holds,
// it is the file that is wrong.
func parseTree(data string) (tree *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("cannot be understood: %v", r)
		}
	}()
	tokens := lexer.Tokenize(data)
	if err := checkDepth(tokens); err != nil {
		return nil, err
	}
	// Doubled settings are found by the decoder, which finds all of them.
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// checkText refuses what YAML does not allow but the parser lets through,
// before it can hide in a value.
func checkText(file string, data []byte) *Problem {
	pos := Pos{File: file, Line: 1, Col: 1}
	for rest := data; len(rest) > 0; pos.Col++ {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && n == 1:
			return &Problem{Pos: pos, Message: fmt.Sprintf("byte 0x%02X is not UTF-8", rest[0]), Remedy: "save the file as UTF-8"}
		case r == '\n', r == '\r' && !bytes.HasPrefix(rest, []byte("\r\n")):
			pos.Line, pos.Col = pos.Line+1, 0
		case r == '\t', r == '\r':
		case unicode.IsControl(r), r == '\uFEFF', r == '\u2028', r == '\u2029':
			return &Problem{Pos: pos, Message: fmt.Sprintf("the character %U is not allowed", r), Remedy: "plain text"}
		}
		rest = rest[n:]
	}
	return nil
}

// depthError is a file that nests deeper than maxDepth.
type depthError struct{ at *token.Position }

func (*depthError) Error() string { return fmt.Sprintf("nests deeper than %d levels", maxDepth) }

// checkDepth looks at what can nest without growing lines: brackets, and
// several entries on one line. Nesting by indentation is held by maxFile.
func checkDepth(tokens token.Tokens) error {
	brackets, inLine, line := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, inLine = t.Position.Line, 0
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			brackets++
		case token.MappingEndType, token.SequenceEndType:
			brackets--
		case token.SequenceEntryType, token.MappingKeyType, token.TagType, token.AnchorType:
			inLine++
		}
		if brackets > maxDepth || inLine > maxDepth {
			return &depthError{at: t.Position}
		}
	}
	return nil
}

// onlyDocument returns the root of the one document. The parser reads on
// after it, and what stands there would silently not count.
func (src *text) onlyDocument(tree *ast.File) (ast.Node, *Problem) {
	for i, doc := range tree.Docs {
		if doc.Body != nil && doc.Body.Type() == ast.DirectiveType {
			return nil, &Problem{Pos: src.pos(doc.Body.GetToken()), Message: "YAML directives are not supported", Remedy: "leave the line out"}
		}
		if i > 0 {
			start := doc.Start
			if start == nil && doc.Body != nil {
				start = doc.Body.GetToken()
			}
			return nil, &Problem{Pos: src.pos(start), Message: "a second document begins here", Remedy: "one document in a file"}
		}
	}
	if len(tree.Docs) == 0 {
		return nil, nil
	}
	return tree.Docs[0].Body, nil
}

// syntaxError is what the parser found, with what is most likely meant.
func (src *text) syntaxError(err error) *Problem {
	p := &Problem{Pos: Pos{File: src.file}, Message: err.Error(), Remedy: "valid YAML"}
	var syntax *yaml.SyntaxError
	var depth *depthError
	switch {
	case errors.As(err, &depth):
		p.Pos = src.posAt(depth.at)
		p.Remedy = "a configuration nests a few levels"
		return p
	case errors.As(err, &syntax):
		p.Message = syntax.Message
		p.Pos = src.pos(syntax.Token)
	}
	line := src.line(p.Pos.Line)
	switch {
	case strings.HasPrefix(strings.TrimLeft(line, " "), "\t"):
		p.Message, p.Remedy = "a tab cannot indent", "spaces"
	case strings.Contains(line, "{"):
		p.Remedy = `valid YAML: text that holds { or } needs quotes inside [ ] and { }, and where it begins with {, as in ["/accounts/{id}"]`
	case strings.Contains(p.Message, "mapping value is not allowed"):
		p.Remedy = `valid YAML: look at the indentation, and quote text that holds ": "`
	case strings.Contains(p.Message, "not allowed in this context"):
		p.Remedy = "valid YAML: look at the indentation"
	}
	return p
}

// line returns a line by its number, "" where there is none.
func (src *text) line(n int) string {
	if n < 1 || n > len(src.lines) {
		return ""
	}
	return string(src.lines[n-1])
}

// pos is the place of a token.
func (src *text) pos(t *token.Token) Pos {
	if t == nil {
		return Pos{File: src.file}
	}
	return src.posAt(t.Position)
}

// posAt corrects the parser's place, which after a tab is that of the tab.
func (src *text) posAt(at *token.Position) Pos {
	if at == nil {
		return Pos{File: src.file}
	}
	p := Pos{File: src.file, Line: max(at.Line, 1), Col: max(at.Column, 1)}
	if p.Line > len(src.lines) {
		return p
	}
	line := src.lines[p.Line-1]
	for c := p.Col; c <= len(line); c++ {
		if line[c-1] != ' ' && line[c-1] != '\t' {
			p.Col = c
			break
		}
	}
	return p
}
