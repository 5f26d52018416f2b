package torture

import (
	"bytes"
	"fmt"
	"net/http"
)

// answer writes the plan's answer in its pieces. The end is recorded before
// the last bytes leave: the proxy may act on them at once, and what it then
// sends must not come first in the history. It reports whether the connection
// can take another request.
func (v *visit) answer(broken bool) bool {
	if v.w != nil {
		return v.answerH2(broken)
	}
	p := v.plan
	last := p.KeepOff || p.Refuse || p.Late > 0
	status := p.status()
	parts := split(p.Size, p.Pieces)
	var out bytes.Buffer
	fmt.Fprintf(&out, "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\n", status, http.StatusText(status))
	if last {
		out.WriteString("Connection: close\r\n")
	}
	if p.Pieces > 1 {
		out.WriteString("Transfer-Encoding: chunked\r\n\r\n")
	} else {
		fmt.Fprintf(&out, "Content-Length: %d\r\n\r\n", p.Size)
	}
	for i, n := range parts {
		if i > 0 && !v.b.sleep(p.Pause) {
			return false
		}
		if p.Pieces > 1 {
			fmt.Fprintf(&out, "%x\r\n", n)
		}
		out.Write(bytes.Repeat([]byte{'a'}, n))
		if p.Pieces > 1 {
			out.WriteString("\r\n")
		}
		if i < len(parts)-1 {
			if !v.write(&out, out.Len()) {
				return false
			}
		}
	}
	if p.Pieces > 1 {
		out.WriteString("0\r\n\r\n")
	}
	if !v.write(&out, out.Len()-1) { // all but the last byte
		return false
	}
	if broken {
		v.reset()
		return false
	}
	if !v.end(Respond, uint16(status)) {
		return false
	}
	return v.write(&out, out.Len()) && !last
}

func (v *visit) write(out *bytes.Buffer, n int) bool {
	_, err := v.c.Write(out.Next(n))
	return err == nil
}

// split shares size bytes out over n pieces, none of them empty.
func split(size, n int) []int {
	if n <= 1 {
		return []int{size}
	}
	parts := make([]int, 0, n)
	for i := range n {
		parts = append(parts, max(1, size/n))
		if i == n-1 {
			parts[i] = max(1, size-size/n*(n-1))
		}
	}
	return parts
}
