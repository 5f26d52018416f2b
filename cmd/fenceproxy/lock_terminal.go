package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal hands the terminal to the command and takes it back, as a shell does
// with its jobs. The command is in a process group of its own, and begins in the
// background: the rest of a pipeline (| less) keeps the terminal, Ctrl-C comes
// to us and is passed on. A command that wants the terminal is stopped by the
// kernel (SIGTTIN, SIGTTOU), and then it gets it.
type terminal struct {
	handed bool // the command had the terminal when we stopped along with it
}

// stopped decides what to do about a command that was stopped.
func (t *terminal) stopped(c *guarded, s syscall.Signal) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil || s == syscall.SIGSTOP {
		return // no job of a shell: whoever stopped it will know
	}
	defer tty.Close()
	us, fore := unix.Getpgrp(), foreground(tty)
	if fore == us && (s == syscall.SIGTTIN || s == syscall.SIGTTOU) {
		hand(tty, c.pid)
		c.signal(syscall.SIGCONT)
		return
	}
	// Ctrl-Z, or all of the job is in the background: the shell has to see us
	// stop, or it would wait for ever. The lease is not renewed meanwhile, so
	// nobody of the command goes on, whatever he says to Ctrl-Z.
	if t.handed = fore == c.pid; t.handed {
		hand(tty, us)
	}
	c.signal(syscall.SIGSTOP)
	_ = syscall.Kill(0, syscall.SIGSTOP)
}

// resume lets the command go on once we do.
func (t *terminal) resume(c *guarded) {
	if t.handed {
		t.handed = false
		if tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0); err == nil {
			if foreground(tty) == unix.Getpgrp() { // fg, and not bg
				hand(tty, c.pid)
			}
			_ = tty.Close()
		}
	}
	c.signal(syscall.SIGCONT)
}

// back takes the terminal from a command that is over.
func (t *terminal) back(c *guarded) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer tty.Close()
	if foreground(tty) == c.pid {
		hand(tty, unix.Getpgrp())
	}
}

func foreground(tty *os.File) int {
	pgrp, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return pgrp
}

func hand(tty *os.File, pgrp int) {
	// Whoever does this from the background is stopped for it, unless he ignores
	// that. Not earlier: the command would inherit it.
	signal.Ignore(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(int(tty.Fd()), unix.TIOCSPGRP, pgrp)
}
