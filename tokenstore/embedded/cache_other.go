//go:build !linux

package embedded

// forgetCache does nothing where the kernel has no such call.
func forgetCache(string) {}
