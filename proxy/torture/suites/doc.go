// Package suites holds the proxy against what others wrote: the scripts of
// varnishtest, which play both neighbours on the wire at once, and the HTTP
// clients that people really use. The proxy is the built binary.
package suites
