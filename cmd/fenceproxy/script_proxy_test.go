package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptPatience is how long a start, a stop or an answer may take on a
// machine that is busy.
const scriptPatience = 30 * time.Second

// ready is what a proxy says of itself when it is ready.
type ready struct{ Msg, Listen, Admin, Leases string }

// process is a proxy in the background.
type process struct {
	cmd   *exec.Cmd
	ready chan ready    // gets the addresses; closed at the log's end
	ended chan struct{} // closed when the process is over

	mu  sync.Mutex
	log bytes.Buffer
}

// proxy [ARG…] starts `fenceproxy serve ARG…` and returns when it is ready. $PROXY
// is then its address, $LEASES that of its leases, $ADMIN that of its admin
// listener, and logged looks at its log.
func cmdProxy(ts *testscript.TestScript, neg bool, args []string) {
	stage := stageOf(ts)
	usage(ts, neg, "proxy [ARG…] (of serve)")
	if stage.proxy != nil && !stage.proxy.over() {
		ts.Fatalf("a proxy runs already: end it first")
	}
	startProxy(ts, exec.Command("fenceproxy", append([]string{"serve"}, args...)...))
}

// startProxy starts a command that becomes the proxy.
func startProxy(ts *testscript.TestScript, cmd *exec.Cmd) {
	stage := stageOf(ts)
	p := &process{cmd: cmd, ready: make(chan ready, 1), ended: make(chan struct{})}
	p.cmd.Dir = ts.MkAbs(".")
	p.cmd.Env = append(append(os.Environ(), cmd.Env...), scriptEnv(ts)...)
	stderr, err := p.cmd.StderrPipe()
	ts.Check(err)
	ts.Check(p.cmd.Start())
	go p.follow(stderr)
	ts.Defer(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		ts.Logf("[log of the proxy]\n%s", p.text())
	})
	stage.proxy = p
	select {
	case at, ok := <-p.ready:
		if !ok {
			ts.Fatalf("the proxy ended before it was ready")
		}
		ts.Setenv("PROXY", at.Listen)
		ts.Setenv("ADMIN", at.Admin)
		ts.Setenv("LEASES", at.Leases)
	case <-time.After(scriptPatience):
		ts.Fatalf("the proxy is not ready after %v", scriptPatience)
	}
}

// scriptEnv are the variables for the proxy and its configuration that a script
// has set; a proxy in the background must see them too.
func scriptEnv(ts *testscript.TestScript) []string {
	var env []string
	for _, name := range []string{"GORACE", "SOCKETS", "UPSTREAM", "FENCEPROXY_UPSTREAM", "FENCEPROXY_LISTEN", "FENCEPROXY_DATA", "FENCEPROXY_ADMIN", "FENCEPROXY_CONFIG"} {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// follow reads the log until the process ends.
func (p *process) follow(stderr io.Reader) {
	defer close(p.ended)
	defer func() { _ = p.cmd.Wait() }()
	defer close(p.ready)
	for lines := bufio.NewReader(stderr); ; {
		line, err := lines.ReadBytes('\n')
		p.mu.Lock()
		p.log.Write(line)
		p.mu.Unlock()
		var entry ready
		if json.Unmarshal(line, &entry) == nil && entry.Msg == "ready" {
			p.ready <- entry
		}
		if err != nil {
			return
		}
	}
}

func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// end SIGNAL [CODE] sends TERM, INT or KILL to the proxy and waits for its
// end. It must end with the code, or without one by the signal.
func cmdEnd(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL}
	usage(ts, neg || len(args) < 1 || len(args) > 2 || signals[args[0]] == 0, "end TERM|INT|KILL [CODE]")
	p := stageOf(ts).proxy
	if p == nil || p.over() {
		ts.Fatalf("no proxy runs")
	}
	ts.Check(p.cmd.Process.Signal(signals[args[0]]))
	select {
	case <-p.ended:
	case <-time.After(scriptPatience):
		ts.Fatalf("the proxy has not ended after %v", scriptPatience)
	}
	want := "signal: killed"
	if len(args) == 2 {
		want = "exit status " + args[1]
	}
	if got := p.cmd.ProcessState.String(); got != want {
		ts.Fatalf("the proxy ended with %q, want %q", got, want)
	}
}

// hungUp is the line that says what became of a SIGHUP.
var hungUp = regexp.MustCompile(`"msg":"(the configuration was (not )?reloaded|there is nothing to reload)[^"]*","why":"SIGHUP"`)

// hangup sends SIGHUP to the proxy, and returns when that has been dealt with. The
// proxy looks at the file by itself, too, and may have seen the change before: then
// that reload's line tells of it, and this one's of nothing.
func cmdHangUp(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg || len(args) != 0, "hangup")
	p := stageOf(ts).proxy
	before := len(hungUp.FindAllString(p.text(), -1))
	ts.Check(p.cmd.Process.Signal(syscall.SIGHUP))
	for end := time.Now().Add(scriptPatience); len(hungUp.FindAllString(p.text(), -1)) == before; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			ts.Fatalf("the proxy says nothing of SIGHUP in\n%s", strings.TrimSpace(p.text()))
		}
	}
}

// logged PATTERN holds when a line of the proxy's log matches.
func cmdLogged(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) != 1, "[!] logged PATTERN")
	re, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	p := stageOf(ts).proxy
	if p == nil {
		ts.Fatalf("no proxy was started")
	}
	found := re.MatchString(p.text())
	for end := time.Now().Add(scriptPatience); !found && !neg && time.Now().Before(end); found = re.MatchString(p.text()) {
		time.Sleep(5 * time.Millisecond) // a request's line comes behind its answer
	}
	if found == neg {
		ts.Fatalf("%s: found is %v in\n%s", args[0], found, strings.TrimSpace(p.text()))
	}
}
