// Package client is for Go programs that write through the proxy: leases whose
// fencing token they write with, and a Transport that sends the token with
// every request and tells a stale one by an error of its own.
//
// Its API is stable.
package client
