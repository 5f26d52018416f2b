package config

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"time"
)

// placeholder matches a value that an environment variable is a part of: it
// may stand for anything.
const placeholder = `\$\{`

// JSONSchema returns the JSON Schema (2020-12) of a configuration file, for
// editors: every setting with its type, its choices and what the reference says
// of it. It knows the form of a file and what no file can do without; what
// belongs together, `check` knows.
func JSONSchema() []byte {
	d := describer{text: described()}
	root := d.schema("", reflect.TypeFor[Config](), field{})
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "fenceproxy configuration"
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil { // maps, lists and strings only: it cannot fail
		panic(err)
	}
	return append(out, '\n')
}

type object = map[string]any

// describer makes the schema of settings, with the texts of the reference.
type describer struct{ text map[string]string }

func (d describer) schema(path string, t reflect.Type, f field) object {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var s object
	switch {
	case t.Kind() == reflect.Struct:
		s = d.group(path, t)
	case t.Kind() == reflect.Slice:
		item := d.schema(path+"[]", t.Elem(), field{})
		s = object{"type": "array", "items": item}
		if f.one {
			s = object{"anyOf": []any{item, s}}
		}
	case urls[path] != "":
		s = object{"type": "string", "pattern": urls[path] + "|" + placeholder}
	default:
		s = scalarSchema(t)
	}
	if text := d.of(path); text != "" {
		s["description"] = text
	}
	return s
}

// of is the text of a setting; one of a rule that has none is a default's.
func (d describer) of(path string) string {
	text := d.text[path]
	if name, ok := strings.CutPrefix(path, "rules[]."); ok {
		text = cmp.Or(text, d.text["fencing."+name], d.text["upstream."+name])
	}
	return text
}

// required are the settings that a group cannot do without.
var required = map[string][]string{"": {"upstream", "store"}, "upstream": {"url"}, "rules[]": {"name", "path"}, "rules[].keys[]": {"key"}}

func (d describer) group(path string, t reflect.Type) object {
	properties := object{}
	for name, f := range fieldsOf(t) {
		properties[name] = d.schema(join(path, name), t.FieldByIndex(f.index).Type, f)
	}
	s := object{"type": "object", "properties": properties, "additionalProperties": false}
	if names := required[path]; names != nil {
		s["required"] = names
	}
	maps.Copy(s, together[path])
	return s
}

// needs is a schema of what has all these settings.
func needs(names ...string) object { return object{"required": names} }

// unfenced is a schema of what asks for no token, or leaves that to a variable.
var unfenced = object{"required": []string{"token"}, "properties": object{
	"token": object{"not": object{"enum": []Token{TokenRequired, TokenOptional}}},
}}

// together is what a group is more than its settings.
var together = map[string]object{
	"": {
		"if": object{"required": []string{"fencing"}, "properties": object{"fencing": unfenced}},
		"else": object{"properties": object{"rules": object{"items": object{
			"anyOf": []object{needs("key"), needs("keys"), unfenced},
		}}}},
	},
	"store":   {"oneOf": []object{needs("embedded"), needs("memory"), needs("etcd"), needs("postgres"), needs("redis")}},
	"rules[]": {"not": needs("key", "keys")},
}

// urls are the beginnings of those that a setting takes. A scheme may be written
// in either case where it is a URL's.
var urls = map[string]string{
	"upstream.url":           `^[Hh][Tt][Tt][Pp][Ss]?://|^[Hh]2[Cc]://|^unix:/`,
	"store.etcd.endpoints[]": `^[Hh][Tt][Tt][Pp][Ss]?://`,
	"store.postgres.url":     `^postgres(ql)?://`,
	"store.redis.url":        `^(rediss?|unix)://`,
	"tracing.otlp_endpoint":  `^$|^[Hh][Tt][Tt][Pp][Ss]?://`,
}

// scalarSchema is the form of one value, as scalar.go reads it.
func scalarSchema(t reflect.Type) object {
	orPlaceholder := func(s object) object {
		return object{"anyOf": []any{s, object{"type": "string", "pattern": placeholder}}}
	}
	if c, ok := reflect.Zero(t).Interface().(choice); ok {
		// Not anyOf: an error names the choices alone. Editors offer the examples.
		return object{"if": object{"type": "string", "pattern": placeholder}, "else": object{"enum": c.choices()}, "examples": c.choices()}
	}
	switch t {
	case reflect.TypeFor[time.Duration]():
		return orPlaceholder(object{"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`})
	case reflect.TypeFor[Size]():
		return orPlaceholder(object{"anyOf": []any{object{"type": "integer", "minimum": 0}, object{"type": "string", "pattern": `^(0|[1-9][0-9]*)(B|KiB|MiB|GiB|TiB)?$`}}})
	case reflect.TypeFor[FileMode]():
		return orPlaceholder(object{"type": "string", "pattern": fileModeText.String()})
	}
	switch t.Kind() {
	case reflect.Bool:
		return orPlaceholder(object{"type": "boolean"})
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return orPlaceholder(object{"type": "integer", "minimum": 0})
	}
	return object{"type": []string{"string", "number"}} // tokens and names may look like numbers
}
