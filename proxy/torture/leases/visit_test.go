package leases

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
)

// codes are what commands end with.
var codes = []int{0, 3}

// visit is one life of a fenceproxy lock.
type visit struct {
	*storm
	holder, key string
	ttl, wait   time.Duration
	fence       bool
	orders      orders
	harm        harm
	after       time.Duration   // the harm comes so long after the command's start
	early       bool            // or after the lock's own start
	pause       time.Duration   // how long what is stopped stands still
	begun       func()          // called when its command runs, where it is set
	end         <-chan struct{} // then it is told to end
}

// harm is what is done to a lock and its command.
type harm func(v *visit, lock, command *os.Process)

func (s *storm) draw(rng *rand.Rand, worker, life int) *visit {
	between := func(low, high time.Duration) time.Duration { return low + time.Duration(rng.Int64N(int64(high-low))) }
	v := &visit{storm: s, holder: fmt.Sprintf("w%02d-%d", worker, life), key: fmt.Sprintf("k%d", rng.IntN(s.keys)), ttl: s.lim.ttl,
		wait: []time.Duration{0, s.lim.ttl, 2 * s.lim.ttl, 5 * s.lim.ttl}[rng.IntN(4)], fence: rng.IntN(8) > 0,
		after: between(0, 200*time.Millisecond), early: rng.IntN(5) == 0, pause: between(s.lim.ttl*3/4, 3*s.lim.ttl), end: s.end}
	v.orders = orders{Proxies: s.proxies(), Key: v.key, First: uint32(worker)<<20 | uint32(life)<<6, Writes: 1 + rng.IntN(8), Pause: between(time.Millisecond, 100*time.Millisecond),
		Seed: rng.Uint64(), Code: codes[min(1, rng.IntN(6)/5)]}
	n := rng.IntN(13)
	v.harm = []harm{
		(*visit).stopLock, (*visit).stopLock, (*visit).stopBoth, (*visit).stopBoth, (*visit).stopCommand,
		(*visit).killLock, (*visit).killLock, (*visit).killCommand, (*visit).terminate,
		nothing, nothing, nothing, nothing,
	}[n]
	if n < 4 { // it is to write on when its lease is over
		v.orders.Writes, v.orders.Pause = v.orders.Writes+20, 250*time.Millisecond
	}
	if !v.fence && v.pause%2 == 0 {
		v.orders.Writes = 0 // then only the store knows of its token
	}
	return v
}

// paused is the story of the article: its lock stands still until its lease is
// another's, and its command writes on. begun is closed once it has the lease.
// It may be told n times.
func (s *storm) paused(n int) (v *visit, begun chan struct{}) {
	begun = make(chan struct{})
	return &visit{storm: s, holder: fmt.Sprintf("paused-%d", n), key: "k0", ttl: s.lim.ttl, wait: 10 * time.Second, fence: true, harm: (*visit).stopLock, pause: 3 * s.lim.ttl,
		orders: orders{Proxies: s.proxies(), Key: "k0", First: 1<<29 | uint32(n)<<6, Writes: 24, Pause: 250 * time.Millisecond, Seed: s.seed},
		begun:  sync.OnceFunc(func() { close(begun) })}, begun
}

// run starts it, does it harm, and waits for its end.
func (v *visit) run() error {
	text, err := json.Marshal(v.orders)
	if err != nil {
		return err
	}
	args := []string{"lock", leaseKey(v.key), "--ttl", v.ttl.String(), "--wait", v.wait.String(), "--grace", "300ms",
		"--holder", v.holder, "--server", strings.Join(v.doors(), ",")}
	if !v.fence {
		args = append(args, "--no-fence")
	}
	bin, err := torture.Binary()
	if err != nil {
		return err
	}
	cmd := exec.Command(bin, append(args, "--", os.Args[0])...)
	cmd.Env = append(os.Environ(), ordersVariable+"="+string(text), "GORACE=atexit_sleep_ms=0", "GOMAXPROCS=2")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stderr, err := os.CreateTemp(v.dir, v.holder)
	if err != nil {
		return err
	}
	defer stderr.Close()
	cmd.Stderr = stderr
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd.Stdout = w
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		return err
	}
	began, over := make(chan *os.Process, 1), make(chan struct{})
	harmed := make(chan struct{})
	go func() {
		defer close(harmed)
		v.doHarm(cmd.Process, began, over)
		select {
		case <-v.end:
			v.terminate(cmd.Process, nil)
		case <-over:
		}
	}()
	// The command has the pipe, too, so this ends with the last of both.
	_ = r.SetReadDeadline(time.Now().Add(v.wait + time.Minute))
	err = v.listen(r, began)
	if err != nil {
		_ = cmd.Process.Kill()
	}
	waited := cmd.Wait()
	close(over)
	<-harmed
	exit := torture.Event{Kind: torture.Exit, Name: v.holder, Key: v.key, Status: uint16(cmd.ProcessState.ExitCode())}
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		exit.Status, exit.Result = 0, status.Signal().String()
	}
	v.h.Add(exit)
	if failed := (*exec.ExitError)(nil); err == nil && waited != nil && !errors.As(waited, &failed) {
		err = waited
	}
	if err == nil && (exit.Status == 2 || exit.Status == raced || exit.Status >= 100 && exit.Status < 128) {
		said, _ := os.ReadFile(stderr.Name())
		err = fmt.Errorf("%s ended with %d:\n%s", v.holder, exit.Status, said)
	}
	return err
}

// raced is with what the race detector ends a process that it has complained of.
const raced = 66

// listen notes what the command tells of itself.
func (v *visit) listen(r *os.File, began chan<- *os.Process) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var l line
		if json.Unmarshal(lines.Bytes(), &l) != nil {
			return fmt.Errorf("%s printed %q", v.holder, lines.Text())
		}
		e := torture.Event{Kind: torture.Command, Name: v.holder, Key: v.key}
		switch {
		case l.PID != 0:
			p, err := os.FindProcess(l.PID)
			if err != nil {
				return err
			}
			if v.begun != nil {
				v.begun()
			}
			began <- p // a handle: its number may be another's later
			e.Result = started
		case l.Event != nil:
			e = *l.Event
		case l.Done:
			e.Result, e.Status = done, uint16(v.orders.Code)
		}
		v.h.Add(e)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s is not over: %w", v.holder, err)
	}
	return nil
}

// doHarm waits for its moment.
func (v *visit) doHarm(lock *os.Process, began <-chan *os.Process, over <-chan struct{}) {
	var command *os.Process
	if !v.early {
		select {
		case command = <-began:
		case <-over:
			return
		case <-v.end:
			return
		}
	}
	select {
	case <-time.After(v.after):
	case <-over:
		return
	}
	if command == nil {
		select {
		case command = <-began:
		default: // it has no lease yet
		}
	}
	v.harm(v, lock, command)
}

func nothing(*visit, *os.Process, *os.Process) {}

func (v *visit) stopLock(lock, _ *os.Process)       { v.stop("lock", lock) }
func (v *visit) stopCommand(_, command *os.Process) { v.stop("command", command) }

// stopBoth is a machine that stands still. They go on one after the other, in
// either order.
func (v *visit) stopBoth(lock, command *os.Process) {
	if v.pause%2 == 0 {
		v.stop("lock and command", lock, command)
		return
	}
	v.stop("command and lock", command, lock)
}

func (v *visit) stop(what string, all ...*os.Process) {
	v.fault("%s stopped for %v", v.holder, what, v.pause)
	for _, p := range all {
		signal(p, syscall.SIGSTOP)
	}
	time.Sleep(v.pause)
	for _, p := range all {
		signal(p, syscall.SIGCONT)
		time.Sleep(v.after / 4)
	}
}

func (v *visit) killLock(lock, _ *os.Process) {
	v.fault(lockKilled, v.holder)
	signal(lock, syscall.SIGKILL)
}

func (v *visit) killCommand(_, command *os.Process) {
	if command != nil {
		v.fault(commandKilled, v.holder)
		signal(command, syscall.SIGKILL)
	}
}

func (v *visit) terminate(lock, _ *os.Process) {
	v.fault(lockTerminated, v.holder)
	signal(lock, syscall.SIGTERM)
}

// signal does nothing to a process that is over, or not there yet.
func signal(p *os.Process, s syscall.Signal) {
	if p != nil {
		_ = p.Signal(s)
	}
}
