package torture

import "github.com/fenceproxy/fenceproxy/tokenstore/servertest"

// FreeAddress returns a loopback address on which nothing listens now, and which
// is the caller's, see servertest.
func FreeAddress() (string, error) { return servertest.FreeAddress() }
