package route

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"net/http"
	"strings"
	"testing"
)

// FuzzBody: no body makes a panic, and what has a value is read alike by the
// standard library's other way to read it.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"a":{"b":"x"}}`, `{"a":{"b":12345678901234567890}}`, `{"a":{"b":1,"B":2}}`, `{"a":{"b":1},"a":{"b":2}}`, `{"a":[{"b":1}]}`,
		`{"a":{"b":true,"c":[[],{}]}} `, `{"a":{"b":"\ud800"}}`, `{"a":{"b":1.0}}`, `null`, "[[[[", "\ufeff{}",
		"b=1", "b=a+b&c=d", "b=1&b=2", "b[]=1&b=2", "b=%zz", "b=1;c=2", "%62=%2f",
		`<a><b>x</b></a>`, `<a b="1"><b>x</b></a>`, `<a><b>x</b><b>y</b></a>`, `<?xml version="1.0"?><a xmlns="u"><b>&lt;</b></a>`,
		`<a><b><![CDATA[x]]></b></a>`, `<!DOCTYPE a><a/>`, `<a b="1" b="2"/>`, `<a:a:a>`, `<a><b>x</b></a><a/>`, `<a><:b>x</:b></a>`,
		"b=1" + strings.Repeat("&", 10_000),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if value, why := jsonValue(body, []string{"a", "b"}); why == "" && value != "" {
			if other := otherJSON(body); other != value {
				t.Fatalf("the JSON %q has %q, and %q to Unmarshal", body, value, other)
			}
		}
		if value, why := formValue(string(body), "", "b"); why == "" {
			fields, err := parseFields(string(body))
			if err != nil || len(fields["b"]) != 1 || fields["b"][0] != value {
				t.Fatalf("the form %q has %q, and %q to ParseQuery (%v)", body, value, fields["b"], err)
			}
		}
		var other struct {
			XMLName xml.Name `xml:"a"`
			B       []string `xml:"b"`
			Attr    string   `xml:"b,attr"`
		}
		err := xml.Unmarshal(body, &other)
		if value, why := xmlValue(body, []string{"a", "b"}, ""); why == "" && (err != nil || len(other.B) != 1 || other.B[0] != value) {
			t.Fatalf("the XML %q has %q, and %q to Unmarshal (%v)", body, value, other.B, err)
		}
		if value, why := xmlValue(body, []string{"a"}, "b"); why == "" && (err != nil || other.Attr != value) {
			t.Fatalf("the XML %q has %q, and %q to Unmarshal (%v)", body, value, other.Attr, err)
		}
		for _, from := range []source{fromJSON, fromForm, fromXML} {
			_ = unreadable(http.Header{"Content-Type": {string(body)}}, from)
		}
	})
}

// otherJSON reads /a/b as most programs do, through a struct.
func otherJSON(body []byte) string {
	var doc struct{ A struct{ B any } }
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&doc); err != nil {
		return "error: " + err.Error()
	}
	switch v := doc.A.B.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return "nothing"
}
