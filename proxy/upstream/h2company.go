package upstream

import "bytes"

// company says with whom a request shares a connection. Servers end the whole
// connection for what one client can bring about on its own streams: requests
// that are reset as fast as they come (CVE-2023-44487), or trailers that cross
// with an early answer. A write that another client is waiting for would be
// lost from sight with it.
type company uint8

const (
	// mixed: with other requests that end when their clients leave.
	mixed company = iota
	// held: with other writes that are followed to their end whatever their
	// clients do, being wholly in memory.
	held
	// alone: with no other at the same time. The upload of a followed write ends
	// early when its client breaks it off.
	alone
	// once: with no other, before or after. Go's server, for one, ends the
	// connection when trailers come on a stream that it has closed.
	once
)

func companyOf(r *Request) company {
	_, inMemory := r.Body.(*bytes.Reader)
	switch {
	case r.Trailer != nil:
		return once
	case !r.Follow:
		return mixed
	case r.Body == nil || inMemory:
		return held
	}
	return alone
}
