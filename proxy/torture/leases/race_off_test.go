//go:build !race

package leases

const slow = 1
