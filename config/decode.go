package config

import (
	"fmt"
	"reflect"
	"regexp"

	"github.com/goccy/go-yaml/ast"
)

// decoder walks a YAML tree against the structs. It goes on after an error,
// so that all of them are found; what it could not read keeps its default.
type decoder struct {
	cfg    *Config
	text   text
	lookup Lookup
	report Report
	bad    map[string]bool // paths with an error, which are not looked at again
}

func (d *decoder) fail(path string, n ast.Node, message, remedy string) {
	d.bad[path] = true
	pos := d.place(n)
	d.report.Errors = append(d.report.Errors, Problem{Pos: pos, Path: path, Message: message, Remedy: remedy, setting: path})
}

// value reads n into v, whatever it is.
func (d *decoder) value(path string, n ast.Node, v reflect.Value, f field) {
	if n == nil { // a file without any setting
		return
	}
	d.cfg.origin.at[path] = d.place(n)
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode:
		d.fail(path, n, "anchors and aliases are not supported", "write the value out")
		return
	case *ast.TagNode:
		d.fail(path, n, "YAML tags are not supported", "the value alone")
		return
	case *ast.NullNode:
		d.fail(path, n, "has no value", wanted(v.Type(), f)+", or leave the setting out")
		return
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
			if e, ok := v.Interface().(interface{ setDefaults() }); ok {
				e.setDefaults()
			}
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Struct:
		d.mapping(path, n, v)
	case reflect.Slice:
		d.list(path, n, v, f)
	default:
		d.scalar(path, n, v)
	}
}

// mapping reads settings into the fields of a struct.
func (d *decoder) mapping(path string, n ast.Node, v reflect.Value) {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		d.fail(path, n, "is "+kindOf(n), wanted(v.Type(), field{}))
		return
	}
	fields := fieldsOf(v.Type())
	seen := map[string]int{}
	for _, entry := range m.Values {
		name, ok := keyName(entry.Key)
		if !ok {
			d.fail(join(path, "?"), entry.Key, "is not the name of a setting", "name: value")
			continue
		}
		at := join(path, printable(name))
		if line, doubled := seen[name]; doubled {
			d.report.Errors = append(d.report.Errors, Problem{Pos: d.place(entry.Key), Path: at, setting: at,
				Message: fmt.Sprintf("is set twice, first in line %d", line), Remedy: "keep one of them"})
			continue
		}
		seen[name] = d.place(entry.Key).Line
		f, known := fields[name]
		if !known {
			message, remedy := unknown(path, name)
			d.fail(at, entry.Key, message, remedy)
			continue
		}
		d.value(at, entry.Value, v.FieldByIndex(f.index), f)
	}
}

// list reads a sequence, or one value alone where the setting allows it.
func (d *decoder) list(path string, n ast.Node, v reflect.Value, f field) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok && !f.one {
		d.fail(path, n, "is "+kindOf(n), wanted(v.Type(), f))
		return
	}
	if !ok {
		d.cfg.origin.alone[path] = true
		items := reflect.MakeSlice(v.Type(), 1, 1)
		d.scalar(path, n, items.Index(0))
		v.Set(items)
		return
	}
	items := reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values))
	for i, item := range seq.Values {
		d.value(fmt.Sprintf("%s[%d]", path, i), item, items.Index(i), field{})
	}
	v.Set(items)
}

// scalar reads one value from its text in the file. The tree's own idea of
// the value is not asked: it takes 0x1F for 31.
func (d *decoder) scalar(path string, n ast.Node, v reflect.Value) {
	raw, ok := scalarText(n)
	if !ok {
		remedy := wanted(v.Type(), field{})
		if pos := d.place(n); n.Type() == ast.MappingType && pos.Col <= len(d.text.lines[pos.Line-1]) && d.text.lines[pos.Line-1][pos.Col-1] == '{' {
			remedy += `; text that begins with {, or has a : inside { }, needs quotes, as in "{id}"`
		}
		d.fail(path, n, "is "+kindOf(n), remedy)
		return
	}
	value, err := expand(raw, d.lookup)
	if err == nil {
		err = setScalar(v, value)
	}
	if err != nil {
		message, remedy := err.Error(), ""
		if w, ok := err.(*wrong); ok {
			message, remedy = w.message, w.remedy
		}
		d.fail(path, n, message, remedy)
	}
}

// place of a node. A block of settings or items begins at its first entry;
// the parser gives the place of that entry's colon.
func (d *decoder) place(n ast.Node) Pos {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return d.text.pos(m.Values[0].Key.GetToken())
	}
	return d.text.pos(n.GetToken())
}

func keyName(key ast.MapKeyNode) (string, bool) {
	switch k := key.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.IntegerNode, *ast.BoolNode, *ast.FloatNode, *ast.MergeKeyNode:
		return key.GetToken().Value, true
	}
	return "", false
}

func scalarText(n ast.Node) (string, bool) {
	switch x := n.(type) {
	case *ast.StringNode:
		return x.Value, true
	case *ast.LiteralNode:
		return x.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode:
		return "a group of settings"
	case *ast.SequenceNode:
		return "a list"
	}
	if s, ok := scalarText(n); ok {
		return "the single value " + quote(s)
	}
	return "not a value"
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9_.<>-]{1,64}$`)

// printable keeps a name from the file from looking like something else.
func printable(name string) string {
	if plainName.MatchString(name) {
		return name
	}
	return quote(name)
}
