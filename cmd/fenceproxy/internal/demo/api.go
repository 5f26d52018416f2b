package demo

import (
	"fmt"
	"io"
	"net/http"
	"sync"
)

// maxContent bounds what API keeps under one path, in bytes.
const maxContent = 1 << 20

// API is a legacy API to try the proxy on: it keeps what is PUT under a path
// until it is DELETEd, in memory, in the order in which it comes, and has
// never heard of tokens.
func API() http.Handler {
	var mu sync.Mutex
	contents := map[string][]byte{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxContent))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		switch kept, ok := contents[r.URL.Path]; {
		case r.Method == http.MethodPut:
			contents[r.URL.Path] = content
			fmt.Fprintln(w, "saved")
		case !ok:
			http.NotFound(w, r)
		case r.Method == http.MethodGet || r.Method == http.MethodHead:
			_, _ = w.Write(append(kept, '\n'))
		case r.Method == http.MethodDelete:
			delete(contents, r.URL.Path)
			fmt.Fprintln(w, "deleted")
		default:
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
	})
}
