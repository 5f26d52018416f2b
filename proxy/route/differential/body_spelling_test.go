package differential

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"
	"unicode/utf16"
)

// bodyPart is one placeholder whose value servers read in ways of their own.
type bodyPart struct {
	name string
	key  string
	kind string // the honest Content-Type, without a charset
	// bodies name the resource; of the query it is the target that does.
	bodies []string
	edits  []func(*rand.Rand, *spelling)
}

func bodyParts() []bodyPart {
	const form, json, xml = "application/x-www-form-urlencoded", "application/json", "application/xml"
	forms := []string{"order_id=42", "x=1&order_id=AbC&y", "order_id=a%20b", "order_id=a%26b%2Bc", "order_id=caf%C3%A9", "order_id=caf%C3%83%C2%A9", "order_id=1", "order_id=Ba"}
	elements := []string{`<order id="7"><id>42</id></order>`, `<order id='AbC'><x><id>9</id></x><id>a&amp;b</id></order>`, `<order id="a b"><id>caf` + "é" + `</id></order>`,
		`<order id="caf` + "Ã©" + `"><id>a b</id></order>`, `<?xml version="1.0" encoding="UTF-8"?><order x="y" id="42"><id>x/y</id></order>`}
	return []bodyPart{
		{"query", "order:{query.order_id}", "text/plain", forms, []func(*rand.Rand, *spelling){
			editFields(onQuery), editFields(onQuery), charset, charset, charset, cookie}},
		{"form", "order:{form.order_id}", form, forms, []func(*rand.Rand, *spelling){
			editFields(onBody), editFields(onBody), editFields(onBody), besideForm, charset, charset}},
		{"json", "order:{json:/order_id}", json, []string{`{"order_id":42}`, `{"order_id":"AbC"}`, `{"x":{"order_id":9},"order_id":"a/b","y":[]}`, `{"order_id":"caf` + "é" + `"}`,
			`{"order_id":"caf\u00c3\u00a9"}`, `{"order_id":1.5}`, `{"order_id":true}`, `{"order_id":"true"}`, `{"order_id":"1"}`, `{"order_id":false}`, `{"order_id":"false"}`, `{"order_id":" 😀"}`, `{"order_id":100}`},
			[]func(*rand.Rand, *spelling){editJSON, editJSON, editJSON, editText, charset}},
		{"xml", "order:{xml:/order/id}", xml, elements, []func(*rand.Rand, *spelling){editXML, editXML, editXML, editText, charset}},
		{"attribute", "order:{xml:/order/@id}", xml, elements, []func(*rand.Rand, *spelling){editXML, editXML, editXML, editText, charset}},
	}
}

// spelling is an honest request.
func (part bodyPart) spelling(text string) spelling {
	s := spelling{method: "POST", target: "/orders", host: []string{"a.example"}, lines: []string{"Content-Type: " + part.kind, tokenLine}, body: text}
	if part.name == "query" {
		s.target, s.body = "/orders?"+text, "x"
	}
	return s
}

// mutateBodies makes n spellings of one part: all its bodies, and the rest by
// one to three edits.
func mutateBodies(r *rand.Rand, part bodyPart, n int) (all []spelling) {
	seen := map[string]bool{}
	for i := 0; len(all) < n; i++ {
		body := part.bodies[i%len(part.bodies)]
		s := part.spelling(body)
		if i >= len(part.bodies) {
			s.kinds = []string{"edited"}
			for range 1 + r.IntN(6)/4 + r.IntN(6)/5 {
				part.edits[r.IntN(len(part.edits))](r, &s)
			}
		}
		if raw := s.bytes(); !seen[raw] {
			seen[raw] = true
			all = append(all, s)
		}
	}
	return append(all, rememberedBodies(part)...)
}

// rememberedBodies are requests whose name was once read in two ways.
func rememberedBodies(part bodyPart) (all []spelling) {
	for _, was := range []struct{ part, params, text, target string }{
		// A query in the charset of the body: Ba in EBCDIC, 42 behind a shift.
		{"query", "; charset=IBM037", "order_id=%C2%81", ""},
		{"query", "; charset=iso-2022-jp", "order_id=%1B(B42", ""},
		{"query", "; charset=utf-16", "order_id=42", ""},
		// Characters that are bytes to Java's own server.
		{"query", "", "order_id=café", ""},
		// ISO-8859-1 is what the servlet API has without a charset.
		{"form", "", "order_id=caf%C3%A9", ""},
		{"form", "; charset=utf-8", "order_id=caf%C3%A9", ""},
		{"form", "; charset*=utf-8''utf-8", "order_id=caf%C3%A9", ""},
		{"form", "; CHARSET=utf-8", "order_id=caf%C3%A9", ""},
		// (string)true is 1 in PHP.
		{"json", "", `{"order_id":true}`, ""},
		// PHP's own server looks past a second ?.
		{"form", "", "order_id=42", "/orders??order_id=9"},
		// $_REQUEST has cookies, and lets them win.
		{"form", "\r\nCookie: a=b; order.id=9", "order_id=42", ""},
		{"query", "\r\nCookie: order_id=9", "order_id=42", ""},
	} {
		if was.part == part.name {
			s := part.spelling(was.text)
			s.lines[0] += was.params
			s.target = cmp.Or(was.target, s.target)
			s.kinds = []string{"remembered"}
			all = append(all, s)
		}
	}
	return all
}

// charset says something of the body's characters, in all the ways that a
// header can.
func charset(r *rand.Rand, s *spelling) {
	kind := strings.TrimPrefix(s.lines[0], "Content-Type: ")
	set := pick(r, "utf-8", "utf-8", "UTF-8", "utf8", "iso-8859-1", "us-ascii", "utf-16", "utf-16le", "utf-7", "IBM037", "iso-2022-jp", "windows-1252", "shift_jis", "")
	s.lines[0] = "Content-Type: " + pick(r,
		kind+"; charset="+set, kind+"; charset="+set, kind+";charset="+set, kind+`; charset="`+set+`"`, kind+"; CHARSET="+set, kind+"; Charset="+set,
		kind+"; x=y; charset="+set, kind+"; charset="+set+"; x=y", kind+`; x="charset=`+set+`"`, kind+"; x=charset="+set, kind+"; charset*=utf-8''"+set, kind+"; charset*0="+set,
		kind+"; charset = "+set, kind+"; xcharset="+set, kind+`; charset='`+set+`'`, strings.ToUpper(kind), kind+";", kind+" ;charset="+set, kind+"; charset=utf-8; charset="+set,
		kind+", text/plain", kind+"\r\nContent-Type: text/plain", "text/plain", "multipart/form-data; boundary=x", kind+`; charset="`+set+`;"`, kind+`; x="\"; charset=`+set+`"`)
}

func onQuery(s *spelling) *string { return &s.target }
func onBody(s *spelling) *string  { return &s.body }

// editFields changes urlencoded text, which in the query stands behind a path.
func editFields(on func(*spelling) *string) func(*rand.Rand, *spelling) {
	return func(r *rand.Rand, s *spelling) {
		text := on(s)
		path, fields, found := strings.Cut(*text, "?")
		if !found {
			path, fields = "", *text
		}
		fields = editForm(r, fields)
		if found {
			fields = path + "?" + strings.NewReplacer(" ", "%20", "\r\n", "%0D%0A").Replace(fields)
		}
		*text = fields
	}
}

// names are spellings of order_id that some framework reads as that.
func names(r *rand.Rand) string {
	return pick(r, "order_id", "order_id", "order_id", "order.id", "order+id", "order%20id", "order[id", "order%5Bid", "order_id[]", "order_id[0]", "order_id[x", "+order_id", "%20order_id",
		"order_id+", "order_id%00", "order_id%00x", "ORDER_ID", "Order_id", "%6Frder_id", "order%5Fid", "order%5fid", "order_id%5B%5D", "order_id]", "]order_id", "[order_id", "order-id", "%0Aorder_id",
		"order_id%0A", "\torder_id", "%EF%BB%BForder_id", "orderid", "order_%69d", "order%u005Fid", "order__id", "order_%C4%B1d", "order%C2%A0id", "order_id.", "amp;order_id", "x[order_id]", "?order_id")
}

func editForm(r *rand.Rand, f string) string {
	i := strings.Index(f, "order_id=")
	switch {
	case i < 0:
		return f + pick(r, "&", "%", ";")
	case r.IntN(4) == 0:
		return splice(f, i, i+len("order_id"), names(r))
	case r.IntN(3) == 0:
		more, part := names(r)+"="+pick(r, "9", "42", "1", ""), pick(r, "&", "&", "&", ";", "&&", "&amp;", "?", ",", "\r\n", "%26")
		if r.IntN(2) == 0 {
			return more + part + f
		}
		return f + part + more
	case r.IntN(12) == 0:
		return strings.Repeat("p=1&", 1001) + f // more than PHP takes
	case r.IntN(3) == 0:
		return pick(r, "&"+f, "?"+f, f+"&", f+"%", f+"&%zz=1", f+"%00", f+"%00x", ";"+f, strings.Replace(f, "order_id=", "order_id==", 1), strings.Replace(f, "%20", "+", 1),
			strings.ReplaceAll(f, "%C3%A9", "\u00e9"), strings.ReplaceAll(f, "%C3%A9", "%E9"), strings.ReplaceAll(f, "%C3%A9", "%c3%a9"), f+"\r\n", f+"%0D%0A", f+"+", f+"%EF%BF%BD", "\ufeff"+f, f+"#x",
			strings.ReplaceAll(f, "order_id=42", "order_id=%1B(B42"), strings.ReplaceAll(f, "order_id=Ba", "order_id=%C2%81"), strings.ReplaceAll(f, "%C3%A9", "e%CC%81"))
	}
	v := i + len("order_id=") + r.IntN(max(1, len(f)-i-len("order_id=")))
	if v >= len(f) || inEscape(f, v) {
		return f
	}
	return splice(f, v, v+1, fmt.Sprintf(pick(r, "%%%02X", "%%%02X", "%%%02x", "%%25%02x", "%%u00%02x"), f[v]))
}

// besideForm puts a field of the form's name beside the form.
func besideForm(r *rand.Rand, s *spelling) {
	switch r.IntN(3) {
	case 0:
		s.method = pick(r, "PUT", "PATCH", "DELETE")
	case 1:
		cookie(r, s)
	default:
		s.target = "/orders?" + strings.ReplaceAll(names(r), "\t", "%09") + "=" + pick(r, "9", "42", "")
	}
}

// cookie is one of the field's name, among others.
func cookie(r *rand.Rand, s *spelling) {
	s.lines = append(s.lines, "Cookie: "+pick(r, "", "a=b; ", "a=b;", "a;;", "a=b, ")+strings.ReplaceAll(names(r), "\t", "")+pick(r, "=9", " =9", "= 9", "", "=9; c"))
}

func editJSON(r *rand.Rand, s *spelling) {
	const name = `"order_id":`
	b := s.body
	i := strings.LastIndex(b, name)
	if i < 0 {
		return
	}
	spelt := pick(r, `"order_id"`, `"order_id"`, `"\u006frder_id"`, `"order\u005fid"`, `"ORDER_ID"`, `"Order_id"`, `"order_id\u0000"`, `"order_id "`, `'order_id'`, `order_id`, `"orderId"`, `"order_ıd"`, `"order_id\ud800"`, `"\ufefforder_id"`, `"x\"order_id"`) + ":"
	value := strings.TrimRight(b[i+len(name):], "}")
	value, _, _ = strings.Cut(value, ",")
	end := i + len(name) + len(value)
	switch r.IntN(5) {
	case 0:
		s.body = splice(b, i, i+len(name), spelt)
	case 1:
		more := spelt + pick(r, "9", `"9"`, "null", value, "[]", `{"a":1}`)
		if r.IntN(2) == 0 {
			s.body = splice(b, i, i, more+pick(r, ",", ",", ",,", " "))
		} else {
			s.body = splice(b, end, end, ","+more)
		}
	case 2:
		s.body = splice(b, i+len(name), end, pick(r, "42.0", "4.2e1", "4.2E+1", `"42"`, "042", "+42", "42.", "-0", "0", `"0"`, "42.00000000000000000001", "0x2a", "1", "1.0", `"1.0"`, "true", "True", `"1"`, "null", `""`, "[42]", `["42"]`, `{"0":42}`, "NaN", "1e2",
			"100.0", "1.50", `"1.5"`, "15e-1", "1E400", "-0.0", "42 ", "\t42", `"42\u0000"`, "'42'", "4_2", "0.1", "0.1000000000000000055", `"\u0034\u0032"`, `"a\/b"`, `"\u0041bC"`, `"\x41bC"`, `"A\bC"`, `"\ud83d\ude00"`, `" \ud83d\ude00"`, `"\ud83d"`,
			`"caf\u00e9"`, `"caf\u00E9"`, `"caf\u00c3\u00a9"`, `"cafe\u0301"`, "\"caf\xe9\"", "\"caf\xc3\x83\xc2\xa9\"", "\"caf\xe9\xa9\"", `"AbC`+"\x00"+`"`, "\"A\tbC\"", "\"AbC\x7f\""))
	case 3:
		s.body = pick(r, " "+b, b+"\n", b+"{}", b+" x", b+",", "["+b+"]", b+"//x", "/**/"+b, "\r\n\t"+b, "\x0c"+b, "\u00a0"+b, ")]}',\n"+b, `{"a":`+strings.Repeat("[", 600)+strings.Repeat("]", 600)+","+b[1:], b[:len(b)-1], b[:len(b)-1]+",}", strings.Replace(b, "{", `{"":1,`, 1), strings.Replace(b, "{", `{"__proto__":`+b+`,`, 1))
	default:
		v := i + len(name) + r.IntN(max(1, len(value)))
		if v < len(b) && b[v] >= 'A' && b[v] < 0x7f && b[v] != '\\' && strings.HasPrefix(value, `"`) {
			s.body = splice(b, v, v+1, fmt.Sprintf(`\u%04x`, b[v]))
		}
	}
}

// editText writes a whole document in other characters, as only some parsers
// look for.
func editText(r *rand.Rand, s *spelling) {
	switch r.IntN(5) {
	case 0:
		s.body = "\ufeff" + s.body
	case 1:
		s.body = wide(s.body, pick(r, "\ufeff", ""), r.IntN(2) == 0)
	case 2:
		s.body = strings.ReplaceAll(s.body, "é", "\xe9")
	case 3:
		s.body = strings.ReplaceAll(s.body, "é", "Ã©")
	default:
		s.body += pick(r, "\x00", "\r\n", "\x1a", " ")
	}
}

func wide(text, mark string, big bool) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(mark + text)) {
		if big {
			b.Write([]byte{byte(u >> 8), byte(u)})
		} else {
			b.Write([]byte{byte(u), byte(u >> 8)})
		}
	}
	return b.String()
}

func editXML(r *rand.Rand, s *spelling) {
	b := s.body
	i, end := strings.LastIndex(b, "<id>"), strings.LastIndex(b, "</id>")
	at := strings.Index(b, " id=")
	if i < 0 || end < i || at < 0 {
		return
	}
	inside := b[i+4 : end]
	middle := i + 4 + len(inside)/2
	switch r.IntN(7) {
	case 0:
		s.body = splice(b, middle, middle, pick(r, "<!-- -->", "<![CDATA[]]>", "<![CDATA[x]]>", "<?x y?>", "<x/>", "&#x20;", " ", "\r\n", "\r", "\t", "&#13;", "&amp;", "&nbsp;", "&#0;", "&#x0;", "\x01", "&#xD800;", "&#xFFFE;", "]]>", "\u00a0", "\u2028", "\u0085"))
	case 1:
		text := "<![CDATA[" + strings.ReplaceAll(inside, "&amp;", "&") + "]]>"
		if r.IntN(2) == 0 && !strings.Contains(inside, "&") {
			text = ""
			for _, c := range inside {
				text += fmt.Sprintf(pick(r, "&#%d;", "&#x%x;", "&#x%X;", "&#x0%X;", "%c"), c)
			}
		}
		s.body = splice(b, i+4, end, pick(r, text, text, " "+inside+" ", "\n"+inside+"\n", "<x>"+inside+"</x>", ""))
	case 2:
		more := pick(r, "<id>9</id>", "<ID>9</ID>", "<Id>9</Id>", `<id xmlns="u">9</id>`, `<x:id xmlns:x="u">9</x:id>`, "<id/>", "<id\n>9</id >", "<x:id>9</x:id>", "<!--<id>9</id>-->", "<![CDATA[<id>9</id>]]>", "<order><id>9</id></order>", "<ıd>9</ıd>")
		p := []int{i, end + 5}[r.IntN(2)]
		s.body = splice(b, p, p, more)
	case 3:
		s.body = splice(b, at, at, pick(r, ` id="9"`, ` ID="9"`, ` x:id="9" xmlns:x="u"`, ` xml:id="9"`, ` xmlns="u"`, ` xmlns:id="u"`, ` x="1" x="2"`, ` a='<'`, ` xmlns:x="u" x:id="9"`, ` xml:space="preserve"`, ` id=9`, ` id`, "\r\n"))
	case 4:
		q := at + 5
		s.body = splice(b, q, q, pick(r, " ", "\t", "\n", "\r\n", "&#10;", "&#9;", "&#x41;", "&amp;", "&lt;", "<", "&quot;", "  "))
	case 5:
		s.body = pick(r, `<?xml version="1.0"?>`, `<?xml version="1.0" encoding="ISO-8859-1"?>`, `<?xml version="1.1"?>`, `<?xml version="1.0" encoding="UTF-16"?>`, `<?xml version='1.0' encoding='utf-8'?>`, `<?xml  version = "1.0"  encoding = "ISO-8859-1" ?>`, `<?xml version="1.0" encoding="UTF-7"?>`, `<?xml encoding="UTF-8" version="1.0"?>`,
			`<!DOCTYPE order [<!ENTITY nbsp "9"><!ATTLIST order y CDATA "9">]>`, `<!DOCTYPE order [<!ATTLIST order id NMTOKEN #IMPLIED>]>`, `<!-- x -->`, ` `, "\n", `<?x y?>`, `<?xml version="1.0" encoding="utf8"?>`, `<?xml version="1.0" encoding="IBM037"?>`) + b
	default:
		s.body = pick(r, b+"<!-- -->", b+"\n", b+"<order/>", b+"x", b+"<?x?>", strings.Replace(b, "<id>", "<id >", 1), strings.Replace(b, "</order>", "</order\n>", 1), strings.ReplaceAll(b, "order", "x:order"), strings.ReplaceAll(b, "order", "Order"), strings.Replace(b, "<order", `<order xmlns="u"`, 1),
			"<x>"+b+"</x>", strings.ReplaceAll(b, " id=", "\tid\n=\n"), strings.ReplaceAll(b, "<id>", `<id z="1">`), strings.Replace(b, "</order>", "", 1), strings.ReplaceAll(b, "</id>", strings.Repeat("<z>", 120)+strings.Repeat("</z>", 120)+"</id>"))
	}
}
