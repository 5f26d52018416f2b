// Command etcd writes FILE to URL under an etcd lock, with etcd's own package
// concurrency.
//
//	go run ./deploy/examples/etcd http://127.0.0.1:2379 LOCK URL FILE
//
// The token is the create revision of the lock's key: etcd counts it up with
// every change, for all keys, and it stays the same for as long as the lock is
// held.
//
// Traps:
//   - Mutex is re-entrant in its session: a second Mutex of the same session and
//     name is locked at once, by whichever goroutine. Both then have one
//     token, and nothing tells them apart. One session for each holder, as here.
//   - Mutex.Header().Revision is no token: a re-entrant Lock gets a higher one,
//     and makes the writes of the first stale.
//   - Lock returns, and the session may be over a moment later. Watching
//     Session.Done is polite, and proves nothing: a pause can come right behind it.
//   - A restored snapshot takes revisions back: restore with --bump-revision, or
//     raise the rule's epoch.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

var (
	errStale   = errors.New("lost the lease")
	errUnknown = errors.New("no full answer: the write may have happened, look before you repeat it")
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: etcd ENDPOINT LOCK URL FILE")
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

func run(ctx context.Context, endpoint, name, url, file string) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second})
	if err != nil {
		return err
	}
	defer client.Close()
	session, err := concurrency.NewSession(client, concurrency.WithTTL(10)) // renewed by itself
	if err != nil {
		return err
	}
	defer session.Close() // ends the lease, and with it the lock
	mutex := concurrency.NewMutex(session, "/locks/"+name)
	if err := mutex.Lock(ctx); err != nil {
		return err
	}
	token, err := tokenOf(ctx, client, mutex)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "token", token)
	body, err := os.ReadFile(file) // the work
	if err != nil {
		return err
	}
	return write(ctx, url, token, body)
}

// tokenOf reads the create revision of the key that the mutex holds, if it still
// does.
func tokenOf(ctx context.Context, client *clientv3.Client, mutex *concurrency.Mutex) (string, error) {
	resp, err := client.Txn(ctx).If(mutex.IsOwner()).Then(clientv3.OpGet(mutex.Key())).Commit()
	if err != nil {
		return "", err
	}
	if !resp.Succeeded {
		return "", errors.New("the lock is lost already")
	}
	return strconv.FormatInt(resp.Responses[0].GetResponseRange().Kvs[0].CreateRevision, 10), nil
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
		// No Idempotency-Key: with one Go's Transport may send a write twice.
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
