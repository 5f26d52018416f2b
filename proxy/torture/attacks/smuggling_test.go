package attacks

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// backends are the servers that judge, by name. Each starts one, with its
// record in a file.
var backends = map[string]func(t *testing.T, dir string) (addr string){
	"nginx": startNginx,
	"node": func(t *testing.T, dir string) string {
		return script(t, "node", "nodejs", "testdata/node.js", filepath.Join(dir, "seen"), "strict")
	},
	"lenient node": func(t *testing.T, dir string) string {
		return script(t, "node", "nodejs", "testdata/node.js", filepath.Join(dir, "seen"), "lenient")
	},
	"wsgi": func(t *testing.T, dir string) string {
		return script(t, "python3", "python3", "testdata/wsgi.py", filepath.Join(dir, "seen"))
	},
}

// logged are settings under which the proxy tells of every request.
const logged = plain + `
listen: {address: ADDRESS, header_timeout: 1s, idle_timeout: 1s}
log: {level: debug, access: true}
`

// Request smuggling: whatever bytes come in, the server behind the proxy sees
// the requests that the fence saw, and no other.
func TestSmuggling(t *testing.T) {
	for name, backend := range backends {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait more than they work
			dir := t.TempDir()
			addr := backend(t, dir)
			settings := logged
			if name == "lenient node" {
				settings += "limits: {max_body_buffer: 0}\n" // no body is read ahead
			}
			p := newProxy(t, "http://"+addr, settings)
			attacks := append(catalogue(), unfenced()...)
			// It hangs up by itself behind a second, but where a body has not come to its
			// end. Who leaves before is not served, and a busy machine makes it late.
			strike(t, p.Addr, attacks, 6*time.Second)
			p.judged(t, filepath.Join(dir, "seen"), attacks)
		})
	}
}

// strike sends the attacks, a few at a time.
func strike(t *testing.T, addr string, attacks []attack, silence time.Duration) {
	work := make(chan int)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for i := range work {
				send(t, addr, strings.ReplaceAll(attacks[i].raw, "ID", id(i)), silence)
			}
		})
	}
	for i := range attacks {
		work <- i
	}
	close(work)
	wg.Wait()
}

// id is the name of an attack: of two bytes, since lengths count on it.
func id(i int) string { return fmt.Sprintf("%c%c", 'A'+i/26, 'A'+i%26) }

// send sends bytes on a connection of their own, and takes what comes until the
// proxy hangs up, or has said nothing for so long.
func send(t *testing.T, addr, raw string, silence time.Duration) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	_, _ = io.WriteString(c, raw) // it may be refused before its end
	for buf := make([]byte, 4096); ; {
		_ = c.SetReadDeadline(time.Now().Add(silence))
		if _, err := c.Read(buf); err != nil {
			return
		}
	}
}

// judged compares the records, once both have come to rest.
func (p *proxy) judged(t *testing.T, record string, attacks []attack) {
	t.Helper()
	p.quiet()
	var bad []string
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) { // either may be written behind the answers
		saw, says := lines[seen](t, record), p.says(t)
		bad = append(judge(says, saw), miscounted(attacks, says)...)
		if len(saw) < 10 || len(says) < len(attacks)/3 {
			bad = append(bad, fmt.Sprintf("%d requests were seen and %d told of, for %d attacks: this has shown little", len(saw), len(says), len(attacks)))
		}
		if len(bad) == 0 || time.Now().After(end) {
			break
		}
	}
	for _, b := range bad {
		t.Error(b)
	}
	p.raised(t, p.says(t))
}

// miscounted: each attack is forwarded as often as it should be.
func miscounted(attacks []attack, says []told) (bad []string) {
	for i, a := range attacks {
		n := 0
		for _, l := range says {
			if strings.HasSuffix(l.Target, id(i)) && certain[l.Decision] {
				n++
			}
		}
		if n != a.forwards && a.forwards >= 0 {
			bad = append(bad, fmt.Sprintf("%q: %d requests were forwarded, want %d", a.name, n, a.forwards))
		}
	}
	return bad
}

// raised: only what was let in has raised a key, and by its own token.
func (p *proxy) raised(t *testing.T, says []told) {
	t.Helper()
	tokens := map[string]bool{}
	for _, l := range says {
		if name, ok := strings.CutPrefix(l.Target, "/things/"); ok && (certain[l.Decision] || doubtful[l.Decision]) {
			tokens["thing:"+name+" "+l.Token] = true
		}
	}
	var list struct {
		Keys []struct{ Key, Highest string }
		Next string
	}
	if err := json.Unmarshal([]byte(p.admin("/v1/keys?limit=1000")), &list); err != nil || len(list.Keys) < 5 || list.Next != "" {
		t.Errorf("%d keys, next %q: %v", len(list.Keys), list.Next, err)
	}
	for _, k := range list.Keys {
		if !tokens[k.Key+" "+k.Highest] {
			t.Errorf("the key %s was raised to %s by what was not let in", k.Key, k.Highest)
		}
	}
}
