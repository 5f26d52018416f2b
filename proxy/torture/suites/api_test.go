package suites

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"
)

// large is what clients upload and download.
const large = 10 << 20

// patience is how long a client may take for one step on a machine that is
// busy.
const patience = 30 * time.Second

// api is the legacy API behind the proxy that the clients talk to.
type api struct {
	addr string
	next chan struct{} // each one lets the next part of an answer go
}

// newAPI starts it. A write is answered with the length and the sum of its
// body, but one to /things/full with 413 before its body is read.
func newAPI(t *testing.T) *api {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := &api{addr: l.Addr().String(), next: make(chan struct{}, 10)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /things/head", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "1234") })
	mux.HandleFunc("GET /things/parts", a.parts)
	mux.HandleFunc("GET /things/large", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(large))
		_, _ = w.Write(make([]byte, large))
	})
	mux.HandleFunc("PUT /things/full", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		_, _ = io.WriteString(w, "full")
	})
	mux.HandleFunc("/things/", func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		n, err := io.Copy(sum, r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		for name, values := range r.Trailer {
			w.Header()[http.TrailerPrefix+name] = values
		}
		_, _ = io.WriteString(w, told(n, sum.Sum(nil)))
	})
	srv := &http.Server{Handler: mux}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	return a
}

// told is the API's answer to a write.
func told(n int64, sum []byte) string { return fmt.Sprintf("%d:%s", n, hex.EncodeToString(sum[:4])) }

// parts answers in three parts, each when the test says so: that a client has
// the one before.
func (a *api) parts(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusOK)
	for _, part := range []string{"one", "two", "three"} {
		_ = http.NewResponseController(w).Flush()
		select {
		case <-a.next:
		case <-r.Context().Done():
			return
		}
		_, _ = io.WriteString(w, part)
	}
}

// content is a large body.
func content() []byte {
	b := make([]byte, 0, large)
	for len(b) < large {
		b = append(b, "0123456789abcdef"...)
	}
	return b
}

// toldOf is the API's answer to a write of b.
func toldOf(b []byte) string {
	sum := sha256.Sum256(b)
	return told(int64(len(b)), sum[:])
}
