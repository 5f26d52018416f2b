// Command kubernetes writes FILE to URL under a Kubernetes Lease, with Go's
// standard library alone.
//
//	kubectl proxy --port 8001 &
//	go run ./deploy/examples/kubernetes http://127.0.0.1:8001 NAMESPACE/LEASE URL FILE
//
// In a pod API is "cluster"; its service account needs get, create and update on
// this Lease. The token is leaseTransitions, which is counted up in the very
// update that takes the Lease; that update succeeds for one worker alone, since it
// names the resourceVersion that it has seen.
//
// Traps:
//   - client-go's leaderelection does not count up when the Lease was last held
//     by the same identity: with a pod's name for it, a pod that was started again has the
//     token of its predecessor, which may still be writing. Here every
//     acquisition counts. With client-go the identity has to be new for each process.
//   - metadata.resourceVersion is no token: it changes with every renewal, and
//     what a later GET shows may be another holder's.
//   - The count is the workers' own. A Lease that is deleted begins again at 1:
//     nobody may delete it (RBAC); if it happened, raise the rule's epoch.
//   - renewTime is another machine's clock. What counts is how long one has seen the
//     Lease unchanged by one's own.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

var (
	errStale   = errors.New("lost the lease")
	errUnknown = errors.New("no full answer: the write may have happened, look before you repeat it")
)

func main() {
	if len(os.Args) != 5 || strings.Count(os.Args[2], "/") != 1 {
		fmt.Fprintln(os.Stderr, "usage: kubernetes API NAMESPACE/LEASE URL FILE")
		os.Exit(2)
	}
	err := run(context.Background(), os.Args[1], os.Args[2], os.Args[3], os.Args[4])
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	switch {
	case errors.Is(err, errStale):
		os.Exit(4)
	case errors.Is(err, errUnknown):
		os.Exit(5)
	}
	os.Exit(1)
}

func run(ctx context.Context, api, name, url, file string) error {
	lock, err := newLock(api, name)
	if err != nil {
		return err
	}
	token, err := lock.acquire(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	renewed := make(chan struct{})
	go func() { defer close(renewed); lock.renew(ctx) }()
	defer func() {
		stop()
		<-renewed
		lock.release()
	}()
	fmt.Fprintln(os.Stderr, "token", token)
	body, err := os.ReadFile(file) // the work
	if err != nil {
		return err
	}
	return write(ctx, url, fmt.Sprint(token), body)
}

// write sends a write, and repeats it only where it was not forwarded. For more,
// see proxy/client.
func write(ctx context.Context, url, token string, body []byte) error {
	for try := 1; ; try++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("X-Fencing-Token", token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return fmt.Errorf("%w: %w", errUnknown, err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		switch {
		case resp.StatusCode < 300:
			return nil
		case resp.Header.Get("Fencing-Result") == "rejected;reason=stale-token": // not any 409: the API may answer that, too
			return fmt.Errorf("%w: %s", errStale, text) // stop, and take the lock again before the next write
		case resp.Header.Get("Fencing-Forwarded") == "unknown":
			return fmt.Errorf("%w: %s %s", errUnknown, resp.Status, text)
		case resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Fencing-Forwarded") != "no" || try == 5:
			return fmt.Errorf("refused: %s %s", resp.Status, text)
		}
		time.Sleep(time.Duration(try) * time.Second) // not forwarded: the same token may come again
	}
}
