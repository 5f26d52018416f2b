package listen

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore/servertest"
)

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(servertest.SocketDir(t), "s")
	o := Options{Address: "unix:" + path, SocketMode: 0o620}
	l, err := Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Perm() != 0o620 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := Listen(o); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a socket in use: %v", err)
	}
	if _, err := net.Dial("unix", path); err != nil {
		t.Errorf("after the second start: %v", err)
	}
	_ = l.Close()
	_ = l.Close()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file stays: %v", err)
	}
}

// A socket that a killed process left behind is replaced, what is no socket is
// not; the end takes no other process's file away.
func TestUnixSocketIsThereAlready(t *testing.T) {
	path := filepath.Join(servertest.SocketDir(t), "s")
	o := Options{Address: "unix:" + path, SocketMode: 0o660}
	dead, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = dead.Close()
	l, err := Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	write(t, path, []byte("mine"))
	_ = l.Close()
	if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := Listen(o); err == nil {
		t.Error("a plain file was replaced")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
		t.Errorf("%q, %v", text, err)
	}
}
