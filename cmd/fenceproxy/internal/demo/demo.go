// Package demo is the story of the paused worker, told by real processes on
// loopback: first without a fence, then behind fenceproxy, then the part that is
// mostly left out, a write that is in flight already when the next holder comes,
// and last with leases that fenceproxy lends by itself.
//
// Each act has a lock service (lock.go; in the last act fenceproxy is it), a
// legacy API (file.go), two workers that are processes (worker.go is their side,
// actor.go the demo's), and from the second act on a fenceproxy (fence.go). The demo does not take its own
// word for the ending: an act that does not end as promised is an error.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Options of Run; all must be set.
type Options struct {
	// Out takes the timeline.
	Out io.Writer
	// Self is the path of the program that runs Worker for the arguments
	// `demo worker NAME LOCK FILE`, the proxy for `serve …`,
	// and a worker under a lease for `lock …`.
	Self string
}

// leaseTime is how long a lease lasts. A worker is done within milliseconds,
// so nothing but a pause makes it miss the end of its own; where all of the
// machine stood still, the lease is renewed.
const leaseTime = 800 * time.Millisecond

// patience is how long the whole demo may take on a machine that is busy.
const patience = time.Minute

// act is one part of the story.
type act struct {
	title  string
	fenced bool // behind fenceproxy
	lends  bool // which has the leases, too
	play   func(context.Context, *stage) error
	lesson []string // what it shows, printed when it ended as promised
}

var acts = []act{
	{"ACT 1: the workers talk to the API directly", false, false, playUnfenced, []string{
		"LOST: B was told that its edit is saved, and then A, long out of its lease, wrote over it."}},
	{"ACT 2: the same, with fenceproxy in front of the API", true, false, playFenced, []string{
		"KEPT: B's write told fenceproxy of token 2, so A's token 1 is stale and never reaches the API."}},
	{"ACT 3: fenceproxy again, but A's write is already inside a slow API when B comes", true, false, playInFlight, []string{
		"KEPT: A's write was past every check, so B's had to wait until it was over. The last word is B's.",
		"A proxy that checks and forwards lets B pass at once; then A's write lands, and B's edit is lost."}},
	{"ACT 4: fenceproxy lends the lease as well, and `fenceproxy lock` runs the workers under it", true, true, playLent, []string{
		"KEPT: the grant itself was the fence. A's token was stale before B had written anything.",
		"No other lock service is needed: fenceproxy lock KEY -- COMMAND"}},
}

const intro = `Workers A and B edit one file, kept by an API that knows nothing of tokens. A lock service leases
the file to one of them at a time, and gives each lease a higher fencing token than the last.
Workers and proxy are real processes, the pause is a real SIGSTOP.
`

const next = `
Put it in front of your own API: fenceproxy serve --upstream URL
`

// Run tells the story to o.Out. All that it makes is in a temporary directory
// that it removes, and all processes it starts have ended when it returns.
// Its error says which act did not end as promised, and how.
func Run(ctx context.Context, o Options) error { return run(ctx, o, serve) }

// run is Run with another fence, for tests.
func run(ctx context.Context, o Options, f fencer) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the demo was not over after %v", patience))
	defer cancel()
	dir, err := os.MkdirTemp("", "fenceproxy-demo-")
	if err != nil {
		return fmt.Errorf("the demo needs a temporary directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	t := newTimeline(o.Out)
	if t.text(intro); t.err != nil {
		return fmt.Errorf("printing the timeline: %w", t.err)
	}
	for i, a := range acts {
		t.open(a.title)
		if err := perform(ctx, a, o, f, dir, t); err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("act %d was cut short: %w", i+1, context.Cause(ctx))
			}
			return fmt.Errorf("act %d did not end as promised: %w", i+1, err)
		}
		t.lesson(a.lesson)
		if t.err != nil {
			return fmt.Errorf("printing the timeline: %w", t.err)
		}
	}
	t.text(next)
	return t.err
}

// perform plays one act on a stage of its own.
func perform(ctx context.Context, a act, o Options, f fencer, dir string, t *timeline) (err error) {
	s, err := newStage(ctx, a, o.Self, f, dir, t)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return a.play(ctx, s)
}
