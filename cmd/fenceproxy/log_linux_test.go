package main

import "testing"

// On a terminal the log is for people; elsewhere, as every script sees it, it is
// JSON. ^C stops the proxy in good order.
func TestLogOnTerminal(t *testing.T) {
	s := newShell(t)
	s.types("cd "+t.TempDir()+" && fenceproxy serve --upstream http://127.0.0.1:1 --listen 127.0.0.1:0 --admin ''; echo code $?\n", "\tINFO\tready\t{")
	s.types("\x03", "\tINFO\tstopping\t{")
	s.types("", "\tINFO\tstopped, everything is settled")
	s.types("", "code 0")
}
