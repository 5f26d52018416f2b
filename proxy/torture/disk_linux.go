package torture

import "golang.org/x/sys/unix"

const fillsDisks = true

// FillDisk lets no file of the process grow or be written to any more (no byte
// of it behind the first), or lets them again. It needs no rights and no file
// system of its own, and it meets the process in the middle of its work.
func (p *Proxy) FillDisk(full bool) error {
	limit := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if full {
		limit.Cur = 1
	}
	return unix.Prlimit(p.PID(), unix.RLIMIT_FSIZE, &limit, nil)
}
