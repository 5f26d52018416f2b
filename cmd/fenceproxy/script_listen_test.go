package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// activated ARG… does as systemd does: it listens, and starts `fenceproxy serve
// ARG…` with the socket. $SOCKET is its address, and notified tells what comes
// back.
func cmdActivated(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg || len(args) == 0, "activated ARG… (of serve)")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	defer l.Close()
	ts.Setenv("SOCKET", l.Addr().String())
	file, err := l.(*net.TCPListener).File()
	ts.Check(err)
	defer file.Close()
	stage := stageOf(ts)
	notify := filepath.Join(ts.Getenv("SOCKETS"), "notify")
	stage.notified, err = net.ListenPacket("unixgram", notify)
	ts.Check(err)
	ts.Defer(func() { _ = stage.notified.Close() })
	// The socket is for one process alone, which has to name itself.
	cmd := exec.Command("sh", append([]string{"-c", `LISTEN_PID=$$ exec fenceproxy serve "$@"`, "sh"}, args...)...)
	cmd.Env = []string{"LISTEN_FDS=1", "NOTIFY_SOCKET=" + notify}
	cmd.ExtraFiles = []*os.File{file}
	startProxy(ts, cmd)
}

// notified STATE waits for what the proxy tells systemd next.
func cmdNotified(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg || len(args) != 1, "notified STATE")
	c := stageOf(ts).notified
	ts.Check(c.SetReadDeadline(time.Now().Add(scriptPatience)))
	buf := make([]byte, 1000)
	n, _, err := c.ReadFrom(buf)
	ts.Check(err)
	if got := string(buf[:n]); got != args[0] {
		ts.Fatalf("systemd is told %q, want %q", got, args[0])
	}
}

// certificate NAME [VALID] writes NAME.crt and NAME.key, a certificate for
// 127.0.0.1 that has signed itself.
func cmdCertificate(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg || len(args) < 1 || len(args) > 2, "certificate NAME [VALID]")
	valid := time.Hour
	if len(args) == 2 {
		var err error
		valid, err = time.ParseDuration(args[1])
		ts.Check(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: args[0]},
		NotAfter: time.Now().Add(valid), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	ts.Check(err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	ts.Check(err)
	for name, block := range map[string]*pem.Block{"crt": {Type: "CERTIFICATE", Bytes: der}, "key": {Type: "PRIVATE KEY", Bytes: secret}} {
		ts.Check(os.WriteFile(ts.MkAbs(args[0]+"."+name), pem.EncodeToMemory(block), 0o600))
	}
}

// arrived waits until a request below /slow/ is at the upstream.
func cmdArrived(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg || len(args) != 0, "arrived")
	select {
	case <-stageOf(ts).upstream.arrived:
	case <-time.After(scriptPatience):
		ts.Fatalf("nothing reached the upstream within %v", scriptPatience)
	}
}

// stopping sends TERM to the proxy and waits until it is on its way down.
func cmdStopping(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg || len(args) != 0, "stopping")
	p := stageOf(ts).proxy
	ts.Check(p.cmd.Process.Signal(syscall.SIGTERM))
	for end := time.Now().Add(scriptPatience); !strings.Contains(p.text(), `"msg":"stopping"`); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) || p.over() {
			ts.Fatalf("the proxy does not say that it stops")
		}
	}
}
