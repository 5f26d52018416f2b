//go:build !race

package attacks

// floodKeys is how many keys a client makes up.
const floodKeys = 1_000_000
