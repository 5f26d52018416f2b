package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// tokenHeader carries the fencing token.
const tokenHeader = "X-Fencing-Token"

// pollTime is how often a worker asks for a lease that is taken.
const pollTime = 20 * time.Millisecond

// The words that a worker says, each at the beginning of a line.
const (
	saidProcess = "process" // with its ID; only under `fenceproxy lock`
	saidHere    = "here"    // and asks for the lease once it is told to; not under `fenceproxy lock`
	saidWaits   = "waits"   // for the lease, which another has
	saidLease   = "lease"   // with its token
	saidRead    = "read"    // with what the file holds
	saidReady   = "ready"   // the lease is still good: it is about to write
	saidWriting = "writing" // the write leaves
	saidAnswer  = "answer"  // with the status, and the problem's name
)

// underLock stands for the lock service of a worker that `fenceproxy lock` runs.
const underLock = "-"

// Worker is one worker process: it takes the lease from the lock service,
// reads the file, sees that its lease is good, and writes. It tells each step
// in a line to out, and waits for a line from in before it begins, and again
// right before the write: the point at which the demo pauses its process. After
// that it looks at nothing any more, just as a process does that never noticed
// its pause.
//
// With underLock for the lock service its lease is that of the `fenceproxy lock`
// that started it, which looks after it; then it ends only when in says so.
func Worker(ctx context.Context, name, lockURL, fileURL string, in io.Reader, out io.Writer) error {
	w := worker{out: out, web: &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true}, // the default would take a proxy from the environment
		Timeout:   patience,
	}}
	lines := bufio.NewReader(in)
	if lockURL != underLock {
		w.say(saidHere, "")
		if _, err := lines.ReadString('\n'); err != nil {
			return fmt.Errorf("worker %s: waiting for the demo: %w", name, err)
		}
	}
	granted, until, err := w.lease(ctx, lockURL)
	if err != nil {
		return fmt.Errorf("worker %s: taking the lease: %w", name, err)
	}
	if lockURL == underLock {
		w.say(saidProcess, strconv.Itoa(os.Getpid()))
	}
	w.say(saidLease, strconv.FormatUint(granted.Token, 10))

	content, err := w.do(ctx, http.MethodGet, fileURL, "", 0)
	if err != nil || content.status != http.StatusOK {
		return fmt.Errorf("worker %s: reading the file: status %d, %w", name, content.status, err)
	}
	w.say(saidRead, string(content.body))

	if lockURL != underLock {
		if err := w.holds(ctx, lockURL, granted, until); err != nil {
			return fmt.Errorf("worker %s: looking at the lease: %w", name, err)
		}
	}
	w.say(saidReady, "")
	if _, err := lines.ReadString('\n'); err != nil {
		return fmt.Errorf("worker %s: waiting for the demo: %w", name, err)
	}
	w.say(saidWriting, "")
	answer, err := w.do(ctx, http.MethodPut, fileURL, edit(name), granted.Token)
	if err != nil {
		return fmt.Errorf("worker %s: writing the file: %w", name, err)
	}
	w.say(saidAnswer, answer.String())
	if lockURL == underLock {
		_, _ = lines.ReadString('\n')
	}
	return nil
}

// edit is what a worker makes of the file.
func edit(name string) string { return name + "'s edit" }

type worker struct {
	web *http.Client
	out io.Writer
}

func (w worker) say(word, rest string) {
	fmt.Fprintln(w.out, strings.TrimSpace(word+" "+rest))
}

// lease asks until the lease is free. Its end is counted from the question,
// so that the worker never believes in it longer than the lock service does.
func (w worker) lease(ctx context.Context, url string) (granted lease, until time.Time, err error) {
	if url == underLock {
		granted.Token, err = strconv.ParseUint(os.Getenv("FENCING_TOKEN"), 10, 64)
		return granted, time.Time{}, err
	}
	for waits := false; ; {
		asked := time.Now()
		a, err := w.do(ctx, http.MethodPost, url, "", 0)
		if err != nil {
			return lease{}, time.Time{}, err
		}
		if a.status != http.StatusLocked {
			err = json.Unmarshal(a.body, &granted)
			return granted, asked.Add(granted.TTL), err
		}
		if !waits {
			w.say(saidWaits, "")
			waits = true
		}
		if err := pause(ctx, pollTime); err != nil {
			return lease{}, time.Time{}, err
		}
	}
}

// holds returns when the lease is good. One that ran out, since the machine stood
// still, is renewed: nobody else has it as long as it can be.
func (w worker) holds(ctx context.Context, url string, l lease, until time.Time) error {
	for !time.Now().Before(until) {
		asked := time.Now()
		switch a, err := w.do(ctx, http.MethodPut, url, "", l.Token); {
		case err != nil:
			return err
		case a.status != http.StatusOK:
			return fmt.Errorf("it is another's already: status %d", a.status)
		}
		until = asked.Add(l.TTL)
	}
	return nil
}

type answer struct {
	status  int
	problem string // the name, where the answer is a problem
	body    []byte
}

func (a answer) String() string { return strings.TrimSpace(strconv.Itoa(a.status) + " " + a.problem) }

// do sends one request, with a token where that is not 0.
func (w worker) do(ctx context.Context, method, url, content string, token uint64) (a answer, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(content))
	if err != nil {
		return a, err
	}
	if token != 0 {
		req.Header.Set(tokenHeader, strconv.FormatUint(token, 10))
	}
	resp, err := w.web.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	a.status = resp.StatusCode
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		return a, err
	}
	var problem struct{ Type string }
	if resp.Header.Get("Content-Type") == "application/problem+json" && json.Unmarshal(a.body, &problem) == nil {
		a.problem = problem.Type[strings.LastIndexByte(problem.Type, ':')+1:]
	}
	return a, nil
}
