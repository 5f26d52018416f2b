package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fenceproxy/fenceproxy/tokenstore/servertest"
)

// The scripts in testdata/script run this very program, main and all, as
// processes: the test binary is copied under its name. See script_proxy_test.go,
// script_http_test.go, script_lease_test.go and script_listen_test.go for the commands that they have beside testscript's.

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"fenceproxy": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/script",
		RequireUniqueNames: true,
		Deadline:           time.Now().Add(5 * time.Minute), // a proxy that starts where it should refuse to runs on
		Setup: func(env *testscript.Env) error {
			// A race that a process finds at its end still makes its exit code 66.
			env.Setenv("GORACE", "atexit_sleep_ms=10")
			env.Setenv("SOCKETS", servertest.SocketDir(t)) // $WORK may have too long a name for them
			env.Values[stageKey{}] = &scriptStage{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    cmdExits,
			"timeless": cmdTimeless,
			"proxy":    cmdProxy,
			"end":      cmdEnd,
			"hangup":   cmdHangUp,
			"logged":   cmdLogged,
			"upstream": cmdUpstream,
			"release":  cmdRelease,
			"http":     cmdHTTP,
			"admin":    cmdAdmin,
			"answer":   cmdAnswer,
			"socket":   cmdSocket,
			"lease":    cmdLease,
			"leased":   cmdLeased,
			"truncate": cmdTruncate,

			"activated":   cmdActivated,
			"notified":    cmdNotified,
			"certificate": cmdCertificate,
			"arrived":     cmdArrived,
			"stopping":    cmdStopping,
		},
	})
}

// scriptStage is what one script has running.
type scriptStage struct {
	proxy    *process
	upstream *backend
	answer   chan string // to the request in the background
	leased   chan string // the same, to one for a lease
	notified net.PacketConn
}

type stageKey struct{}

func stageOf(ts *testscript.TestScript) *scriptStage { return ts.Value(stageKey{}).(*scriptStage) }

// usage fails a script whose command is called the wrong way.
func usage(ts *testscript.TestScript, bad bool, how string) {
	if bad {
		ts.Fatalf("usage: %s", how)
	}
}

// exits CODE COMMAND… runs a command that must end with that code.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg || len(args) < 2, "exits CODE COMMAND [ARG…]")
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit := (*exec.ExitError)(nil)
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

var elapsed = regexp.MustCompile(`(?m)^ *\d+\.\d(s  )`)

// timeless FILE TO copies the demo's output without the times in its first
// column.
func cmdTimeless(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg || len(args) != 2, "timeless FILE TO")
	text := elapsed.ReplaceAllString(ts.ReadFile(args[0]), "  _._$1")
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o600))
}

// truncate FILE SIZE cuts a file.
func cmdTruncate(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg || len(args) != 2, "truncate FILE SIZE")
	size, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	if info.Size() <= size {
		ts.Check(fmt.Errorf("%s has %d bytes only", args[0], info.Size()))
	}
	ts.Check(os.Truncate(ts.MkAbs(args[0]), size))
}
