package demo

import (
	"context"
	"fmt"
)

// playUnfenced is act 1: A writes after its pause, and B's edit is lost.
func playUnfenced(ctx context.Context, s *stage) error {
	return playPaused(ctx, s, "204", "wakes up (SIGCONT) and writes: told 204", edit("A"))
}

// playFenced is act 2: A's write is refused, and B's edit is kept.
func playFenced(ctx context.Context, s *stage) error {
	return playPaused(ctx, s, "409 stale-token", "wakes up (SIGCONT) and writes: told 409 stale-token", edit("B"))
}

// playPaused is the story that acts 1 and 2 share. They differ in the answer
// to A's late write, and in what the file holds in the end.
func playPaused(ctx context.Context, s *stage, lateAnswer, lateText, ending string) error {
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
	s.tells(a, "sees that its lease is good, and is about to write")

	// A reads the line only after its pause, but it is there before: as soon
	// as A wakes up, it goes on.
	if err := a.stop(); err != nil {
		return err
	}
	if err := a.write(); err != nil {
		return err
	}
	s.tells(a, "is paused right there (SIGSTOP), as by a long GC pause")

	if err := s.waits(ctx, b); err != nil {
		return err
	}
	if err := s.expires(ctx, a, "its lease runs out, and it cannot notice"); err != nil {
		return err
	}
	if err := s.leases(ctx, b, "2"); err != nil {
		return err
	}
	if err := s.writes(ctx, b, "204", "writes: told 204, its edit is saved"); err != nil {
		return err
	}

	if err := a.wake(); err != nil {
		return err
	}
	if _, err := a.says(ctx, saidWriting); err != nil {
		return err
	}
	if err := s.answered(ctx, a, lateAnswer, lateText); err != nil {
		return err
	}
	return s.ending(ending)
}

// leases follows a worker through its lease, its reading, and its look at the
// lease: up to the point right before its write.
func (s *stage) leases(ctx context.Context, a *actor, token string) error {
	got, err := a.says(ctx, saidLease)
	if err != nil {
		return err
	}
	if got != token {
		return fmt.Errorf("worker %s should get token %s, and got %s", a.name, token, got)
	}
	a.token = token
	if got, err = a.says(ctx, saidRead); err != nil {
		return err
	}
	if got != draft {
		return fmt.Errorf("worker %s should read %q, and read %q", a.name, draft, got)
	}
	s.tells(a, "takes the lease, and reads the file")
	_, err = a.says(ctx, saidReady)
	return err
}

// waits lets a worker begin that finds the lease taken.
func (s *stage) waits(ctx context.Context, b *actor) error {
	if err := b.write(); err != nil {
		return err
	}
	if _, err := b.says(ctx, saidWaits); err != nil {
		return err
	}
	s.tells(b, "asks for the lease, and has to wait")
	return nil
}

// expires waits for the end of a's lease.
func (s *stage) expires(ctx context.Context, a *actor, what string) error {
	if err := s.lock.over(ctx); err != nil {
		return err
	}
	s.tells(a, what)
	return nil
}

// sends lets a worker write.
func (s *stage) sends(ctx context.Context, a *actor) error {
	if err := a.write(); err != nil {
		return err
	}
	_, err := a.says(ctx, saidWriting)
	return err
}

// writes lets a worker write, and waits for its answer.
func (s *stage) writes(ctx context.Context, a *actor, want, what string) error {
	if err := s.sends(ctx, a); err != nil {
		return err
	}
	return s.answered(ctx, a, want, what)
}

// answered waits for the answer to a worker's write.
func (s *stage) answered(ctx context.Context, a *actor, want, what string) error {
	if err := s.hears(ctx, a, want); err != nil {
		return err
	}
	s.tells(a, what)
	return nil
}

// hears is answered without a line in the timeline.
func (s *stage) hears(ctx context.Context, a *actor, want string) error {
	got, err := a.says(ctx, saidAnswer)
	if err == nil && got != want {
		err = fmt.Errorf("worker %s should be answered %s, and was answered %s", a.name, want, got)
	}
	return err
}
