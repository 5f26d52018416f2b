//go:build race

package attacks

// floodKeys are fewer under the race detector, which makes each cost ten times
// as much.
const floodKeys = 50_000
