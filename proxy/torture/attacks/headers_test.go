package attacks

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Heads and bodies that are made to cost: each is answered soon, with a refusal
// where it is one, nothing of it reaches the API, no key is raised, and memory
// stays where it is.
func TestFloodOfHeaders(t *testing.T) {
	a := newAPI(t)
	p := newProxy(t, "http://"+a.addr, plain+`
  - {name: json, path: /json, key: "json:{json:/a/b}"}
  - {name: form, path: /form, key: "form:{form.id}"}
  - {name: xml, path: /xml, key: "xml:{xml:/a/b}"}
  - {name: query, path: /query, key: "query:{query.id}"}
  - {name: held, path: /held, key: held, holder_header: X-Holder}
`)
	w := watch(t, p, a, false)
	put := func(target, headers, body string) string {
		return fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: a\r\n%sContent-Length: %d\r\n\r\n%s", target, headers, len(body), body)
	}
	const token = "X-Fencing-Token: 1\r\n"
	of := func(kind string) string { return token + "Content-Type: " + kind + "\r\n" }
	entities := `<!DOCTYPE a [<!ENTITY x0 "ha">`
	for i := range 60 {
		entities += fmt.Sprintf(`<!ENTITY x%d "&x%d;&x%d;">`, i+1, i, i)
	}
	for name, tt := range map[string]struct {
		request string
		want    string // the statuses that it may have
	}{
		"a token of a megabyte":         {put("/things/f1", "X-Fencing-Token: "+strings.Repeat("9", 1<<20)+"\r\n", ""), "431"},
		"a token of 60 kB":              {put("/things/f2", "X-Fencing-Token: "+strings.Repeat("9", 60<<10)+"\r\n", ""), "400"},
		"a token of 60 kB of zeros":     {put("/things/f3", "X-Fencing-Token: "+strings.Repeat("0", 60<<10)+"1\r\n", ""), "400"},
		"two thousand tokens":           {put("/things/f4", strings.Repeat(token, 2000), ""), "400"},
		"two thousand tokens in one":    {put("/things/f5", "X-Fencing-Token: "+strings.Repeat("1,", 2000)+"\r\n", ""), "400"},
		"two thousand spellings of it":  {put("/things/f6", token+strings.Repeat("X_Fencing-Token: 1\r\n", 2000), ""), "400"},
		"ten thousand headers":          {put("/things/f7", token+strings.Repeat("a:\r\n", 10_000), ""), "200"},
		"twenty thousand headers":       {put("/things/f8", token+strings.Repeat("a:\r\n", 20_000), ""), "431"},
		"ten thousand different ones":   {put("/things/f9", token+different(10_000), ""), "431"},
		"a name of a megabyte":          {put("/things/f10", token+strings.Repeat("x", 1<<20)+": y\r\n", ""), "431"},
		"a target of a megabyte":        {put("/things/"+strings.Repeat("x", 1<<20), token, ""), "431"},
		"a target of dots":              {put("/things/"+strings.Repeat("../", 10_000), token, ""), "403"},
		"a target of escapes":           {put("/things/"+strings.Repeat("%25", 10_000)+"41", token, ""), "400"},
		"a target of parameters":        {put("/things/f11"+strings.Repeat(";", 30_000), token, ""), "400"},
		"thirty thousand parameters":    {put("/query?id=1"+strings.Repeat("&a", 20_000), token, ""), "200"},
		"the same one many times":       {put("/query?"+strings.Repeat("id=1&", 8000), token, ""), "400"},
		"a holder of 60 kB":             {put("/held", token+"X-Holder: "+strings.Repeat("x", 60<<10)+"\r\n", ""), "400"},
		"many names in Connection":      {put("/things/f12", token+"Connection: "+strings.Repeat("x,", 20_000)+"\r\n", ""), "200"},
		"JSON, deep":                    {put("/json", of("application/json"), strings.Repeat(`{"a":`, 10_000)), "400"},
		"JSON, deep and balanced":       {put("/json", of("application/json"), `{"a":{"b":"1","c":`+strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000)+"}}"), "400"},
		"JSON, wide":                    {put("/json", of("application/json"), `{"a":{"b":"1"`+strings.Repeat(`,"b":1`, 8000)+"}}"), "400"},
		"JSON, a number of 50 kB":       {put("/json", of("application/json"), `{"a":{"b":`+strings.Repeat("1", 50<<10)+"}}"), "400"},
		"JSON, over max_body_buffer":    {put("/json", of("application/json"), `{"a":{"b":"`+strings.Repeat("1", 1<<20)+`"}}`), "413"},
		"a form of many fields":         {put("/form", of("application/x-www-form-urlencoded"), "id=1"+strings.Repeat("&a", 30_000)), "200"},
		"XML with entities in entities": {put("/xml", of("application/xml"), entities+"]><a><b>&x60;</b></a>"), "400"},
		"XML, deep":                     {put("/xml", of("application/xml"), strings.Repeat("<a>", 20_000)), "400"},
		"XML, many attributes":          {put("/xml", of("application/xml"), "<a"+attributes(5000)+"><b>1</b></a>"), "200"},
	} {
		for range 5 { // the worst of them many times would show as memory
			c, err := net.Dial("tcp", p.Addr)
			if err != nil {
				t.Fatal(err)
			}
			_ = c.SetDeadline(time.Now().Add(patience))
			go func() { _, _ = io.WriteString(c, tt.request) }()
			start := time.Now()
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			switch {
			case err != nil:
				t.Errorf("%s: %v", name, err)
			case !strings.Contains(tt.want, fmt.Sprint(res.StatusCode)):
				body, _ := io.ReadAll(io.LimitReader(res.Body, 1000))
				t.Errorf("%s: %s, want %s; %s", name, res.Status, tt.want, body)
			case time.Since(start) > soon:
				t.Errorf("%s: the answer took %v", name, time.Since(start))
			}
			c.Close()
		}
	}
	w.end(150 * megabyte)
	if keys := p.admin("/v1/keys?prefix=json:") + p.admin("/v1/keys?prefix=xml:x"); strings.Contains(keys, `"highest"`) {
		t.Errorf("what was refused has raised keys: %s", keys)
	}
}

// different are n headers, no two of one name.
func different(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "x%d: y\r\n", i)
	}
	return b.String()
}

// attributes are n attributes, no two of one name.
func attributes(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, " x%d=\"\"", i)
	}
	return b.String()
}
