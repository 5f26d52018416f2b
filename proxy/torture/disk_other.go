//go:build !linux

package torture

const fillsDisks = false

// FillDisk does nothing: no other process can be limited here.
func (p *Proxy) FillDisk(bool) error { return nil }
