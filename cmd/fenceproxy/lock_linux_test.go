package main

import "testing"

// Who kills fenceproxy lock kills the command: nobody would renew its lease.
func TestLockKilled(t *testing.T) {
	_, url := leaseServer(t)
	l := startLock(t, url, "k", "--", "sh", "-c", "echo go; while :; do :; done")
	l.line()
	if err := l.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if got := l.rest(); got != "" { // the end of the last one that could print
		t.Error(got)
	}
	l.exits(-1)
}
