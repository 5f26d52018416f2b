package attacks

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// naive is a proxy with the faults of many: it ends a body where Content-Length
// says, and takes the headers off that Connection names, whatever they are. It
// checks tokens well.
type naive struct {
	mu   sync.Mutex
	says []told
}

// serve forwards what comes on c over one connection.
func (n *naive) serve(c net.Conn, upstream string) {
	defer c.Close()
	up, err := net.Dial("tcp", upstream)
	if err != nil {
		return
	}
	defer up.Close()
	br, answers := bufio.NewReader(c), bufio.NewReader(up)
	for {
		head, err := readUntilEmptyLine(br)
		if err != nil {
			return
		}
		lines := strings.Split(strings.TrimRight(head, "\r\n"), "\r\n")
		request := strings.Fields(lines[0])
		if len(request) != 3 {
			return
		}
		var token, nominated string
		length := 0
		for _, line := range lines[1:] {
			name, value, _ := strings.Cut(line, ":")
			value = strings.TrimSpace(value)
			switch strings.ToLower(name) {
			case "content-length":
				if length, err = strconv.Atoi(value); err != nil || length < 0 || length > 1<<20 {
					return
				}
			case "x-fencing-token":
				token = value
			case "connection":
				nominated += "," + strings.ToLower(value)
			}
		}
		body := make([]byte, length)
		if _, err := io.ReadFull(br, body); err != nil {
			return
		}
		if fencedWrite(request[0], request[1]) && token == "" {
			_, _ = io.WriteString(c, "HTTP/1.1 428 No\r\nContent-Length: 0\r\n\r\n")
			continue
		}
		n.mu.Lock()
		n.says = append(n.says, told{Msg: "request", Method: request[0], Target: request[1], Token: token, Decision: "admitted", Status: 200})
		n.mu.Unlock()
		var out bytes.Buffer
		out.WriteString(lines[0] + "\r\n")
		for _, line := range lines[1:] {
			if name, _, _ := strings.Cut(line, ":"); !strings.Contains(nominated, strings.ToLower(name)) {
				out.WriteString(line + "\r\n")
			}
		}
		fmt.Fprintf(&out, "\r\n%s", body)
		if _, err := up.Write(out.Bytes()); err != nil {
			return
		}
		_ = up.SetReadDeadline(time.Now().Add(time.Second))
		res, err := http.ReadResponse(answers, &http.Request{Method: request[0]})
		if err != nil || res.Write(c) != nil {
			return
		}
	}
}

func readUntilEmptyLine(br *bufio.Reader) (string, error) {
	var head strings.Builder
	for {
		line, err := br.ReadString('\n')
		head.WriteString(line)
		if err != nil || head.Len() > 64<<10 {
			return "", io.ErrUnexpectedEOF
		}
		if line == "\r\n" {
			return head.String(), nil
		}
	}
}

// The judge catches a proxy that can be smuggled past, on each backend that
// keeps connections: or it would find nothing in ours either.
func TestJudgeOfSmuggling(t *testing.T) {
	for _, name := range []string{"nginx", "node", "lenient node"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			addr := backends[name](t, dir)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			n := &naive{}
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					go n.serve(c, addr)
				}
			}()
			strike(t, l.Addr().String(), catalogue(), 2*time.Second) // longer than it waits
			var bad []string
			past := 0
			for end := time.Now().Add(patience); past == 0 && time.Now().Before(end); time.Sleep(50 * time.Millisecond) { // the record may be late
				n.mu.Lock()
				bad = judge(n.says, lines[seen](t, filepath.Join(dir, "seen")))
				n.mu.Unlock()
				for _, b := range bad {
					if strings.Contains(b, "DELETE /things/") { // the naked write
						past++
					}
				}
			}
			t.Logf("%d findings, of which %d are writes past the fence", len(bad), past)
			if past == 0 {
				t.Error("no write that was smuggled past the naive proxy was noticed")
			}
		})
	}
}

// What the judge says of single cases.
func TestJudge(t *testing.T) {
	put := told{Method: "PUT", Target: "/things/1", Token: "7", Decision: "admitted"}
	with := func(l told, decision string) told { l.Decision = decision; return l }
	saw := seen{Method: "PUT", Target: "/things/1", Token: "7", Status: 200}
	token := func(s seen, token string) seen { s.Token = token; return s }
	for name, tt := range map[string]struct {
		says []told
		saw  []seen
		bad  int
	}{
		"as told":                  {[]told{put}, []seen{saw}, 0},
		"twice":                    {[]told{put}, []seen{saw, saw}, 1},
		"not at all":               {[]told{put}, nil, 1},
		"refused, and seen":        {[]told{with(put, "stale-token")}, []seen{saw}, 1},
		"perhaps, and seen":        {[]told{with(put, "outcome-unknown")}, []seen{saw}, 0},
		"perhaps, and not seen":    {[]told{with(put, "outcome-unknown")}, nil, 0},
		"with another token":       {[]told{put}, []seen{token(saw, "8")}, 2},
		"without its token":        {[]told{put}, []seen{token(saw, "")}, 2},
		"with two":                 {[]told{put}, []seen{token(saw, "7 & 8")}, 2},
		"a read with any":          {[]told{{Method: "GET", Target: "/things/1", Decision: "passed"}}, []seen{{Method: "GET", Target: "/things/1", Token: "9", Status: 200}}, 0},
		"the origin-form of a URL": {[]told{{Method: "GET", Target: "http://b/things/1", Decision: "passed"}}, []seen{{Method: "GET", Target: "/things/1", Status: 200}}, 0},
		"no request":               {nil, []seen{{Line: "x", Status: 400}}, 1},
		"passed without a token":   {[]told{{Method: "PUT", Target: "/things/1", Decision: "passed"}}, []seen{token(saw, "")}, 1},
	} {
		if bad := judge(tt.says, tt.saw); len(bad) != tt.bad {
			t.Errorf("%s: %q, want %d", name, bad, tt.bad)
		}
	}
}
