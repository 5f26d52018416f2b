//go:build !linux

package main

import "syscall"

// dieWithUs has nothing to ask for: the command lives on when this process is
// killed, and what it writes is refused once another has the lease.
func dieWithUs(*syscall.SysProcAttr) {}
