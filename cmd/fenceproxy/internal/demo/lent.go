package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"syscall"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// lentTime is how long the lease lives without renewal. At the pause up to a
// third of it is gone already, and B, whose lock has to start first, has to come
// before its end, on a slow machine too.
const lentTime = 5 * leaseTime

// What `fenceproxy lock` exits with.
const (
	lockDone = 0
	lockLost = 76
)

// playLent is act 4: the lease is fenceproxy's own, and its grant to B makes A's
// token stale, though B has not written yet.
func playLent(ctx context.Context, s *stage) error {
	a, err := s.runs(ctx, "A")
	if err != nil {
		return err
	}
	if err := s.starts(ctx, a); err != nil {
		return err
	}
	if err := s.leases(ctx, a, "1"); err != nil {
		return err
	}
	// Nobody renews the lease from here on.
	if err := a.stop(); err != nil {
		return err
	}
	if err := a.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	s.tells(a, "is paused before its write, and its lock with it (SIGSTOP)")

	b, err := s.runs(ctx, "B")
	if err != nil {
		return err
	}
	if err := s.queues(ctx, a); err != nil {
		return err
	}
	s.tells(b, "asks for the lease, and has to wait")
	if err := s.starts(ctx, b); err != nil {
		return err
	}
	s.tells(a, "its lease runs out, since nobody renews it")
	if err := s.leases(ctx, b, "2"); err != nil {
		return err
	}

	// The worker wakes up first, or its lock would end it before it could write.
	if err := a.write(); err != nil {
		return err
	}
	if err := a.signal(syscall.SIGCONT); err != nil {
		return err
	}
	if _, err := a.says(ctx, saidWriting); err != nil {
		return err
	}
	if err := s.answered(ctx, a, "409 stale-token", "wakes up (SIGCONT) and writes: told 409 stale-token"); err != nil {
		return err
	}
	if err := a.wake(); err != nil {
		return err
	}
	if err := a.exits(ctx, lockLost); err != nil {
		return err
	}
	s.tells(a, "its lock wakes up, and ends it for the lost lease: exit 76")

	if err := s.writes(ctx, b, "204", "writes: told 204, its edit is saved"); err != nil {
		return err
	}
	if err := b.write(); err != nil { // the line that it ends by
		return err
	}
	if err := b.exits(ctx, lockDone); err != nil {
		return err
	}
	s.tells(b, "is done, and its lock gives the lease back: exit 0")
	return s.ending(edit("B"))
}

// runs starts `fenceproxy lock`, which runs a worker once it has the lease.
func (s *stage) runs(ctx context.Context, name string) (*actor, error) {
	return s.cast(ctx, name, "lock", leaseKey, "--server", s.leasesURL, "--ttl", lentTime.String(), "--holder", name,
		"--", s.self, "demo", "worker", name, underLock, s.fileURL+"/file")
}

// starts waits until a's lock has the lease and has started its worker.
func (s *stage) starts(ctx context.Context, a *actor) error {
	id, err := a.says(ctx, saidProcess)
	if err == nil {
		a.worker, err = strconv.Atoi(id)
	}
	return err
}

// queues waits until somebody waits for a's lease.
func (s *stage) queues(ctx context.Context, a *actor) error {
	for {
		switch l, err := s.lease(ctx); {
		case err != nil:
			return err
		case l.Holder != a.name:
			return fmt.Errorf("the lease of worker %s ran out before another came; this machine is too slow for the demo", a.name)
		case l.Waiting > 0:
			return nil
		}
		if err := pause(ctx, pollTime); err != nil {
			return err
		}
	}
}

// lease asks who holds the lease.
func (s *stage) lease(ctx context.Context) (l wire.Lease, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.leasesURL+wire.LeasesPath+leaseKey, nil)
	if err != nil {
		return l, err
	}
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // no proxy of the environment
	resp, err := web.Do(req)
	if err != nil {
		return l, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return l, fmt.Errorf("asking who holds the lease: %s", resp.Status)
	}
	return l, json.NewDecoder(resp.Body).Decode(&l)
}

// signal sends a signal to the worker itself.
func (a *actor) signal(sig syscall.Signal) error {
	if err := syscall.Kill(a.worker, sig); err != nil {
		return fmt.Errorf("%v for worker %s: %w", sig, a.name, err)
	}
	return nil
}
