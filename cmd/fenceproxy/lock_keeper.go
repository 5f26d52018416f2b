package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/client"
)

// forwarded are the signals that are passed on to the command, as is SIGTSTP once
// there is one.
var forwarded = []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}

// notify asks for them. One that was ignored when we started (nohup) stays so,
// for the command too.
func notify(c chan<- os.Signal) {
	for _, s := range forwarded {
		notifyOf(c, s)
	}
	signal.Notify(c, syscall.SIGCONT)
	// Nobody listens: what is said to a pipe whose reader is gone must not end us
	// beside the command. That one is born with the signal as it was.
	if !signal.Ignored(syscall.SIGPIPE) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}
}

func notifyOf(c chan<- os.Signal, s syscall.Signal) {
	if !signal.Ignored(s) {
		signal.Notify(c, s)
	}
}

// ends reports whether a signal is one to end by.
func ends(s syscall.Signal) bool {
	switch s {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT:
		return true
	}
	return false
}

// keeper looks after a command and its lease until one of them is over.
type keeper struct {
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
func (k *keeper) wait() int {
	lost := k.lease.Context().Done()
	for {
		select {
		case <-lost:
			lost = nil
			k.lose()
		case <-k.kill:
			k.kill = nil
			k.command.signal(syscall.SIGKILL)
			k.say("the command is still there %v after SIGTERM: SIGKILL", k.grace)
		case sig := <-k.signals:
			s := sig.(syscall.Signal)
			if s != syscall.SIGCONT {
				k.command.signal(s)
			} else if k.lease.Err() == nil { // it may have run out while we were stopped
				k.terminal.resume(k.command)
			}
		case s := <-k.command.stopped:
			if k.lease.Err() == nil { // else it is being ended, and we must not stop along with it
				k.terminal.stopped(k.command, s)
			}
		case status := <-k.command.ended:
			k.terminal.back(k.command)
			if k.lease.Err() != nil {
				if lost != nil {
					k.lose()
				}
				k.clear()
			}
			return exitCode(status)
		}
	}
}

// lose begins to end the command. One that is stopped gets no SIGCONT: it would
// go on writing.
func (k *keeper) lose() {
	k.kill = time.After(k.grace)
	k.command.signal(syscall.SIGTERM)
	k.say("%v; ending the command", k.lease.Err())
}

// clear waits until nobody is left in the command's process group, and kills
// what is at the end of the grace.
func (k *keeper) clear() {
	for !errors.Is(syscall.Kill(-k.command.pid, 0), syscall.ESRCH) {
		if k.kill == nil { // it is over
			k.command.signal(syscall.SIGKILL)
			return
		}
		select {
		case <-k.kill:
			k.kill = nil
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
