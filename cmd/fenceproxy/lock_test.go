package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The exit codes, and what is said. Who has no command to run asks no server.
func TestLockExitCodes(t *testing.T) {
	server, url := leaseServer(t)
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		args  string
		code  int
		says  string
		posts int
	}{
		{"k -- true", 0, "", 1},
		{"k -- sh -c exit\t3", 3, "", 1},
		{"k -- sh -c kill\t-9\t$$", 137, "", 1},
		{"k -- sh -c kill\t-TERM\t$$", 143, "", 1},
		{"k -- no-such-command", 127, "not found", 0},
		{"k -- ./no-such-command", 127, "no such file", 0},
		{"k -- " + script, 126, "permission denied", 0},
		{"k true", 2, "lock needs -- before the command", 0},
		{"-- true", 2, "lock takes one key before the --", 0},
		{"a b -- true", 2, "lock takes one key before the --", 0},
		{"k --", 2, "lock needs a command behind the --", 0},
		{"k --ttl 0s -- true", 2, "--ttl must be above 0s", 0},
		{"k --ttl soon -- true", 2, "--ttl", 0},
		{"k --token-file nowhere -- true", 2, "--token-file: stat nowhere", 0},
		{"k --token-file " + empty + " -- true", 2, "holds a token of 0 bytes", 0},
		{"k --cert-file x -- true", 2, "need each other", 0},
		{"k --ca-file " + script + " -- true", 2, "no certificate in PEM form", 0},
		{"k --server nowhere -- true", 2, `"nowhere" is no URL of a lease server`, 0},
		{"k --server http://127.0.0.1:1 --wait 0s -- true", 69, "is --server the address of leases.address", 0},
	} {
		before := server.Asked(http.MethodPost)
		args := strings.Split(row.args, " ")
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "\t", " ")
		}
		l := startLock(t, url, args...)
		if row.says == "" {
			l.exits(row.code)
		} else {
			l.exits(row.code, "fenceproxy: ", row.says)
		}
		if n := server.Asked(http.MethodPost) - before; n != row.posts {
			t.Errorf("%s: the server was asked %d times, want %d", row.args, n, row.posts)
		}
		if server.Held("k").ID != "" {
			t.Errorf("%s: the lease is still held", row.args)
			server.Lose("k")
		}
	}
	server.Refuse(http.StatusForbidden)
	startLock(t, url, "k", "--", "true").exits(2, "403")
	server.Refuse(http.StatusServiceUnavailable)
	startLock(t, url, "k", "--wait", "0s", "--", "true").exits(69, "503")
}

// The command has our standard files and environment, the token and the key.
func TestLockCommand(t *testing.T) {
	server, url := leaseServer(t)
	server.Bearer = "0123456789abcdef"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	startLock(t, url, "a/b", "--", "true").exits(2, "answers 401", "; --token-file must name a copy of the server's leases.token_file")
	t.Setenv("FENCEPROXY_HOLDER", "worker A")
	t.Setenv("FENCEPROXY_TTL", "7s")
	t.Setenv("FENCING_TOKEN", "99") // of a lock around this one
	l := startLock(t, url, "a/b", "--token-file", file, "--", "sh", "-c", `echo "$FENCING_TOKEN $FENCING_KEY"; cat; env | grep -c id-; echo warning >&2`)
	if got := l.line(); got != "1 a/b" {
		t.Error(got)
	}
	if h := server.Held("a/b"); h.Holder != "worker A" || time.Duration(h.ExpiresIn) != 7*time.Second {
		t.Errorf("%+v", h)
	}
	_, _ = io.WriteString(l.stdin, "from stdin\n")
	_ = l.stdin.Close()
	if got := l.rest(); got != "from stdin\n0\n" { // the lease's secret is not for the command
		t.Errorf("%q", got)
	}
	l.exits(0, "warning\n")
}

func TestLockHeld(t *testing.T) {
	_, url := leaseServer(t)
	first := startLock(t, url, "k", "--holder", "first", "--", "sh", "-c", "echo go; read x")
	first.line()
	startLock(t, url, "k", "--wait", "0s", "--", "echo", "never").exits(75, `lease of k: "first" holds it with token 1`)
	second := startLock(t, url, "k", "--", "sh", "-c", "echo $FENCING_TOKEN")
	_ = first.stdin.Close()
	first.exits(1)
	if got := second.line(); got != "2" {
		t.Error(got)
	}
	second.exits(0)
}

// SIGTERM while waiting: nothing is started, and nothing stays held.
func TestLockStoppedWhileWaiting(t *testing.T) {
	server, url := leaseServer(t)
	first := startLock(t, url, "k", "--", "sh", "-c", "echo go; read x")
	first.line()
	second := startLock(t, url, "k", "--", "echo", "never")
	for server.Asked(http.MethodPost) < 2 {
		time.Sleep(time.Millisecond)
	}
	second.signal(syscall.SIGTERM)
	second.exits(143, "before the command was started")
	if got := second.rest(); got != "" {
		t.Error(got)
	}
	_ = first.stdin.Close()
	first.exits(1)
}

// The command and all of its group end with the lease: by SIGTERM, and by
// SIGKILL where they do not want to.
func TestLockLost(t *testing.T) {
	for _, row := range []struct{ name, grace, script, last string }{
		{"ends", "30s", `trap "echo ended; exit 5" TERM; echo go; while :; do sleep 0.01; done`, "ended\n"},
		{"ignores SIGTERM", "500ms", `trap "" TERM; echo go; while :; do sleep 0.01; done`, ""},
		{"leaves one that ignores it", "500ms", `(trap "" TERM; while :; do sleep 0.01; done) & echo go; read x`, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			server, url := leaseServer(t)
			l := startLock(t, url, "k", "--ttl", "3s", "--grace", row.grace, "--", "sh", "-c", row.script)
			l.line()
			server.Lose("k")
			if got := l.rest(); got != row.last { // it ends when all of them have
				t.Errorf("%q", got)
			}
			l.exits(76, "the lease is lost: ", "ending the command")
		})
	}
}

// Nobody has to read what is said for the command to be ended: a pager that
// stands still would let it go on beside the next holder for ever.
func TestLockLostUnread(t *testing.T) {
	server, url := leaseServer(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	_ = w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	for err == nil {
		_, err = w.Write(make([]byte, 4096)) // until it is full
	}
	l := startLockTo(t, w, url, "k", "--ttl", "3s", "--grace", "500ms", "--", "sh", "-c", `trap "" TERM; echo go; while :; do sleep 0.01; done`)
	l.line()
	server.Lose("k")
	if got := l.rest(); got != "" { // it ends when all of them have
		t.Errorf("%q", got)
	}
	l.exits(76)
}

// Nor does a reader that is gone end the lock by what it says (SIGPIPE): the
// command would be killed without its time to clean up, and its children go on
// beside the next holder.
func TestLockLostBrokenPipe(t *testing.T) {
	server, url := leaseServer(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	defer w.Close()
	l := startLockTo(t, w, url, "k", "--ttl", "3s", "--grace", "500ms", "--", "sh", "-c", `(trap "" TERM; while :; do sleep 0.01; done) & echo go; read x`)
	l.line()
	server.Lose("k")
	if got := l.rest(); got != "" { // it ends when all of them have
		t.Errorf("%q", got)
	}
	l.exits(76)
}

// A server that cannot be reached is as good as a lost lease, when its time is
// over; a shorter outage is nothing.
func TestLockUnreachable(t *testing.T) {
	server, url := leaseServer(t)
	// Long enough for an attempt that fails to come before the end, also where the
	// machine stands still for a moment.
	l := startLock(t, url, "k", "--ttl", "6s", "--", "sh", "-c", "echo go; read x")
	l.line()
	server.Refuse(http.StatusServiceUnavailable)
	if got := l.rest(); got != "" {
		t.Errorf("%q", got)
	}
	l.exits(76, "refused as the test says; trying again", "not renewed within 6s")
}

// A lease that was lost without our noticing is told by its release.
func TestLockLostAtTheEnd(t *testing.T) {
	server, url := leaseServer(t)
	l := startLock(t, url, "k", "--", "sh", "-c", "echo go; read x; exit 0")
	l.line()
	server.Lose("k")
	_, _ = io.WriteString(l.stdin, "\n")
	l.exits(76, "the lease is lost", "not yours any more")
}

// Who slept through the end of the lease (here: was stopped) ends the command
// when he wakes up.
func TestLockPaused(t *testing.T) {
	server, url := leaseServer(t)
	l := startLock(t, url, "k", "--ttl", "2s", "--grace", "0s", "--", "sh", "-c", `trap "" TERM; echo go; while :; do sleep 0.01; done`)
	l.line()
	l.signal(syscall.SIGSTOP)
	for server.Held("k").ID != "" {
		time.Sleep(10 * time.Millisecond)
	}
	l.signal(syscall.SIGCONT)
	l.rest()
	l.exits(76, "not renewed within 2s")
}

func TestLockSignals(t *testing.T) {
	heedSignals(t)
	for _, s := range []struct {
		name string
		sig  syscall.Signal
	}{{"TERM", syscall.SIGTERM}, {"INT", syscall.SIGINT}, {"HUP", syscall.SIGHUP}, {"USR1", syscall.SIGUSR1}} {
		server, url := leaseServer(t)
		l := startLock(t, url, "k", "--", "sh", "-c", `trap "echo got; exit 4" `+s.name+`; echo go; while :; do :; done`) // a shell may miss a signal on its way into a read
		l.line()
		l.signal(s.sig)
		if got := l.rest(); got != "got\n" {
			t.Errorf("%s: %q", s.name, got)
		}
		l.exits(4)
		if server.Held("k").ID != "" {
			t.Errorf("%s: the lease is still held", s.name)
		}
	}
}
