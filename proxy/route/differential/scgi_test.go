package differential

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
)

// scgiApplication is the application behind lighttpd: it answers with its
// environment, which is that of CGI, FastCGI, SCGI and PHP. It returns its
// port.
func scgiApplication(t *testing.T) (port string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { ln.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go serveSCGI(c)
		}
	}()
	return fmt.Sprint(ln.Addr().(*net.TCPAddr).Port)
}

// serveSCGI answers one request: a netstring of names and values, each with a
// NUL behind it.
func serveSCGI(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	var n int
	if _, err := fmt.Fscanf(r, "%d:", &n); err != nil || n < 0 || n > 1<<20 {
		return
	}
	head := make([]byte, n)
	if _, err := io.ReadFull(r, head); err != nil {
		return
	}
	words := strings.Split(string(head), "\x00")
	first, last := map[string]string{}, map[string]string{}
	for i := 0; i+1 < len(words); i += 2 {
		if _, known := first[words[i]]; !known {
			first[words[i]] = words[i+1]
		}
		last[words[i]] = words[i+1]
	}
	query, _ := url.ParseQuery(first["QUERY_STRING"])
	body := strings.Join([]string{
		"path=" + first["SCRIPT_NAME"] + first["PATH_INFO"],
		"id=" + query.Get("id"),
		"host=" + strings.ToLower(strings.TrimSuffix(first["HTTP_HOST"], ":80")),
		"token=" + first["HTTP_X_FENCING_TOKEN"],
		"last-token=" + last["HTTP_X_FENCING_TOKEN"],
		"box=" + first["HTTP_X_BOX"],
		"last-box=" + last["HTTP_X_BOX"],
	}, mark)
	fmt.Fprintf(c, "Status: 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}
