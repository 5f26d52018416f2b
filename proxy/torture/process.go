package torture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore/servertest"
)

// startPatience is how long a step of the process may take on a machine that is
// busy.
const startPatience = 20 * time.Second

// Proxy is the built binary as a process, with one store and one pair of
// addresses through all its lives. It is for one goroutine at a time, except
// Addr and Admin, which do not change.
type Proxy struct {
	Addr  string // where clients send to
	Admin string // URL of the admin listener

	binary, config, log string
	admin, store        string // as the configuration has them
	h                   *History
	process             *servertest.Process // nil for none
	web                 *http.Client
}

// NewProxy writes the configuration into dir, where the store and the log go
// too, and starts nothing yet.
func NewProxy(h *History, binary, dir string, s Settings) (*Proxy, error) {
	addr, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	admin, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		Addr: addr, Admin: "http://" + admin, h: h, binary: binary,
		config: filepath.Join(dir, "fenceproxy.yaml"), log: filepath.Join(dir, "fenceproxy.log"),
		admin: admin, store: filepath.Join(dir, "store"),
		web: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: startPatience},
	}
	if err := p.Configure(s); err != nil {
		return nil, err
	}
	return p, nil
}

// Start starts the process and returns when it is ready to admit.
func (p *Proxy) Start() error {
	if err := p.Launch(); err != nil {
		return err
	}
	if err := p.process.Until(p.ready); err != nil {
		p.Kill()
		return fmt.Errorf("the proxy is not ready: %w; its log ends with:\n%s", err, p.Log(4<<10))
	}
	return nil
}

// Launch starts the process and does not wait for it.
func (p *Proxy) Launch() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the proxy's log: %w", err)
	}
	cmd := exec.Command(p.binary, "serve", "--config", p.config)
	// Through a pipe: what a proxy says while no file of its own may grow is worth
	// most, see FillDisk.
	said := struct{ io.Writer }{log}
	cmd.Stdout, cmd.Stderr = said, said
	p.h.Add(Event{Kind: Start})
	process, err := servertest.Start(cmd)
	if err != nil {
		log.Close()
		return fmt.Errorf("starting the proxy: %w", err)
	}
	go func() {
		<-process.Ended()
		log.Close()
	}()
	p.process = process
	return nil
}

// ready asks /readyz whether it answers 200.
func (p *Proxy) ready(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Admin+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := p.web.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %s", resp.Status)
	}
	return nil
}

// Kill ends the process with SIGKILL and waits for its end. It does nothing
// where none runs.
func (p *Proxy) Kill() {
	if p.process == nil {
		return
	}
	p.h.Add(Event{Kind: Kill, Name: "SIGKILL"})
	p.process.End(syscall.SIGKILL)
	p.process = nil
}

// KillAfter kills the process when a test ends, which fails where any of its
// lives has complained, and shows the log where it has failed.
func (p *Proxy) KillAfter(t testing.TB, name string) {
	t.Cleanup(func() {
		p.Kill()
		if bad := p.Complaints(); bad != "" {
			t.Errorf("the log of %s has:\n%s", name, bad)
		}
		if t.Failed() {
			t.Logf("the log of %s ends with:\n%s", name, p.Log(4<<10))
		}
	})
}

// Pause makes the process stand still until Resume (SIGSTOP), as a machine
// does that hands its processors to others. Kill ends a pause.
func (p *Proxy) Pause() { p.process.Signal(syscall.SIGSTOP) }

// Resume ends a pause.
func (p *Proxy) Resume() { p.process.Signal(syscall.SIGCONT) }

// Run runs the binary with a command that takes the configuration, and returns
// what it printed.
func (p *Proxy) Run(args ...string) (string, error) {
	return p.run(append(args, "--config", p.config))
}

// Keys runs fenceproxy keys on the process that runs now.
func (p *Proxy) Keys(args ...string) (string, error) {
	return p.run(append([]string{"keys", "--admin", p.Admin}, args...))
}

func (p *Proxy) run(args []string) (string, error) {
	out, err := exec.Command(p.binary, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%v: %w\n%s", args, err, out)
	}
	return string(out), err
}

// PID is the process that runs now.
func (p *Proxy) PID() int { return p.process.PID() }

// Terminate sends SIGTERM, and Wait waits for what comes of it.
func (p *Proxy) Terminate() {
	p.h.Add(Event{Kind: Kill, Name: "SIGTERM"})
	p.process.Signal(syscall.SIGTERM)
}

// Wait returns the exit code of the process, -1 for a signal; it kills a
// process that does not end within d.
func (p *Proxy) Wait(d time.Duration) (int, error) {
	if p.process == nil {
		return -1, errors.New("no process runs")
	}
	select {
	case <-p.process.Ended():
		code := p.process.State().ExitCode()
		p.process = nil
		return code, nil
	case <-time.After(d):
		p.Kill()
		return -1, fmt.Errorf("the proxy did not end within %v; its log ends with:\n%s", d, p.Log(4<<10))
	}
}

// Exited is closed when the process that runs now is over.
func (p *Proxy) Exited() <-chan struct{} { return p.process.Ended() }

// Log returns the last n bytes of what all lives of the process have written.
func (p *Proxy) Log(n int) string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-n):])
}

var complaint = regexp.MustCompile(`(?m)^(WARNING: DATA RACE|panic: |fatal error: ).*|.*http: panic serving.*`)

// Complaints returns what no life of the proxy should ever write: data races,
// panics and fatal errors, with some lines of their context.
func (p *Proxy) Complaints() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return ""
	}
	at := complaint.FindIndex(b)
	if at == nil {
		return ""
	}
	b = b[at[0]:]
	return string(bytes.TrimSpace(b[:min(len(b), 4<<10)]))
}
