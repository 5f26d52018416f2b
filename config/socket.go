package config

import (
	"fmt"
	"path"
	"strings"
)

// Socket returns the path of an upstream that is a unix socket. The text is no
// URL: nothing in it is an escape.
func Socket(url string) (path string, ok bool) { return strings.CutPrefix(url, "unix:") }

// longestSocket is the longest path of a unix socket that every system takes.
const longestSocket = 100

func checkSocket(p string) *wrong {
	const right = "an absolute path, as in unix:/run/api.sock"
	switch {
	case !strings.HasPrefix(p, "/") || strings.HasSuffix(p, "/"):
		return &wrong{quote("unix:"+p) + " does not name a socket", right}
	case path.Clean(p) != p:
		return &wrong{quote("unix:"+p) + " is a roundabout path", "unix:" + path.Clean(p)}
	case len(p) > longestSocket:
		return &wrong{fmt.Sprintf("the path has %d bytes, and a unix socket's at most %d", len(p), longestSocket), right}
	}
	return nil
}
