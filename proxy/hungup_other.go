//go:build !linux

package proxy

import "net"

// hungUp cannot tell here while bytes are unread: a client that leaves in the
// middle of a large upload is noticed when the upload is read.
func hungUp(net.Conn) bool { return false }

// asksAbout reports whether hungUp can tell of a connection: see hungup_linux.go.
func asksAbout(net.Conn) bool { return false }
