package demo

import (
	"context"
	"fmt"
	"time"
)

// holdTime is for how long B's write is seen to be held back. A proxy that
// does not hold it has long sent it by then, but on a machine that stands still:
// the tests of such proxies take longer.
var holdTime = 400 * time.Millisecond

// playInFlight is act 3: A's write has passed the fence and hangs in the API
// when B comes. B's write is not sent before A's is over.
func playInFlight(ctx context.Context, s *stage) error {
	release := s.file.stall()
	defer release()
	a, b, err := s.enter(ctx)
	if err != nil {
		return err
	}
	if err := a.write(); err != nil { // the line that it begins by
		return err
	}
	if err := s.leases(ctx, a, "1"); err != nil {
		return err
	}
	if err := s.sends(ctx, a); err != nil {
		return err
	}
	if err := s.happens(ctx, event{edit("A"), false}); err != nil {
		return err
	}
	s.tells(a, "writes: passes the fence, and hangs in the API, slow today")

	if err := s.waits(ctx, b); err != nil {
		return err
	}
	if err := s.expires(ctx, a, "its lease runs out; its write is past every check"); err != nil {
		return err
	}
	if err := s.leases(ctx, b, "2"); err != nil {
		return err
	}
	if err := s.sends(ctx, b); err != nil {
		return err
	}
	if err := s.nothing(ctx, holdTime); err != nil {
		return fmt.Errorf("the write of worker B should wait until A's is over: %w", err)
	}
	s.tells(b, "writes: fenceproxy holds it back, for A's is not over")

	release()
	if err := s.happens(ctx, event{edit("A"), true}); err != nil {
		return err
	}
	if err := s.hears(ctx, a, "204"); err != nil {
		return err
	}
	s.tellsThen(a, "its write lands at last: told 204", edit("A"))
	// What the API saw, in its order: B's write came after A's had landed. So
	// did the answer to it, which is the API's own.
	if err := s.happens(ctx, event{edit("B"), false}, event{edit("B"), true}); err != nil {
		return err
	}
	if err := s.hears(ctx, b, "204"); err != nil {
		return err
	}
	s.tells(b, "only now its write is sent, and lands: told 204")
	return s.ending(edit("B"))
}

// happens waits for events at the API, which must be the next there.
func (s *stage) happens(ctx context.Context, events ...event) error {
	for _, want := range events {
		got, err := s.file.next(ctx)
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("at the API, %v should be next, and it was %v", want, got)
		}
	}
	return nil
}

// nothing is an error where anything happens at the API within d.
func (s *stage) nothing(ctx context.Context, d time.Duration) error {
	within, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	switch got, err := s.file.next(within); {
	case err == nil:
		return fmt.Errorf("at the API, %v", got)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return nil
}
