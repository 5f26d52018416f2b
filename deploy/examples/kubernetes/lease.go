package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"
)

// lease is as much of coordination.k8s.io/v1 as a lock needs.
type lease struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name            string `json:"name"`
		ResourceVersion string `json:"resourceVersion,omitempty"`
	} `json:"metadata"`
	Spec struct {
		HolderIdentity       string `json:"holderIdentity"`
		LeaseDurationSeconds int    `json:"leaseDurationSeconds"`
		AcquireTime          string `json:"acquireTime,omitempty"`
		RenewTime            string `json:"renewTime,omitempty"`
		LeaseTransitions     int64  `json:"leaseTransitions"`
	} `json:"spec"`
}

// duration is how long a Lease that nobody renews is respected.
const duration = 4 * time.Second

// microTime is Kubernetes' form of a time.
const microTime = "2006-01-02T15:04:05.000000Z07:00"

var (
	errNotFound = errors.New("not found")
	errConflict = errors.New("somebody else was faster")
)

// lock is a Lease that one process takes.
type lock struct {
	client   *http.Client
	bearer   string
	url      string // of all Leases in the namespace
	name     string
	identity string // of this process and no other
	held     lease  // as the API server has it, while it is ours
}

func newLock(api, name string) (*lock, error) {
	namespace, name, _ := strings.Cut(name, "/")
	l := &lock{client: &http.Client{Timeout: duration}, name: name, identity: rand.Text()}
	if api == "cluster" {
		const dir = "/var/run/secrets/kubernetes.io/serviceaccount/"
		token, err := os.ReadFile(dir + "token")
		if err != nil {
			return nil, err
		}
		pem, err := os.ReadFile(dir + "ca.crt")
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		l.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
		l.bearer, api = strings.TrimSpace(string(token)), "https://"+os.Getenv("KUBERNETES_SERVICE_HOST")+":"+os.Getenv("KUBERNETES_SERVICE_PORT")
	}
	l.url = api + "/apis/coordination.k8s.io/v1/namespaces/" + namespace + "/leases"
	return l, nil
}

// acquire waits until the Lease is ours, and returns its token.
func (l *lock) acquire(ctx context.Context) (token int64, err error) {
	var seen string // the version that stands since then, by our own clock
	var since time.Time
	for {
		current, err := l.call(ctx, http.MethodGet, "/"+l.name, nil)
		if errors.Is(err, errNotFound) {
			current, err = lease{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}, nil
			current.Metadata.Name = l.name
		}
		if err != nil {
			return 0, err
		}
		if current.Metadata.ResourceVersion != seen {
			seen, since = current.Metadata.ResourceVersion, time.Now()
		}
		patience := time.Duration(current.Spec.LeaseDurationSeconds) * time.Second
		if current.Spec.HolderIdentity == "" || time.Since(since) > patience {
			next := current
			next.Spec.HolderIdentity, next.Spec.LeaseDurationSeconds = l.identity, int(duration/time.Second)
			next.Spec.LeaseTransitions++ // in every case, also when we held it last
			now := time.Now().UTC().Format(microTime)
			next.Spec.AcquireTime, next.Spec.RenewTime = now, now
			l.held, err = l.put(ctx, next)
			if err == nil {
				return l.held.Spec.LeaseTransitions, nil
			}
			if !errors.Is(err, errConflict) {
				return 0, err
			}
		}
		time.Sleep(duration / 8)
	}
}

// renew keeps the Lease until ctx ends, or somebody else has it. That the work
// goes on then is what the fence is for.
func (l *lock) renew(ctx context.Context) {
	for tick := time.NewTicker(duration / 4); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		next := l.held
		next.Spec.RenewTime = time.Now().UTC().Format(microTime)
		renewed, err := l.put(ctx, next)
		if errors.Is(err, errConflict) {
			renewed, err = l.ours(ctx)
		}
		if errors.Is(err, errConflict) {
			return
		}
		if err == nil {
			l.held = renewed
		}
	}
}

// ours is the Lease as it stands, if nobody has taken it since. An update of our own
// whose answer was lost, or not waited for, has made another version of it.
func (l *lock) ours(ctx context.Context) (lease, error) {
	current, err := l.call(ctx, http.MethodGet, "/"+l.name, nil)
	if err == nil && (current.Spec.HolderIdentity != l.identity || current.Spec.LeaseTransitions != l.held.Spec.LeaseTransitions) {
		err = errConflict
	}
	return current, err
}

// release gives the Lease back. It stays, with its count.
func (l *lock) release() {
	ctx, cancel := context.WithTimeout(context.Background(), duration)
	defer cancel()
	next, err := l.ours(ctx)
	if err != nil {
		return // it is lost, or runs out
	}
	next.Spec.HolderIdentity = ""
	_, _ = l.put(ctx, next)
}

// put makes the Lease, or changes the version that was read and no other.
func (l *lock) put(ctx context.Context, next lease) (lease, error) {
	if next.Metadata.ResourceVersion == "" {
		return l.call(ctx, http.MethodPost, "", &next)
	}
	return l.call(ctx, http.MethodPut, "/"+l.name, &next)
}

func (l *lock) call(ctx context.Context, method, path string, in *lease) (out lease, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	req, err := http.NewRequestWithContext(ctx, method, l.url+path, bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	req.Header.Set("Content-Type", "application/json")
	if l.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+l.bearer)
	}
	resp, err := l.client.Do(req)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK, http.StatusCreated:
		return out, json.NewDecoder(resp.Body).Decode(&out)
	case http.StatusNotFound:
		return out, errNotFound
	case http.StatusConflict:
		return out, errConflict
	}
	return out, fmt.Errorf("%s %s: %s", method, l.url+path, resp.Status)
}
