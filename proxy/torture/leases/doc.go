// Package leases tortures the leases from outside: real fenceproxy lock
// processes under which real commands write, lease servers over every store, and
// SIGSTOP, SIGCONT and SIGKILL for all of them, the stores too. What passes
// between the holders and the servers, and what the backend applies, is one
// History, which the judges here are held against. It has tests only.
package leases
