package differential

import "github.com/fenceproxy/fenceproxy/proxy/route"

// legacyReadings are those of PHP and Java.
func legacyReadings() []reading {
	const decodesSlash = "a ; is part of the path; %2F is decoded to /, so that encoded_slash would be a lie"
	const dropsParams = "a ; begins a path parameter, which is no part of the path; "
	normal, without := route.PathPolicy{Normalize: true, Params: true}, route.PathPolicy{Normalize: true}
	return []reading{
		{"PHP with rawurldecode", "php -S", "path", "id", "box", "token", allSets, route.PathPolicy{}, normal, decodesSlash, 200},
		{"PHP with parse_url", "php -S", "parsed", "id", "box", "token", allSets, route.PathPolicy{}, normal, decodesSlash, 200},
		{"PHP behind nginx, by PATH_INFO", "nginx and PHP", "info", "id", "box", "token", allSets, route.PathPolicy{}, normal, decodesSlash, 200},
		{"PHP behind nginx, by REQUEST_URI", "nginx and PHP", "path", "id", "box", "token", allSets, route.PathPolicy{}, normal, decodesSlash, 200},
		{"PHP behind Apache, by REQUEST_URI", "Apache", "path", "id", "box", "token", allSets, route.PathPolicy{}, normal, decodesSlash, 200},
		{"PHP behind Apache, by PATH_INFO", "Apache with PATH_INFO", "info", "id", "box", "token", allSets, route.PathPolicy{}, normal, decodesSlash, 200},
		{"PHP behind Apache, by a query of its own", "Apache with the path as the query", "rewritten", "id", "box", "token", allSets, route.PathPolicy{}, normal,
			decodesSlash + "; the client's query is dropped, so that /orders names nothing", 200},
		{"a servlet", "Tomcat", "path", "id", "box", "token", allSets, route.PathPolicy{}, without,
			dropsParams + "%2F is refused; getPathInfo() has dots and doubled slashes resolved", 200},
		{"Spring's patterns", "Tomcat", "segments", "id", "box", "token", allSets, route.PathPolicy{}, without,
			dropsParams + "the segments of getRequestURI() are decoded one by one", 200},
		{"a servlet in a lenient Tomcat", "lenient Tomcat", "path", "id", "box", "token", allSets, route.PathPolicy{}, without,
			dropsParams + "%2F stays as it is", 200},
		{"Spring's patterns in a lenient Tomcat", "lenient Tomcat", "segments", "id", "box", "token", allSets, route.PathPolicy{}, route.PathPolicy{Normalize: true, EncodedSlash: true},
			dropsParams + "%2F stays in its segment", 200},
		{"the JDK's server", "the JDK's server", "path", "id", "box", "token", allSets, route.PathPolicy{}, normal, decodesSlash, 200},
	}
}

// unsafeReadings take two spellings for one resource that the proxy cannot see
// to be one, and that honest clients of other servers need. The README warns of
// them; this test sees whether it still must.
func unsafeReadings() []reading {
	const amp = "an & in the path ends it, and a field of the client's query takes its place"
	return []reading{
		{"PHP behind Apache, by a query shared with the client's", "Apache with the path in the query", "rewritten", "id", "box", "token", allSets, route.PathPolicy{}, route.PathPolicy{}, amp, 200},
		{"PHP behind nginx's try_files, by the query", "nginx with the path in the query", "rewritten", "id", "box", "token", allSets, route.PathPolicy{}, route.PathPolicy{}, amp, 200},
	}
}
