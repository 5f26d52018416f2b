package servertest

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Patience is how long a start, or an answer, may take on a machine that is busy.
const Patience = 30 * time.Second

// keeper becomes the program, under its own process id, and leaves one behind
// who ends it when the process of the test is gone, killed perhaps: nobody holds
// the other end of its standard input then. A line from there says that the
// program is over, and that its id may be another's.
const keeper = `exec 3<&0; ( (read -r _ <&3 || { kill -INT $$; kill -CONT $$; }) >/dev/null 2>&1 & ); exec "$@" 3<&-`

// Process is one life of a program. Any goroutine may end it.
type Process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd is over
}

// Start starts a program. Its standard input is open, and empty, until it ends.
func Start(cmd *exec.Cmd) (*Process, error) {
	if cmd.Err != nil {
		return nil, cmd.Err
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		return nil, err
	}
	in, alive, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	cmd.Args = append([]string{"sh", "-c", keeper, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path, cmd.Stdin = sh, in
	if err := cmd.Start(); err != nil {
		_ = alive.Close()
		return nil, err
	}
	p := &Process{cmd, make(chan struct{})}
	go func() {
		_ = cmd.Wait() // the state says how it ended
		_, _ = io.WriteString(alive, "over\n")
		_ = alive.Close()
		close(p.ended)
	}()
	return p, nil
}

// Ended is closed when it is over.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// State is how it ended, once it has.
func (p *Process) State() *os.ProcessState { return p.cmd.ProcessState }

// PID is its process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends it a signal, where it has not ended.
func (p *Process) Signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

// End sends it a signal, which finds it paused perhaps, and waits for its end.
func (p *Process) End(with os.Signal) {
	p.Signal(with)
	p.Signal(syscall.SIGCONT)
	<-p.ended
}

// Until asks until there is no error. Where it has ended meanwhile, whoever
// answers is another one.
func (p *Process) Until(ask func(context.Context) error) error {
	for end := time.Now().Add(Patience); ; time.Sleep(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		err := ask(ctx)
		cancel()
		select {
		case <-p.ended:
			return fmt.Errorf("it has ended with %v", p.State())
		default:
		}
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("not after %v: %w", Patience, err)
		}
	}
}
