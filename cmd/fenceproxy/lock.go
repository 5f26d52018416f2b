package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/proxy/client"
)

// The exit codes of lock, beside the command's own and exitUsage. The first
// three are sysexits.h's unavailable, temporary failure, protocol.
const (
	exitUnreachable = 69
	exitHeld        = 75
	exitLost        = 76
	exitCannotRun   = 126 // as a shell has it
	exitNotFound    = 127
	exitSignal      = 128 // and the signal's number
)

const lockLong = `Take the lease of a resource key, run a command under it, and give it back.

The command gets the lease's fencing token as FENCING_TOKEN and the key as
FENCING_KEY in its environment. It has to send the token itself, with every write
(X-Fencing-Token: $FENCING_TOKEN). The lease is renewed while the command runs. When it is lost,
because the server says so or cannot be reached until the lease's end, or this
machine slept through that, the command and its process group get SIGTERM, and
SIGKILL after --grace. Until then it may run beside the next holder: what it
writes through the proxy is refused.

The lease is granted when no older write on the key can land any more (--no-fence
does not wait for that).

The exit code is the command's own, 128+n when signal n ended it, or
   2  wrong usage, or a question that the server refuses
  69  no lease server answers, or not now
  75  another held the lease until the end of --wait
  76  the lease was lost: what the command did may have been done beside another
 126  the command cannot be run      127  there is no such command

SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are passed on to the
command's process group. If this process is killed, so is the command (Linux;
its own children are not). A command that goes on in the background (a daemon) is
not looked after: the lease is given back when the command itself ends.`

type lockFlags struct {
	ttl, wait, grace time.Duration
	servers          []string
	holder           string
	noFence          bool
	lockAccess
}

func newLock() *cobra.Command {
	var f lockFlags
	cmd := &cobra.Command{
		Use:     "lock KEY [flags] -- COMMAND [ARG…]",
		Short:   "Run a command under a lease, with its fencing token in the environment",
		Long:    lockLong,
		Example: `  fenceproxy lock report:daily --wait 0s -- /usr/local/bin/daily-report`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch at := cmd.ArgsLenAtDash(); {
			case at < 0:
				return errors.New("lock needs -- before the command: fenceproxy lock KEY -- COMMAND")
			case at != 1 || args[0] == "":
				return errors.New("lock takes one key before the --: fenceproxy lock KEY -- COMMAND")
			case len(args) == 1 || args[1] == "":
				return errors.New("lock needs a command behind the --")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			// By the queue: a pipe that nobody reads must not keep the command from
			// being ended when its lease is lost.
			defer func() { _ = standardError.Sync() }()
			return lock(standardError, args[0], args[1:], f)
		},
	}
	fl := cmd.Flags()
	fl.DurationVar(&f.ttl, "ttl", 30*time.Second, "how long the lease lives when this process, or its way to the server, is gone")
	fl.DurationVar(&f.wait, "wait", time.Minute, "how long to wait while another holds the lease; 0s does not wait")
	fl.DurationVar(&f.grace, "grace", 10*time.Second, "the time from SIGTERM to SIGKILL when the lease is lost")
	fl.StringSliceVar(&f.servers, "server", []string{"http://127.0.0.1:9902"}, "the lease listener (leases.address); several that share a store are tried in order")
	fl.StringVar(&f.holder, "holder", "", "told to those who find the lease taken (default: this host and process)")
	fl.BoolVar(&f.noFence, "no-fence", false, "have the lease while older writes on the key may still land")
	f.lockAccess.flags(fl)
	return cmd
}

// lock is the life of one command under its lease.
func lock(stderr io.Writer, key string, command []string, f lockFlags) error {
	if f.ttl <= 0 || f.wait < 0 || f.grace < 0 {
		return errors.New("--ttl must be above 0s, --wait and --grace must not be below")
	}
	// Nobody waits for a lease that is then of no use.
	path, err := exec.LookPath(command[0])
	if err != nil {
		return cannotRun(err)
	}
	say := func(format string, args ...any) { fmt.Fprintf(stderr, "fenceproxy: lock: "+format+"\n", args...) }
	options := client.LeaseOptions{Servers: f.servers, Holder: f.holder, TTL: f.ttl, Wait: f.wait, NoFence: f.noFence, Report: reporter(say)}
	if err := f.lockAccess.apply(&options); err != nil {
		return &exitError{exitUsage, err}
	}
	signals := make(chan os.Signal, 16)
	notify(signals) // to the end of the process: its exit code tells of the command, which is over when a late one comes

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // the lease's context is made of it
	lease, err := acquireUnlessStopped(ctx, cancel, key, options, signals)
	if err != nil {
		return err
	}
	notifyOf(signals, syscall.SIGTSTP)  // up to here Ctrl-Z stops us alone
	if err := lease.Err(); err != nil { // this process was stopped for longer than the lease lives
		release(lease, say)
		return &exitError{exitLost, err}
	}
	c, err := startGuarded(path, command, []string{"FENCING_TOKEN=" + lease.Token(), "FENCING_KEY=" + key})
	if err != nil {
		release(lease, say)
		return cannotRun(err)
	}
	g := keeper{command: c, lease: lease, signals: signals, grace: f.grace, say: say}
	code := g.wait()
	if lost := release(lease, say); lost != nil {
		return &exitError{exitLost, lost}
	}
	if code != 0 {
		return &exitError{code: code} // the command has said why
	}
	return nil
}

// acquireUnlessStopped ends with 128+n where signal n comes first.
func acquireUnlessStopped(ctx context.Context, cancel func(), key string, o client.LeaseOptions, signals <-chan os.Signal) (*client.Lease, error) {
	type result struct {
		lease *client.Lease
		err   error
	}
	got := make(chan result, 1)
	go func() {
		lease, err := client.Acquire(ctx, key, o)
		got <- result{lease, err}
	}()
	for {
		select {
		case r := <-got:
			return r.lease, leaseError(r.err)
		case sig := <-signals:
			s := sig.(syscall.Signal)
			if !ends(s) {
				continue
			}
			cancel()
			if r := <-got; r.lease != nil { // it came at the same moment
				release(r.lease, func(string, ...any) {})
			}
			return nil, &exitError{exitSignal + int(s), fmt.Errorf("stopped by signal %d (%v) before the command was started", s, s)}
		}
	}
}

// leaseError gives the reason why there is no lease its exit code.
func leaseError(err error) error {
	held, refused := (*client.HeldError)(nil), (*client.ServerError)(nil)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &held):
		return &exitError{exitHeld, err}
	case errors.As(err, &refused) && refused.Status < 500:
		switch {
		case refused.Status == http.StatusUnauthorized:
			err = fmt.Errorf("%w; --token-file must name a copy of the server's leases.token_file", err)
		case strings.Contains(refused.Detail, `"fence": false`):
			err = fmt.Errorf("%w (here that is --no-fence)", err)
		}
		return &exitError{exitUsage, err}
	case errors.As(err, &refused), errors.Is(err, client.ErrLost): // lost right behind the grant
		return &exitError{exitUnreachable, err}
	case errors.Is(err, client.ErrUnreachable):
		return &exitError{exitUnreachable, fmt.Errorf("%w; is --server the address of leases.address, and does the proxy run?", err)}
	}
	return &exitError{exitUsage, err}
}

// cannotRun gives the reason why a command does not run its exit code.
func cannotRun(err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return &exitError{exitNotFound, err}
	}
	return &exitError{exitCannotRun, err}
}

// releasePatience is how long the server is tried at the end.
const releasePatience = 5 * time.Second

// release gives the lease back, and returns why it was lost before.
func release(lease *client.Lease, say func(string, ...any)) error {
	ctx, cancel := context.WithTimeout(context.Background(), releasePatience)
	defer cancel()
	err := lease.Release(ctx)
	if errors.Is(err, client.ErrLost) {
		return err
	}
	if err != nil {
		say("%v", err)
	}
	return nil
}

// reporter says what is tried again, and the same thing once.
func reporter(say func(string, ...any)) func(error) {
	last := ""
	return func(err error) {
		if s := err.Error(); s != last {
			last = s
			say("%s; trying again", s)
		}
	}
}
