package differential

import (
	"strings"

	"github.com/fenceproxy/fenceproxy/proxy/route"
)

// reading is how one application behind one server reads requests, and the
// path policies that are true of it.
type reading struct {
	name   string
	server string
	// The fields of the server's answer that tell one resource from another.
	path, id, box, token string

	sets []ruleSet
	// needs is what the operator must say of such a server, because it takes
	// two canonical spellings for one resource; may is what he can say beside
	// that. Every policy between the two is tried.
	needs, may route.PathPolicy
	why        string
	// pairs is how many spellings this reading must take for what they were
	// made from.
	pairs int
}

var allSets = []ruleSet{narrow, broad, relaxedBelow, relaxedAbove}

// readings are all that the proxy must hold out against.
func readings() []reading { return append(modernReadings(), legacyReadings()...) }

func modernReadings() []reading {
	const params = "a ; is part of the path; "
	const decodesSlash = "%2F is decoded to /, so that encoded_slash would be a lie; "
	normal := route.PathPolicy{Normalize: true, Params: true}
	return []reading{
		{"nginx", "nginx", "path", "id", "box", "token", allSets, route.PathPolicy{}, normal,
			params + decodesSlash + "$uri is decoded, without dots and doubled slashes; normalize forwards the form that it makes itself", 300},
		{"nginx that lets all pass", "lenient nginx", "path", "id", "box", "token", allSets, route.PathPolicy{}, normal,
			params + decodesSlash + "merge_slashes is off, so that // is another path; what is normalized has none", 300},
		{"CGI behind lighttpd", "lighttpd", "path", "id", "box", "token", allSets, route.PathPolicy{}, normal,
			params + decodesSlash + "lighttpd brings the path into RFC 3986's normal form", 300},
		{"CGI behind lighttpd that takes the last of two", "lighttpd", "path", "id", "last-box", "last-token", allSets, route.PathPolicy{}, normal,
			"as the one before, where an environment has a name twice", 300},
		{"WSGI as it comes", "wsgi", "path", "id", "box", "token", allSets, route.PathPolicy{}, normal,
			params + decodesSlash + "PATH_INFO keeps dots and doubled slashes; what is normalized has none", 200},
		{"WSGI that takes the last field", "wsgi", "path", "last-id", "box", "token", allSets, route.PathPolicy{}, normal,
			"as the one before", 200},
		{"WSGI over files", "wsgi", "normal", "id", "box", "token", allSets, route.PathPolicy{TrailingSlash: true}, normal,
			"posixpath.normpath takes dots, doubled slashes and a trailing slash off", 300},
		{"Node with new URL", "node", "path", "id", "box", "token", allSets, route.PathPolicy{}, route.PathPolicy{Normalize: true, Params: true, EncodedSlash: true},
			params + "the segments are decoded one by one, so that %2F stays in its own", 300},
		{"Node that decodes twice", "node", "twice", "id", "box", "token", allSets, route.PathPolicy{}, normal,
			"decodeURIComponent on what is decoded already; " + params + decodesSlash, 300},
		{"Node over files", "node", "normal", "id", "box", "token", allSets, route.PathPolicy{}, normal,
			"path.normalize on the decoded path; " + params + decodesSlash, 300},
		{"careless", "node", "careless", "id", "box", "token", allSets, route.PathPolicy{CaseInsensitive: true, TrailingSlash: true}, route.PathPolicy{Normalize: true},
			"a chain of hops that decodes again and again, drops parameters, and looks at neither letter case nor a trailing slash", 500},
		{"Express", "express", "path", "id", "box", "token", allSets, route.PathPolicy{CaseInsensitive: true, TrailingSlash: true}, normal,
			"its router looks at neither letter case nor a trailing slash; " + params + "what * matches is decoded with its %2F", 200},
		{"Express by parameters", "express", "path", "id", "box", "token", []ruleSet{ids}, route.PathPolicy{}, route.PathPolicy{Normalize: true, Params: true, EncodedSlash: true},
			"with keys of parameters, letter case and a trailing slash are in static text alone, where other spellings are aliases; " +
				"parameters are decoded one by one, so that %2F stays in its own", 200},
	}
}

// policies are all between what a reading needs and what it may have.
func (rd reading) policies() (all []route.PathPolicy) {
	for bits := range 8 {
		p := rd.needs
		wanted := [...]struct {
			on, may bool
			field   *bool
		}{
			{bits&1 != 0, rd.may.Normalize, &p.Normalize},
			{bits&2 != 0, rd.may.Params, &p.Params},
			{bits&4 != 0, rd.may.EncodedSlash, &p.EncodedSlash},
		}
		truthful := true
		for _, w := range wanted {
			truthful = truthful && (!w.on || w.may)
			*w.field = w.on
		}
		if truthful {
			all = append(all, p)
		}
	}
	return all
}

// resource is the identity of what an application takes a request for, or ""
// where it takes it for none.
func (rd reading) resource(f fields) string {
	path, ok := f[rd.path]
	if !ok || path == "" {
		return ""
	}
	// What an application looks at beside the path depends on the path.
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	var more string
	switch strings.ToLower(first) {
	case "orders":
		more = f[rd.id]
	case "sites":
		more = f["host"]
	case "boxes":
		more = f[rd.box]
	default:
		return path
	}
	if more == "" || more == `""` {
		return "" // without its name there is nothing to be written
	}
	return path + mark + more
}
