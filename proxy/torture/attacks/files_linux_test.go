package attacks

import (
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Clients that open connections until the process may have no more files: who
// has a connection is refused what needs one to the API, and told that nothing
// was sent; the process lives on, and once they are gone all is as it was.
func TestNoFilesLeft(t *testing.T) {
	a := newAPI(t)
	p := newProxy(t, "http://"+a.addr, plain)
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	limit := unix.Rlimit{Cur: uint64(len(open)) + 20, Max: 4096}
	kept := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}, Timeout: patience}
	put := func(token string) (int, error) {
		req, err := http.NewRequest(http.MethodPut, "http://"+p.Addr+"/things/1", strings.NewReader("x"))
		if err != nil {
			return 0, err
		}
		req.Header.Set("X-Fencing-Token", token)
		res, err := kept.Do(req)
		if err != nil {
			return 0, err
		}
		defer res.Body.Close()
		return res.StatusCode, nil
	}
	if status, err := put("1"); status != http.StatusOK {
		t.Fatal(status, err)
	}
	if err := unix.Prlimit(p.PID(), unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	var conns []net.Conn
	for range 100 {
		c, err := net.Dial("tcp", p.Addr) // the kernel takes those that the process cannot
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	p.eventually("the limit is reached", func() bool {
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID()))
		return err == nil && uint64(len(open)) >= limit.Cur
	})
	// The connection to the API is kept for a second. Once it is closed, one of
	// those that wait outside takes its place.
	p.eventually("a write is refused", func() bool {
		time.Sleep(1500 * time.Millisecond)
		status, err := put("2")
		if err != nil || status != http.StatusOK && status != http.StatusBadGateway {
			t.Fatalf("%d %v", status, err)
		}
		return status == http.StatusBadGateway
	})
	for _, c := range conns {
		c.Close()
	}
	p.eventually("writes go on", func() bool { status, _ := put("3"); return status == http.StatusOK })
	select {
	case <-p.Exited():
		t.Fatal("the process has ended")
	default:
	}
	if got := p.admin("/v1/keys/thing:1"); !strings.Contains(got, `"highest":"3"`) {
		t.Error(got)
	}
	p.quiet()
}

// What the proxy keeps is for its own user alone, whatever the umask lets.
func TestStoreIsPrivate(t *testing.T) {
	before := unix.Umask(0)
	defer unix.Umask(before) // the process inherits it
	a := newAPI(t)
	p := newProxy(t, "http://"+a.addr, plain)
	if status, err := p.write("/things/1"); status != http.StatusOK {
		t.Fatal(status, err)
	}
	files := 0
	err := filepath.WalkDir(filepath.Join(p.dir, "store"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		files++
		if info, err := d.Info(); err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil || files < 3 {
		t.Errorf("%d files, %v", files, err)
	}
}
