//go:build race

package leases

// slow is how much longer than the promise a quick thing may take: the race
// detector makes it so.
const slow = 5
