package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
)

// stage is where one act is played, with a lock service, a file and a store
// of its own.
type stage struct {
	*timeline
	lock *lock
	file *file

	self             string
	lockURL, fileURL string         // fileURL leads through the fence, where there is one
	leasesURL        string         // of the fence, where it lends
	closers          []func() error // in the order of their making
}

// newStage raises the curtain. close must be called.
func newStage(ctx context.Context, a act, self string, f fencer, dir string, t *timeline) (_ *stage, err error) {
	s := &stage{timeline: t, lock: &lock{}, file: newFile(), self: self}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.lockURL, err = s.listen(s.lock); err != nil {
		return nil, err
	}
	if s.fileURL, err = s.listen(s.file); err != nil || !a.fenced {
		return s, err
	}
	data, err := os.MkdirTemp(dir, "store-")
	if err != nil {
		return nil, err
	}
	fence, err := f(ctx, self, s.fileURL, data, a.lends)
	if err != nil {
		return nil, err
	}
	s.fileURL, s.leasesURL = fence.url, fence.leases
	s.closers = append(s.closers, fence.stop)
	return s, nil
}

// listen serves h on a free loopback port.
func (s *stage) listen(h http.Handler) (url string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("the demo needs a loopback port: %w", err)
	}
	srv := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	s.closers = append(s.closers, func() error { err := srv.Close(); <-done; return err })
	return "http://" + l.Addr().String(), nil
}

// enter starts both workers. They are here before the first lease is: a process
// may take longer to start than a lease lasts.
func (s *stage) enter(ctx context.Context) (a, b *actor, err error) {
	for _, w := range []struct {
		name string
		who  **actor
	}{{"A", &a}, {"B", &b}} {
		if *w.who, err = s.cast(ctx, w.name, "demo", "worker", w.name, s.lockURL, s.fileURL+"/file"); err != nil {
			return nil, nil, err
		}
	}
	for _, w := range []*actor{a, b} {
		if _, err = w.says(ctx, saidHere); err != nil {
			return nil, nil, err
		}
	}
	return a, b, nil
}

func (s *stage) cast(ctx context.Context, name string, args ...string) (*actor, error) {
	a, err := cast(ctx, s.self, name, args...)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, func() error { a.end(); return nil })
	return a, nil
}

// close ends what was started, the last first.
func (s *stage) close() error {
	var errs []error
	for _, c := range slices.Backward(s.closers) {
		errs = append(errs, c())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// tells prints what a did, and what the file holds now.
func (s *stage) tells(a *actor, what string) { s.tellsThen(a, what, s.file.holds()) }

// tellsThen prints what a did, and what the file held then.
func (s *stage) tellsThen(a *actor, what, holds string) {
	s.row(row{who: a.name, token: a.token, what: what, holds: holds})
}

// ending is an error where the file does not hold what was promised.
func (s *stage) ending(want string) error {
	if got := s.file.holds(); got != want {
		return fmt.Errorf("the file should hold %q in the end, and holds %q", want, got)
	}
	return nil
}
