// Package leases tortures the leases from outside: real fenceproxy lock
// processes under which real commands write, lease servers over every store
// that keeps what it has acknowledged, and SIGSTOP, SIGCONT and SIGKILL for all
// of them. What passes between the holders and the servers, and what the
// backend applies, is one History, which the judges here are held against. It
// has tests only.
package leases
