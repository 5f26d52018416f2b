// Package attacks holds the built binary against those who mean harm: requests
// that two parsers read as different ones, clients that send or read as slowly
// as they can, floods of HTTP/2 frames, of keys and of headers, and upstreams
// that answer with what is no answer.
//
// A judge says what must hold, never the proxy alone: the servers behind it
// record each request that they saw, and what they saw is compared with what
// the proxy says that it forwarded. Memory is what the process itself reports,
// and a witness writes meanwhile: others have to be served.
package attacks
