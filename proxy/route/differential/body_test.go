package differential

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/proxy/route"
)

// bodyReading is how one application reads one part of a request.
type bodyReading struct {
	name, server, field, part string
	// ascii says why only names in ASCII are judged, where that is so.
	ascii string
}

func bodyReadings() []bodyReading {
	const byCharset = "it reads ISO-8859-1 where Content-Type says nothing, and honest clients say nothing: the README warns of it"
	return []bodyReading{
		{"$_GET", "php -S", "query", "query", ""},
		{"$_REQUEST", "php -S", "merged", "query", ""},
		{"$_POST", "php -S", "form", "form", ""},
		{"$_REQUEST", "php -S", "merged", "form", ""},
		{"parse_str", "php -S", "parse_str", "form", ""},
		{"json_decode", "php -S", "json", "json", ""},
		{"SimpleXML", "php -S", "xml", "xml", ""},
		{"SimpleXML", "php -S", "attribute", "attribute", ""},
		{"PHP's DOM", "php -S", "dom", "xml", ""},
		{"getParameter", "Tomcat", "query", "query", ""},
		{"getParameter with useBodyEncodingForURI", "lenient Tomcat", "query", "query", byCharset},
		{"getParameter", "Tomcat", "form", "form", ""},
		{"getParameter with useBodyEncodingForURI", "lenient Tomcat", "form", "form", ""},
		{"Jackson", "Tomcat", "json", "json", ""},
		{"Jackson over getReader", "Tomcat", "reader", "json", byCharset},
		{"Java's DOM", "Tomcat", "xml", "xml", ""},
		{"Java's DOM", "Tomcat", "attribute", "attribute", ""},
		{"URLSearchParams", "node", "query", "query", ""},
		{"URLSearchParams", "node", "form", "form", ""},
		{"querystring", "node", "querystring", "form", ""},
		{"JSON.parse", "node", "json", "json", ""},
		{"Express's query", "express", "query", "query", ""},
		{"Express's urlencoded", "express", "body", "form", ""},
		{"Express's json", "express", "body", "json", ""},
		{"parse_qs", "wsgi", "query", "query", ""},
		{"parse_qs", "wsgi", "form", "form", ""},
		{"Python's json", "wsgi", "json", "json", ""},
		{"ElementTree", "wsgi", "xml", "xml", ""},
		{"ElementTree", "wsgi", "attribute", "attribute", ""},
		{"URLDecoder", "the JDK's server", "query", "query", ""},
		{"URLDecoder", "the JDK's server", "form", "form", ""},
	}
}

// bodyRouter makes the key of one part.
type bodyRouter struct {
	*route.Table
}

func (b bodyRouter) judge(r *http.Request, body string) verdict {
	m, err := b.Match(r)
	if err != nil || readToken(r) == "" {
		return verdict{}
	}
	keys, err := b.Keys(&m, r, []byte(body))
	if err != nil {
		return verdict{}
	}
	return verdict{passes: true, key: string(keys[0]), target: m.Target}
}

func TestBodies(t *testing.T) {
	t.Logf("seed %d: run again with -seed", *seed)
	servers, front := map[string]*server{}, startFront(t)
	add := func(name, addr string) { servers[name] = &server{name, addr, map[string]fields{}} }
	startScripts(t, add)
	startPHP(t, add)
	startJava(t, add)
	for i, part := range bodyParts() {
		t.Run(part.name, func(t *testing.T) {
			table, err := route.New([]route.Rule{rule("orders", route.PathPolicy{}, part.key, "/orders")}, route.Options{Headers: []string{"X-Fencing-Token"}})
			if err != nil {
				t.Fatal(err)
			}
			var trials []*trial
			fenced, simple := &routed{}, &routed{}
			for _, s := range mutateBodies(rand.New(rand.NewPCG(*seed, uint64(i))), part, *spellings/4) {
				raw := s.bytes()
				tr := &trial{s, raw, front.read(t, raw)}
				if tr.r == nil {
					continue
				}
				trials = append(trials, tr)
				v := bodyRouter{table}.judge(tr.r, s.body)
				v.forwarded = forwarded(tr.r, s.target, s.body)
				fenced.verdicts = append(fenced.verdicts, v)
				simple.verdicts = append(simple.verdicts, verdict{passes: true, key: "order:" + naiveValue(part, s), forwarded: v.forwarded})
			}
			for _, rd := range bodyReadings() {
				if rd.part != part.name {
					continue
				}
				t.Run(rd.name, func(t *testing.T) {
					ask := map[string]bool{}
					for _, v := range fenced.verdicts {
						ask[v.forwarded] = true
					}
					servers[rd.server].ask(t, ask)
					found, passed := judgeBodies(rd, servers[rd.server], fenced, trials)
					var f findings
					f.add(part.key, found)
					f.report(t)
					all, _ := judgeBodies(rd, servers[rd.server], simple, trials)
					t.Logf("%d requests, %d pass with a key; %d violations of a naive reader", len(trials), passed, len(all))
					if passed < 40 || len(all) < 10 {
						t.Error("this has shown too little")
					}
				})
			}
		})
	}
}

// naiveValue takes what stands behind the name as it comes.
func naiveValue(part bodyPart, s spelling) string {
	text := s.body
	if part.name == "query" {
		text = s.target
	}
	_, text, _ = strings.Cut(text, map[string]string{"query": "order_id=", "form": "order_id=", "json": `order_id":`, "xml": "<id>", "attribute": " id="}[part.name])
	text = strings.Trim(text, `"' `)
	if end := strings.IndexAny(text, `&,}<"'`); end >= 0 {
		text = text[:end]
	}
	return text
}

// judgeBodies looks for requests that pass with a key and in which the server
// reads another name than the proxy. That is more than two keys for one
// resource: it sees what the other spelling would be, though no trial has it.
func judgeBodies(rd bodyReading, s *server, rt *routed, trials []*trial) (found []violation, passed int) {
	for i, v := range rt.verdicts {
		value := s.answers[v.forwarded][rd.field]
		if !v.passes || value == "" {
			continue
		}
		passed++
		name, err := url.PathUnescape(strings.TrimPrefix(v.key, "order:"))
		if err != nil || name != value && (rd.ascii == "" || !strings.ContainsFunc(name, func(r rune) bool { return r > 0x7f })) {
			found = append(found, violation{a: trials[i], keyA: v.key, what: fmt.Sprintf("the server reads %q", value)})
		}
	}
	return found, passed
}
