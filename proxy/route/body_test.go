package route

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

const (
	asJSON = "Content-Type: application/json"
	asForm = "Content-Type: application/x-www-form-urlencoded"
	asXML  = "Content-Type: application/xml"
)

// withBody is a PUT of a body.
func withBody(target, body string, headers ...string) *http.Request {
	r := byHand("PUT", target, headers...)
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	return r
}

func TestBodyKeys(t *testing.T) {
	const none = "key-unresolvable"
	deep := func(n int, open, inside, end string) string {
		return strings.Repeat(open, n) + inside + strings.Repeat(end, n)
	}
	for _, test := range []struct{ name, key, header, body, want, reason string }{
		{"string", "a:{json:/from}", asJSON, `{"from":"x:y","to":1}`, "a:x%3Ay", ""},
		{"number", "{json:/from}", asJSON, ` {"from": 12345678901234567890123 } `, "12345678901234567890123", ""},
		{"fraction", "{json:/from}", asJSON, `{"from":-1.25}`, "-1.25", ""},
		{"number through int", "{json:/from|int}", asJSON, `{"from":"0042"}`, "42", ""},
		{"escaped name", "{json:/from}", asJSON, `{"fr\u006fm":"x"}`, "x", ""},
		{"pointer into objects and arrays", "{json:/a/1/b~1c~0d/}", asJSON, `{"a":[{},{"b/c~d":{"":"x"},"z":[[]]},0]}`, "x", ""},
		{"array at the root", "{json:/0}", asJSON, `["x"]`, "x", ""},
		{"whole document", "{json:}", asJSON, `"x"`, "x", ""},
		{"unrelated names twice", "{json:/from}", asJSON, `{"a":1,"a":2,"from":"x","b":{"from":"y"}}`, "x", ""},
		{"+json", "{json:/from}", "Content-Type: application/merge-patch+json; charset=UTF-8", `{"from":"x"}`, "x", ""},
		{"deep", "{json:/from}", asJSON, `{"a":` + deep(98, "[", "", "]") + `,"from":"x"}`, "x", ""},
		{"twice", "{json:/from}", asJSON, `{"from":"x","from":"x"}`, none, "twice"},
		{"twice, escaped", "{json:/from}", asJSON, `{"from":"x","\u0066rom":"y"}`, none, "twice"},
		{"twice, in other letter case", "{json:/from}", asJSON, `{"from":"x","From":"y"}`, none, "twice"},
		{"twice, the second before", "{json:/from}", asJSON, `{"FROM":"x","from":"y"}`, none, "spelt"},
		{"twice on the way", "{json:/a/b}", asJSON, `{"a":{"b":"x"},"a":{"c":"y"}}`, none, "twice"},
		{"twice behind a scalar", "{json:/a/b}", asJSON, `{"a":1,"a":{"b":"y"}}`, none, "twice"},
		{"other spelling", "{json:/from}", asJSON, `{"From":"x"}`, none, "spelt"},
		{"missing", "{json:/from}", asJSON, `{"to":"x"}`, none, "missing"},
		{"in a scalar", "{json:/from/a}", asJSON, `{"from":"x"}`, none, "missing"},
		{"no such index", "{json:/a/01}", asJSON, `{"a":[1,2]}`, none, "missing"},
		{"empty", "{json:/from}", asJSON, `{"from":""}`, none, "empty"},
		{"boolean", "{json:/from}", asJSON, `{"from":true}`, none, "true or false"},
		{"null", "{json:/from}", asJSON, `{"from":null}`, none, "null"},
		{"object", "{json:/from}", asJSON, `{"from":{"a":1}}`, none, "object or array"},
		{"array", "{json:/from}", asJSON, `{"from":[1]}`, none, "object or array"},
		{"long number", "{json:/from}", asJSON, `{"from":42.0}`, none, "long spelling"},
		{"exponent", "{json:/from}", asJSON, `{"from":4.2e1}`, none, "long spelling"},
		{"fraction that is none", "{json:/from}", asJSON, `{"from":42.00000000000000000001}`, none, "long spelling"},
		{"fraction longer than a float64", "{json:/from}", asJSON, `{"from":0.10000000000000000555}`, none, "long spelling"},
		{"fraction that is nothing", "{json:/from}", asJSON, `{"from":0.` + strings.Repeat("0", 400) + `1}`, none, "long spelling"},
		{"minus zero", "{json:/from}", asJSON, `{"from":-0}`, none, "long spelling"},
		{"NUL", "{json:/from}", asJSON, `{"from":"x\u0000y"}`, none, "NUL"},
		{"half a pair", "{json:/from}", asJSON, `{"from":"\ud800"}`, none, "surrogate"},
		{"trailing garbage", "{json:/from}", asJSON, `{"from":"x"}{}`, none, "one valid JSON"},
		{"comment", "{json:/from}", asJSON, `{"from":"x"/**/}`, none, "one valid JSON"},
		{"leading zero", "{json:/from}", asJSON, `{"from":042}`, none, "one valid JSON"},
		{"cut", "{json:/from}", asJSON, `{"from":"x"`, none, "one valid JSON"},
		{"single quotes", "{json:/from}", asJSON, `{'from':'x'}`, none, "one valid JSON"},
		{"mark", "{json:/from}", asJSON, "\ufeff" + `{"from":"x"}`, none, "byte order mark"},
		{"not UTF-8", "{json:/from}", asJSON, "{\"from\":\"x\xff\"}", none, "not UTF-8"},
		{"UTF-16", "{json:/from}", "Content-Type: application/json; charset=utf-16", `{"from":"x"}`, none, "charset"},
		{"UTF-16 in another parameter", "{json:/from}", `Content-Type: application/json; x="charset=utf-16"`, `{"from":"x"}`, none, "charset"},
		{"charset before another parameter", "{json:/from}", "Content-Type: application/json; charset=utf-8; odata.metadata=none", `{"from":"é"}`, "%C3%A9", ""},
		{"no body", "{json:/from}", asJSON, "", none, "no body"},
		{"too deep", "{json:/from}", asJSON, `{"from":"x","a":` + deep(100, "[", "", "]") + `}`, none, "nests deeper"},
		{"no type", "{json:/from}", "X: y", `{"from":"x"}`, none, "no Content-Type"},
		{"other type", "{json:/from}", asForm, `{"from":"x"}`, none, "Content-Type is"},
		{"text", "{json:/from}", "Content-Type: text/plain+json-not", `{"from":"x"}`, none, "Content-Type is"},
		{"two types in one", "{json:/from}", asJSON + ", text/plain", `{"from":"x"}`, none, "Content-Type is"},

		{"form", "{form.id}", asForm, "x=y&id=a+b%2Fc", "a%20b%2Fc", ""},
		{"form through int", "{form.id|int}", asForm + "; charset=utf-8", "id=007", "7", ""},
		{"form twice", "{form.id}", asForm, "id=1&id=1", none, "twice"},
		{"form twice in brackets", "{form.id}", asForm, "id=1&id[]=2", none, "twice"},
		{"form twice in other letter case", "{form.id}", asForm, "id=1&%49D=2", none, "twice"},
		{"form spelt otherwise", "{form.id}", asForm, "Id=1", none, "spelt"},
		{"form missing", "{form.id}", asForm, "x=1", none, "missing"},
		{"form empty", "{form.id}", asForm, "id=", none, "empty"},
		{"form with semicolon", "{form.id}", asForm, "id=1;x=2", none, ";"},
		{"form broken", "{form.id}", asForm, "id=1&x=%zz", none, "broken"},
		{"form not UTF-8", "{form.id}", asForm, "id=%ff", none, "UTF-8"},
		{"form in UTF-8", "{form.id}", asForm + "; charset=UTF-8", "id=%C3%A9", "%C3%A9", ""},
		{"form in UTF-8, quoted", "{form.id}", asForm + `;charset="utf-8"`, "id=%C3%A9", "%C3%A9", ""},
		{"form in no charset", "{form.id}", asForm, "x=%C3%A9&id=%C3%A9", none, "charset=utf-8"},
		{"form in a charset that few find", "{form.id}", asForm + "; charset*=utf-8''utf-8", "id=%C3%A9", none, "charset"},
		{"form in UTF-8, in capitals", "{form.id}", asForm + "; CHARSET=utf-8", "id=%C3%A9", none, "charset=utf-8"},
		{"form in ASCII, in capitals", "{form.id}", asForm + "; CHARSET=utf-8", "id=1", "1", ""},
		{"form in two charsets", "{form.id}", asForm + `; x="charset=utf-16"; charset=utf-8`, "id=1", none, "charset"},
		{"form with a raw byte", "{form.id}", asForm + "; charset=utf-8", "id=é", none, "raw byte"},
		{"form with a raw byte elsewhere", "{form.id}", asForm, "x=é&id=1", "1", ""},
		{"form with a name that is not UTF-8", "{form.id}", asForm, "id=1&%C1%A9d=2", none, "name that is not UTF-8"},
		{"form with NUL", "{form.id}", asForm, "id=1%00", none, "NUL"},
		{"multipart", "{form.id}", "Content-Type: multipart/form-data; boundary=x", "id=1", none, "Content-Type is"},

		{"XML", "{xml:/a/b}", asXML, `<?xml version="1.0" encoding="UTF-8"?><!-- c --><a x="1"><c><b>no</b></c><b>4&amp;2</b></a>` + "\n", "4%262", ""},
		{"XML attribute", "{xml:/a/@b}", "Content-Type: text/xml; charset=utf-8", `<a b="x" c="y"><a b="z"/></a>`, "x", ""},
		{"XML attribute below", "{xml:/a/b/@id}", "Content-Type: application/atom+xml", `<a xmlns="urn:x" xmlns:z="urn:z"><z:c/><b id='x'><!-- c --><c/></b></a>`, "x", ""},
		{"XML CDATA", "{xml:/a}", asXML, `<a><![CDATA[x<y]]></a>`, "x%3Cy", ""},
		{"XML trimmed", "{xml:/a|trim}", asXML, "<a>\n 42 </a>", "42", ""},
		{"XML twice", "{xml:/a/b}", asXML, `<a><b>1</b><b>2</b></a>`, none, "twice"},
		{"XML twice with a prefix", "{xml:/a/b}", asXML, `<a xmlns:x="u"><b>1</b><x:b>2</x:b></a>`, none, "prefix"},
		{"XML twice in other letter case", "{xml:/a/b}", asXML, `<a><b>1</b><B>2</B></a>`, none, "spelt"},
		{"XML twice on the way", "{xml:/a/b/c}", asXML, `<a><b><c>1</c></b><b/></a>`, none, "twice"},
		{"XML prefix", "{xml:/a/b}", asXML, `<x:a xmlns:x="u"><b>1</b></x:a>`, none, "prefix"},
		{"XML namespace changes", "{xml:/a/b}", asXML, `<a><b xmlns="u">1</b></a>`, none, "namespace"},
		{"XML attribute twice", "{xml:/a/@b}", asXML, `<a b="1" b="2"/>`, none, "twice"},
		{"XML attribute with prefix", "{xml:/a/@b}", asXML, `<a xmlns:x="u" b="1" x:b="2"/>`, none, "prefix"},
		{"XML attribute that is a prefix too", "{xml:/a/@b}", asXML, `<a b="1" xmlns:b="2"/>`, none, "prefix"},
		{"XML attribute in other letter case", "{xml:/a/@b}", asXML, `<a B="1"/>`, none, "spelt"},
		{"XML attribute with a tab", "{xml:/a/@b}", asXML, "<a b='1\t2'/>", none, "tab"},
		{"XML attribute without quotes", "{xml:/a/@b}", asXML, "<a b=1/>", none, "valid XML"},
		{"XML doctype", "{xml:/a}", asXML, `<!DOCTYPE a [<!ENTITY e "42">]><a>&e;</a>`, none, "document type"},
		{"XML entity", "{xml:/a}", asXML, `<a>&nbsp;</a>`, none, "valid XML"},
		{"XML comment inside", "{xml:/a}", asXML, `<a>4<!-- -->2</a>`, none, "comment"},
		{"XML pieces", "{xml:/a}", asXML, `<a>4<![CDATA[2]]></a>`, none, "pieces"},
		{"XML element inside", "{xml:/a}", asXML, `<a>4<b/>2</a>`, none, "an element in its text"},
		{"XML instruction", "{xml:/a}", asXML, `<a>4</a><?x y?>`, none, "processing instruction"},
		{"XML instruction before", "{xml:/a}", asXML, `<?php x?><a>4</a>`, none, "processing instruction"},
		{"XML declaration not first", "{xml:/a}", asXML, ` <?xml version="1.0"?><a>4</a>`, none, "processing instruction"},
		{"XML other encoding", "{xml:/a}", asXML, `<?xml version="1.0" encoding="ISO-8859-1"?><a>4</a>`, none, "valid XML"},
		{"XML other encoding, spaced", "{xml:/a}", asXML, `<?xml version="1.0" encoding = "ISO-8859-1"?><a>é</a>`, none, "declaration"},
		{"XML other version, spaced", "{xml:/a}", asXML, `<?xml version = "1.1"?><a>4</a>`, none, "declaration"},
		{"XML two encodings", "{xml:/a}", asXML, `<?xml version="1.0" xencoding="UTF-8" encoding="ISO-8859-1"?><a>é</a>`, none, "declaration"},
		{"XML standalone", "{xml:/a}", asXML, `<?xml version='1.0' encoding='utf-8' standalone="yes" ?><a>4</a>`, "4", ""},
		{"XML two roots", "{xml:/a}", asXML, `<a>4</a><a>5</a>`, none, "two root"},
		{"XML text outside", "{xml:/a}", asXML, `<a>4</a>x`, none, "outside"},
		{"XML cut", "{xml:/a}", asXML, `<a>4`, none, "one XML document"},
		{"XML cut behind an element", "{xml:/a/b}", asXML, `<a><b>4</b>`, none, "one XML document"},
		{"XML does not pair", "{xml:/a/b}", asXML, `<a><b>4</a></b>`, none, "valid XML"},
		{"XML too deep", "{xml:/a/c}", asXML, "<a><c>1</c>" + deep(101, "<b>", "", "</b>") + "</a>", none, "nests deeper"},
		{"XML missing", "{xml:/a/b}", asXML, `<b><a><b>1</b></a></b>`, none, "missing"},
		{"XML empty", "{xml:/a/b}", asXML, `<a><b/></a>`, none, "empty"},
		{"XML mark", "{xml:/a}", asXML, "\ufeff<a>1</a>", none, "byte order mark"},
	} {
		t.Run(test.name, func(t *testing.T) {
			table := mustNew(t, Rule{Name: "r", Paths: []string{"/a"}, Keys: keyed(test.key)})
			target := "/a?x=%zz"
			if strings.Contains(test.key, "form") {
				target = "/a?x=1" // the query must parse
			}
			with := func(headers ...string) *http.Request {
				return withBody(target, test.body, append(headers, test.header)...)
			}
			r := with()
			m, err := table.Match(r)
			if err != nil || !table.NeedsBody(&m) {
				t.Fatalf("NeedsBody is %v (%v)", table.NeedsBody(&m), err)
			}
			got, detail := result(t, table, r)
			if got != test.want || !strings.Contains(detail, test.reason) {
				t.Fatalf("got %s (%s), want %s (%s)", got, detail, test.want, test.reason)
			}
			// No encoding but identity is read.
			if got, detail := result(t, table, with("Content-Encoding: gzip")); got != none || !strings.Contains(detail, "uncompressed") {
				t.Fatalf("compressed it is %s (%s)", got, detail)
			}
			if got, _ := result(t, table, with("Content-Encoding: Identity")); got != test.want {
				t.Fatalf("with identity it is %s", got)
			}
			if got, detail := result(t, table, with("Content-Type: x/y")); got != none || strings.HasPrefix(test.header, "C") && !strings.Contains(detail, "twice") {
				t.Fatalf("with two types it is %s (%s)", got, detail)
			}
		})
	}
}

// A field of both the query and the form is one to some frameworks.
func TestFormBesideQuery(t *testing.T) {
	table := mustNew(t, Rule{Name: "r", Paths: []string{"/a"}, Keys: keyed("{form.id}")})
	for query, want := range map[string]string{"": "1", "?x=2": "1", "?id=2": "key-unresolvable", "?ID[]=2": "key-unresolvable", "??id=2": "key-unresolvable", "?x;id=2": "key-unresolvable"} {
		if got, detail := result(t, table, withBody("/a"+query, "id=1", asForm)); got != want {
			t.Errorf("%s: got %s (%s), want %s", query, got, detail, want)
		}
	}
}

// So is one of a cookie.
func TestFieldBesideCookie(t *testing.T) {
	for _, from := range []string{"query", "form"} {
		table := mustNew(t, Rule{Name: "r", Paths: []string{"/a"}, Keys: keyed("{" + from + ".a_id}")})
		for cookie, want := range map[string]string{
			"b=2; c": "1", "b=a_id": "1", "a_id=2": "key-unresolvable", "b=2;A.id=2": "key-unresolvable", "b, a%5Fid": "key-unresolvable",
		} {
			target, body := "/a?a_id=1", "x"
			if from == "form" {
				target, body = "/a", "a_id=1"
			}
			if got, detail := result(t, table, withBody(target, body, asForm, "Cookie: z=0", "Cookie: "+cookie)); got != want {
				t.Errorf("%s beside the cookie %s: got %s (%s), want %s", from, cookie, got, detail, want)
			}
		}
	}
}

// Some servers can be told to read the query in the charset of the body.
func TestQueryBesideCharset(t *testing.T) {
	const none = "key-unresolvable"
	table := mustNew(t, Rule{Name: "r", Paths: []string{"/a"}, Keys: keyed("{query.id}")})
	for _, test := range []struct{ kind, query, want string }{
		{"text/plain", "id=%C3%A9", "%C3%A9"},
		{"text/plain; charset=UTF-8", "id=%C3%A9", "%C3%A9"},
		{"text/plain; charset=iso-8859-1", "id=42", "42"},
		{"text/plain; charset=windows-1252", "id=42", "42"},
		{"text/plain; charset=GBK", "id=42", "42"},
		{"text/plain; charset=utf-8\r\nContent-Type: text/plain; charset=utf-16", "id=42", none},
		{"text/plain; charset=iso-8859-1", "id=%C3%A9", none},
		{"text/plain; charset=utf-16", "id=42", none},
		{"text/plain; charset=iso-2022-jp", "id=%1B(B42", none}, // 42 to those
		{"text/plain; charset=IBM037", "id=%C2%81", none},       // Ba to those
		{`text/plain; x="charset=IBM037"`, "id=%C2%81", none},
		{"text/plain", "id=é", none}, // Ã© to Java's own server
	} {
		if got, detail := result(t, table, withBody("/a?"+test.query, "x", strings.Split("Content-Type: "+test.kind, "\r\n")...)); got != test.want {
			t.Errorf("%s in %s: got %s (%s), want %s", test.query, test.kind, got, detail, test.want)
		}
	}
}

// The headers that say what a body is arrive as they were read.
func TestBodyHeadersAreProtected(t *testing.T) {
	table := mustNew(t, Rule{Name: "r", Paths: []string{"/a"}, Keys: keyed("{json:/id}")})
	for header, want := range map[string]string{"Content_Type: text/xml": "header-alias", "Content.Encoding: gzip": "header-alias", "Content-Language: en": "1"} {
		if got, detail := result(t, table, withBody("/a", `{"id":1}`, asJSON, header)); got != want {
			t.Errorf("%s: got %s (%s), want %s", header, got, detail, want)
		}
	}
}

func TestSeveralKeys(t *testing.T) {
	rule := Rule{Name: "transfer", Paths: []string{"/transfer/{bank}"}, Keys: []KeySpec{
		{Key: "account:{bank}:{json:/from}", Header: "X-Fencing-Token"},
		{Key: "account:{bank}:{json:/to}", Header: "x-fencing-token-to"},
		{Key: "bank:{bank|lower}", Header: "X-Fencing-Token"},
	}}
	table := mustNew(t, rule)
	for body, want := range map[string]string{
		`{"from":1,"to":2}`:   "account:B:1 account:B:2 bank:b",
		`{"from":7,"to":"7"}`: "account:B:7 account:B:7 bank:b",
		`{"from":1}`:          "key-unresolvable",
	} {
		if got, detail := result(t, table, withBody("/transfer/B", body, asJSON)); got != want {
			t.Errorf("%s: got %s (%s), want %s", body, got, detail, want)
		}
	}
	if got, _ := result(t, table, withBody("/transfer/B", "{}", asJSON, "X_Fencing_Token_To: 1")); got != "header-alias" {
		t.Errorf("an alias of the second header is %s", got)
	}
	if !table.DropTrailer("X-Fencing-Token-To") {
		t.Error("a token passes in a trailer")
	}
	plain := mustNew(t, accounts()...)
	m, err := plain.Match(byHand("PUT", "/accounts/1"))
	if err != nil || plain.NeedsBody(&m) {
		t.Errorf("NeedsBody is true without need (%v)", err)
	}
}

func TestGRPCKeys(t *testing.T) {
	table := mustNew(t, Rule{Name: "rpc", Paths: []string{"/*"}, Keys: keyed("{grpc.service}:{grpc.method}:{header.X-Id}")})
	for target, want := range map[string]string{
		"/pkg.Accounts/Update": "pkg.Accounts:Update:1", "/S/M": "S:M:1", "/S": "key-unresolvable", "/S/": "key-unresolvable",
		"/S/M/": "key-unresolvable", "/S/M/x": "key-unresolvable", "/": "key-unresolvable",
	} {
		if got, detail := result(t, table, byHand("POST", target, "X-Id: 1")); got != want {
			t.Errorf("%s is %s (%s), want %s", target, got, detail, want)
		}
	}
}
