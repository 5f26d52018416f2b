package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A body that names the resource may be as long as limits.max_body_buffer, also one
// whose length is only known at its end, and where all bodies together may take no
// more than this one.
func TestBodyOfTheLongestSize(t *testing.T) {
	const most = 1 << 10
	r := newRig(t, func(o *Options, _ []Rule) { o.MaxBodyBuffer, o.MaxBuffered = most, most })
	r.api.serve = func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%d bytes", len(b))
	}
	names := `{"from":42,"to":8}`
	for token, size := range []int{len(names), most - 1, most, most + 1} {
		body := names + strings.Repeat(" ", size-len(names))
		want := fmt.Sprintf("200 %d bytes", size)
		if size > most {
			want = "413"
		}
		for name, client := range map[string]*http.Client{"HTTP/1.1": http.DefaultClient, "HTTP/2": r.clientHTTP2()} {
			for how, length := range map[string]int64{"declared": int64(size), "not declared": -1} {
				req := r.request("POST", "/transfer", fmt.Sprint(token), io.NopCloser(strings.NewReader(body)))
				req.Header.Set("X-Fencing-Token-To", fmt.Sprint(token))
				req.Header.Set("Content-Type", "application/json")
				req.ContentLength = length
				res, err := client.Do(req)
				if err != nil {
					t.Errorf("%s, %d bytes, %s: %v", name, size, how, err)
					continue
				}
				b, _ := io.ReadAll(res.Body)
				_ = res.Body.Close()
				r.eventually("its room is free again", func() bool { return r.handler.buffered.Load() == 0 })
				got := fmt.Sprintf("%d %s", res.StatusCode, b)
				if !strings.HasPrefix(got, want) {
					t.Errorf("%s, %d bytes, %s: %s, want %s", name, size, how, got, want)
				}
			}
		}
	}
}
