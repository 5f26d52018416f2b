package main

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// guarded is a command that runs in a process group of its own, so that all of
// it can be ended.
type guarded struct {
	pid     int
	stopped chan syscall.Signal     // it was stopped by a signal
	ended   chan syscall.WaitStatus // it is over
}

// startGuarded starts a command with our standard files and environment, and
// what env adds to that.
func startGuarded(path string, command, env []string) (*guarded, error) {
	cmd := &exec.Cmd{
		Path: path, Args: command, Env: append(os.Environ(), env...),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	dieWithUs(cmd.SysProcAttr)
	c := &guarded{stopped: make(chan syscall.Signal, 1), ended: make(chan syscall.WaitStatus, 1)}
	started := make(chan error)
	go func() {
		// The kernel ends the command with the thread that started it: so that
		// thread has to live for as long, and nobody else may end it.
		runtime.LockOSThread()
		err := cmd.Start()
		if err == nil {
			c.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			c.follow()
			_ = cmd.Process.Release()
		}
	}()
	return c, <-started
}

// follow waits by itself, and not by cmd.Wait, which does not tell of stops.
func (c *guarded) follow() {
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(c.pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // somebody else has reaped it: nothing is known
			c.ended <- syscall.WaitStatus(exitLost << 8)
			return
		case status.Stopped():
			c.stopped <- status.StopSignal()
		default:
			c.ended <- status
			return
		}
	}
}

// signal sends a signal to the whole process group.
func (c *guarded) signal(s syscall.Signal) { _ = syscall.Kill(-c.pid, s) }
