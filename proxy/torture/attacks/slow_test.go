package attacks

import (
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore/servertest"
)

// Slow clients, as slowhttptest plays them, sixty of each kind at once:
// heads that never end, bodies that never end, answers that are not read, and
// ranges without number. The proxy ends them, each by the timeout that is its
// own, and others are served meanwhile.
func TestSlowClients(t *testing.T) {
	slowhttptest := servertest.Find(t, "slowhttptest", "slowhttptest")
	a := newAPI(t)
	p := newProxy(t, "http://"+a.addr, plain+`
  - {name: drafts, path: "/drafts/{id}", key: "draft:{id}", token: optional}
listen: {address: ADDRESS, header_timeout: 3s, idle_timeout: 3s}
`)
	w := watch(t, p, a, false)
	var wg sync.WaitGroup
	run := func(args string) string {
		all := strings.Fields(strings.ReplaceAll(args, "ADDRESS", p.Addr) + " -c 60 -r 200 -v 1")
		out, err := exec.Command(slowhttptest, all...).CombinedOutput()
		if err != nil {
			t.Errorf("slowhttptest %s: %v", args, err)
		}
		return colour.ReplaceAllString(string(out), "")
	}
	// slowhttptest ends by itself when none of its connections is open any more.
	for name, args := range map[string]string{
		"heads":  "-H -i 30 -l 20 -t PUT -u http://ADDRESS/things/1",
		"bodies": "-B -i 30 -l 20 -t PUT -s 100000 -u http://ADDRESS/drafts/1",
		"ranges": "-R -l 20 -t GET -u http://ADDRESS/open/1",
	} {
		wg.Go(func() {
			if says := run(args); !strings.Contains(says, "No open connections left") {
				t.Errorf("%s: slowhttptest still has connections open:\n%s", name, tail(says))
			}
		})
	}
	// It does not notice that the kernel has ended a connection from which it does
	// not read: the API is asked, whose answers the proxy then gives up.
	wg.Go(func() {
		over := make(chan struct{})
		go func() { defer close(over); run("-X -n 30 -l 12 -w 1 -y 512 -z 5 -u http://ADDRESS/open/large") }()
		for most, served := int64(0), a.larges.Load(); most < 40 || served > 0; served = a.larges.Load() {
			most = max(most, served)
			select {
			case <-over:
				t.Errorf("of %d answers that nobody reads %d are still held at the end", most, served)
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
		<-over
	})
	wg.Wait()
	w.end(100 * megabyte)
}

var colour = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]")

func tail(s string) string { return s[max(0, len(s)-1500):] }
