package config

import (
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// described returns what the reference says of each setting, by its generic
// path: the comment behind it, with the lines below that continue it, or else
// the comment above it.
func described() map[string]string {
	f, err := parser.ParseBytes(Reference(), 0)
	if err != nil { // a test loads it
		panic(err)
	}
	lines := strings.Split(reference, "\n")
	texts := map[string]string{}
	var walk func(path string, n ast.Node)
	walk = func(path string, n ast.Node) {
		switch n := n.(type) {
		case *ast.MappingNode:
			for _, v := range n.Values {
				walk(path, v)
			}
		case *ast.MappingValueNode:
			at := n.Key.GetToken().Position
			path := join(path, n.Key.String())
			if texts[path] == "" {
				texts[path] = remark(lines, at.Line-1, at.Column-1)
			}
			walk(path, n.Value)
		case *ast.SequenceNode:
			for _, v := range n.Values {
				walk(path+"[]", v)
			}
		}
	}
	for _, doc := range f.Docs {
		walk("", doc.Body)
	}
	return texts
}

// remark is the comment that belongs to the setting at a place of the text.
func remark(lines []string, line, column int) string {
	var words []string
	take := func(text string) { words = append(words, strings.TrimSpace(strings.TrimLeft(text, "#"))) }
	if at := strings.Index(lines[line], " # "); at >= 0 {
		take(lines[line][at+1:])
		for next := line + 1; next < len(lines) && commentAt(lines[next]) == at+1; next++ {
			take(lines[next][at+1:])
		}
	} else {
		first := line
		for first > 0 && commentAt(lines[first-1]) == column {
			first--
		}
		if column == 0 && first == 0 {
			return "" // the head of the file
		}
		for _, text := range lines[first:line] {
			take(text[column:])
		}
	}
	return strings.TrimSpace(strings.Join(words, " "))
}

// commentAt is where a line that is nothing but a comment has it, else -1.
func commentAt(line string) int {
	if text := strings.TrimLeft(line, " "); strings.HasPrefix(text, "#") {
		return len(line) - len(text)
	}
	return -1
}
