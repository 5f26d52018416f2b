package guard

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

type nameValue struct{ name, value string }

// tokens is eachMember by means of a json.Decoder.
func tokens(text string) (all []nameValue, err error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("not UTF-8")
	}
	d := json.NewDecoder(strings.NewReader(text))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, errors.New("no object")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		all = append(all, nameValue{name.(string), string(value)})
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more")
	}
	return all, nil
}

var objects = []string{
	`{}`, ` { } `, `{"a":1}`, `{"a":"b","c":"d"}`, " {\n\t\"a\" : \"b\" ,\r\n \"c\" : null }\n", `{"a":{"b":[1,{"c":"}"}]},"d":[]}`, `{"a":-1.5e3 ,"b":true}`,
	`{"a\"":"\\","b\\":"\"}"}`, `{"\u0061":"\ud83d\ude00","é":"\ud800"}`, `{"":""}`, `{"a":1}{`, `{"a":1} x`, `{"a":1,}`, `{"a"}`, `{"a":`, `{a:1}`, `[1]`, `"{"`, ``, " ", "{\"a\":\"\xff\"}",
	"\u00a0{}", "{\u00a0}", "\v{}", `{"a":1,"a":2}`, `{"a":"x` + "\n" + `"}`, `{{}}`, `{"a":[}`,
}

// FuzzObject compares what is found in a body with what a json.Decoder finds.
func FuzzObject(f *testing.F) {
	for _, text := range objects {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Count(text, "[")+strings.Count(text, "{") >= 10_000 {
			return // encoding/json nests no deeper, and a Decoder does not count the object around a value
		}
		want, wantErr := tokens(text)
		var got []nameValue
		err := eachMember([]byte(text), func(name string, value []byte) error {
			got = append(got, nameValue{name, string(value)})
			return nil
		})
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: %v, and a Decoder says %v", text, err, wantErr)
		}
		if err == nil && !slices.Equal(got, want) {
			t.Errorf("%q: %q, and a Decoder says %q", text, got, want)
		}
	})
}
