package differential

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

func queryMutations() []mutation {
	return []mutation{
		{"query added", queryAdded, 450, ""},
		{"query field twice", editQuery(fieldTwice), 400, ""},
		{"query name", editQuery(fieldName), 90, ""},
		{"query escape", editQuery(queryEscape), 190, ""},
		{"query mark", editQuery(queryMark), 200, ""},
	}
}

func headerMutations() []mutation {
	return []mutation{
		{"header name", headerName, 500, ""},
		{"header twice", headerTwice, 500, ""},
		{"header value", headerValue, 450, ""},
		{"header line", headerLine, 250, ""},
		{"Connection", connection, 500, ""},
		{"host", hostLine, 440, ""},
		{"host twice", hostTwice, 370, ""},
	}
}

// queryAdded puts a query where none is looked at.
func queryAdded(r *rand.Rand, s *spelling) bool {
	if strings.Contains(s.target, "?") {
		return false
	}
	s.target += pick(r, "?", "?x", "?id=9", "?a;b", "?%zz", "?/../x", "??", "?%2e%2e", "?\xff", "?%00", "?a=b&&", "?;", "?#")
	return true
}

// editQuery changes the query of those that have one.
func editQuery(edit func(*rand.Rand, string) string) func(*rand.Rand, *spelling) bool {
	return func(r *rand.Rand, s *spelling) bool {
		path, query, found := strings.Cut(s.target, "?")
		if !found || !strings.HasPrefix(path, "/orders") {
			return false
		}
		edited := edit(r, query)
		if edited == query {
			return false
		}
		s.target = path + "?" + edited
		return true
	}
}

func fieldTwice(r *rand.Rand, q string) string {
	more := pick(r, "id", "id", "ID", "Id", "id[]", "id[0]", "%69d", "i%64", "id%00", "id ", "+id", "id.", "id[", "iD", "x") + "=" + pick(r, "9", "42", "AbC", "")
	part := pick(r, "&", "&", "&", ";", "&&", "&amp;")
	if r.IntN(2) == 0 {
		return more + part + q
	}
	return q + part + more
}

func fieldName(r *rand.Rand, q string) string {
	i := strings.Index(q, "id=")
	if i < 0 {
		return q
	}
	return splice(q, i, i+3, pick(r, "ID", "Id", "%69d", "%69%64", "id[]", "id[0]", "id%5B%5D", "id%00", "+id", "%20id", "id+", "id%20", "%EF%BB%BFid", "id\t")+"=")
}

func queryEscape(r *rand.Rand, q string) string {
	i, ok := anyOf(r, indexes(q, func(i int) bool { return !inEscape(q, i) }))
	if !ok {
		return q
	}
	return splice(q, i, i+1, fmt.Sprintf(pick(r, "%%%02X", "%%%02x", "%%25%02x", "%%u00%02x"), q[i]))
}

func queryMark(r *rand.Rand, q string) string {
	if strings.Contains(q, "%20") && r.IntN(2) == 0 {
		return strings.Replace(q, "%20", pick(r, "+", " ", "%2B", "\t"), 1)
	}
	return pick(r, "&"+q, "?"+q, q+"&", q+"#", q+"#&id=9", q+"%", q+"%zz", q+"+", q+"%00", ";"+q, strings.Replace(q, "id=", "id==", 1),
		strings.ReplaceAll(q, "&", ";"), strings.ReplaceAll(q, "&", "&&"), q+"\x00", q+"&%zz=1", "x;"+q)
}

// editLine changes one of the header lines.
func editLine(edit func(r *rand.Rand, name, value string) []string) func(*rand.Rand, *spelling) bool {
	return func(r *rand.Rand, s *spelling) bool {
		i := r.IntN(len(s.lines))
		name, value, _ := strings.Cut(s.lines[i], ": ")
		s.lines = slices.Replace(s.lines, i, i+1, edit(r, name, value)...)
		return true
	}
}

// otherName spells a header's name otherwise.
func otherName(r *rand.Rand, name string) string {
	switch r.IntN(6) {
	case 0:
		return strings.ToUpper(name)
	case 1:
		return strings.ToLower(name)
	case 2:
		return strings.ReplaceAll(name, "-", "_")
	case 3:
		return strings.ReplaceAll(name, "-", ".")
	case 4:
		return strings.ToLower(strings.Replace(name, "-", "_", 1))
	}
	return strings.Replace(name, "-", pick(r, "~", "+", "^", "--", "-_", " ", "%2D"), 1)
}

var headerName = editLine(func(r *rand.Rand, name, value string) []string {
	return []string{otherName(r, name) + ": " + value}
})

var headerTwice = editLine(func(r *rand.Rand, name, value string) []string {
	lines := []string{name + ": " + value, otherName(r, name) + ": " + pick(r, value, "9", "green", "")}
	if r.IntN(4) == 0 {
		lines[1] = name + ": " + pick(r, value, "9", "")
	}
	if r.IntN(2) == 0 {
		slices.Reverse(lines)
	}
	return lines
})

var headerValue = editLine(func(r *rand.Rand, name, value string) []string {
	return []string{name + ": " + pick(r, " "+value, value+" ", "\t"+value+"\t", value+"\x0b", "0"+value, "+"+value, value+", 9", "9,"+value, "", value+"\x00",
		strings.ToUpper(value), `"`+value+`"`, value+";x", "\xa0"+value, value+"\x0c", value+"\xff")}
})

var headerLine = editLine(func(r *rand.Rand, name, value string) []string {
	return []string{pick(r, name+":"+value, name+" : "+value, name+":\t"+value, name+":\r\n "+value, name+": "+value+"\r\n 9", name+": "+value+"\r\n\t",
		" "+name+": "+value, name+": "+value+"\nX-Other: 1", "X-Other: 1\n"+name+": "+value, name+": "+value+"\r", "X-Other: 1\r"+name+": "+value)}
})

func connection(r *rand.Rand, s *spelling) bool {
	s.lines = append(s.lines, "Connection: "+pick(r, "X-Fencing-Token", "x-fencing-token", "X_Fencing_Token", "close, X-Fencing-Token", "X-Box", "x-box",
		"Host", "keep-alive", "X-Other", "Content-Length", ",,X-Fencing-Token,"))
	return true
}

func hostLine(r *rand.Rand, s *spelling) bool {
	s.host[0] = pick(r, "A.Example", "A.EXAMPLE", "a.example:80", "a.example.", "a.example.:80", "a.example:", "a.example:080", "a.example:443", "a.example:8080",
		"a.example..", "u@a.example", "a.example/x", "a%2Eexample", "a.example ", "b.example", "a.example,b.example", "", "a.example#", `a.example\x`, "a_example")
	return true
}

func hostTwice(r *rand.Rand, s *spelling) bool {
	s.host = append(s.host, pick(r, s.host[0], "b.example", "A.example", ""))
	if r.IntN(2) == 0 {
		slices.Reverse(s.host)
	}
	return true
}
