package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/client"
)

// forwarded are the signals that are passed on to the command.
var forwarded = []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP}

// notify asks for them. One that was ignored when we started (nohup) stays so,
// for the command too.
func notify(c chan<- os.Signal) {
	for _, s := range forwarded {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	signal.Notify(c, syscall.SIGCONT)
}

// ends reports whether a signal is one to end by.
func ends(s syscall.Signal) bool {
	switch s {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT:
		return true
	}
	return false
}

// guard looks after a command and its lease until one of them is over.
type guard struct {
	command *guarded
	lease   *client.Lease
	signals <-chan os.Signal
	grace   time.Duration
	say     func(string, ...any)

	kill     <-chan time.Time // the end of the grace, once the lease is lost
	terminal terminal
}

// wait returns the exit code of the command, which is over then. Where the lease
// is lost first, so is what else is left of its process group.
func (g *guard) wait() int {
	lost := g.lease.Context().Done()
	for {
		select {
		case <-lost:
			lost = nil
			g.lose()
		case <-g.kill:
			g.kill = nil
			g.say("the command is still there %v after SIGTERM: SIGKILL", g.grace)
			g.command.signal(syscall.SIGKILL)
		case sig := <-g.signals:
			s := sig.(syscall.Signal)
			if s != syscall.SIGCONT {
				g.command.signal(s)
			} else if g.lease.Err() == nil { // it may have run out while we were stopped
				g.terminal.resume(g.command)
			}
		case s := <-g.command.stopped:
			g.terminal.stopped(g.command, s)
		case status := <-g.command.ended:
			g.terminal.back(g.command)
			if g.lease.Err() != nil {
				if lost != nil {
					g.lose()
				}
				g.clear()
			}
			return exitCode(status)
		}
	}
}

// lose begins to end the command. One that is stopped gets no SIGCONT: it would
// go on writing.
func (g *guard) lose() {
	g.say("%v; ending the command", g.lease.Err())
	g.kill = time.After(g.grace)
	g.command.signal(syscall.SIGTERM)
}

// clear waits until nobody is left in the command's process group, and kills
// what is at the end of the grace.
func (g *guard) clear() {
	for !errors.Is(syscall.Kill(-g.command.pid, 0), syscall.ESRCH) {
		if g.kill == nil { // it is over
			g.command.signal(syscall.SIGKILL)
			return
		}
		select {
		case <-g.kill:
			g.kill = nil
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return status.ExitStatus()
}
