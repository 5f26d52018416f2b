package demo

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// draft is what the file holds before anybody wrote.
const draft = "draft"

// file is the legacy API: GET and PUT of one file. It applies whatever comes,
// in the order in which it comes, and has never heard of tokens.
type file struct {
	mu      sync.Mutex
	content string
	events  chan event    // sent under mu, so in the order of their time
	slow    chan struct{} // when not nil, the next write waits until it is closed
}

// event is a write that reached the API, or that it has applied.
type event struct {
	content string
	landed  bool
}

func (e event) String() string {
	if e.landed {
		return fmt.Sprintf("the write of %q landed", e.content)
	}
	return fmt.Sprintf("the write of %q arrived", e.content)
}

// mostWrites is more than any act makes.
const mostWrites = 16

func newFile() *file {
	return &file{content: draft, events: make(chan event, 2*mostWrites)}
}

// holds is what a reader would get now.
func (f *file) holds() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.content
}

// stall makes the next write hang inside the API until release is called.
func (f *file) stall() (release func()) {
	slow := make(chan struct{})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slow = slow
	return sync.OnceFunc(func() { close(slow) })
}

// next is the next event, in order.
func (f *file) next(ctx context.Context) (event, error) {
	select {
	case e := <-f.events:
		return e, nil
	case <-ctx.Done():
		return event{}, context.Cause(ctx)
	}
}

func (f *file) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		_, _ = io.WriteString(w, f.holds())
	case http.MethodPut:
		content, err := io.ReadAll(io.LimitReader(r.Body, 1<<10))
		if err != nil {
			http.Error(w, "the body did not come in full", http.StatusBadRequest)
			return
		}
		f.write(string(content))
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (f *file) write(content string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events <- event{content, false}
	if slow := f.slow; slow != nil {
		f.slow = nil
		f.mu.Unlock()
		<-slow
		f.mu.Lock()
	}
	f.content = content
	f.events <- event{content, true}
}
