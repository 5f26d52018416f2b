package upstream

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// fields is the head of r as HTTP/2 writes it. An error names the field that
// could not be written: nothing may be sent then.
func (p *h2pool) fields(r *Request) ([]hpack.HeaderField, error) {
	list := make([]hpack.HeaderField, 0, len(r.Header)+10)
	add := func(name, value string) {
		list = append(list, hpack.HeaderField{Name: strings.ToLower(name), Value: value})
	}
	add(":method", r.Method)
	add(":scheme", p.scheme)
	add(":authority", p.u.hostOf(r))
	add(":path", p.u.prefix+r.Target)
	if err := p.u.eachField(r, add); err != nil {
		return nil, err
	}
	if httpguts.HeaderValuesContainsToken(r.Header["Te"], "trailers") {
		add("te", "trailers") // gRPC servers insist on it
	}
	switch {
	case r.Body != nil && r.Length >= 0:
		add("content-length", strconv.FormatInt(r.Length, 10))
	case r.Body == nil && saysEmpty(r):
		add("content-length", "0")
	}
	if r.Trailer != nil {
		names, err := announcement(r)
		if err != nil {
			return nil, err
		}
		if names != "" {
			add("trailer", names)
		}
	}
	return list, nil
}

// headSize is how SETTINGS_MAX_HEADER_LIST_SIZE counts (RFC 9113, 6.5.2).
func headSize(fields []hpack.HeaderField) (size int64) {
	for _, f := range fields {
		size += int64(f.Size())
	}
	return size
}

// trailerFields are the request's trailers.
func trailerFields(trailer http.Header) ([]hpack.HeaderField, error) {
	var list []hpack.HeaderField
	for name, values := range trailer {
		if !trailerSent(name) {
			continue
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(v) {
				return nil, fmt.Errorf("trailer %q is not valid", name)
			}
			list = append(list, hpack.HeaderField{Name: strings.ToLower(name), Value: v})
		}
	}
	return list, nil
}

// headOf is the head of an answer. http2.Framer has seen to it that names and
// values are valid, and that the pseudo fields come first and once.
func headOf(f *http2.MetaHeadersFrame) (answerHead, error) {
	h := answerHead{header: headerOf(f)}
	text := f.PseudoValue("status")
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || len(text) != 3 || n < 100 {
		return h, badAnswer(fmt.Sprintf("status %.80q", text))
	}
	h.status = int(n)
	return h, nil
}

func headerOf(f *http2.MetaHeadersFrame) http.Header {
	fields := f.RegularFields()
	h := make(http.Header, len(fields))
	for _, field := range fields {
		name := http.CanonicalHeaderKey(field.Name)
		h[name] = append(h[name], field.Value)
	}
	return h
}
