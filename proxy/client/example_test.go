package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/client"
	"github.com/fenceproxy/fenceproxy/proxy/client/clienttest"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// The whole of it: take the lease, work under its context, give it back.
func ExampleAcquire() {
	server, proxy := stage()
	defer server.Close()
	defer proxy.Close()

	lease, err := client.Acquire(context.Background(), "/accounts/42", client.LeaseOptions{
		Servers: []string{server.URL}, TTL: 30 * time.Second, Wait: time.Minute,
	})
	if err != nil {
		log.Fatal(err)
	}
	// Every request under the lease's context has its token, and none is sent
	// once the lease is lost.
	web := &http.Client{Transport: &client.Transport{}}
	req, err := http.NewRequestWithContext(lease.Context(), http.MethodPut, proxy.URL+"/accounts/42", strings.NewReader("balance"))
	if err != nil {
		log.Fatal(err)
	}
	resp, err := web.Do(req)
	if err != nil {
		log.Fatal(err)
	}
	_ = resp.Body.Close()
	fmt.Println("token", lease.Token(), "gets", resp.StatusCode)

	// A context of its own: the work's may have ended.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	fmt.Println("released:", lease.Release(ctx))
	// Output:
	// token 1 gets 200
	// released: <nil>
}

// Another has it.
func ExampleHeldError() {
	server, proxy := stage()
	defer server.Close()
	defer proxy.Close()

	options := client.LeaseOptions{Servers: []string{server.URL}, Holder: "worker A"}
	lease, err := client.Acquire(context.Background(), "report", options)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = lease.Release(context.Background()) }()

	options.Holder = "worker B"
	_, err = client.Acquire(context.Background(), "report", options)
	if held := (*client.HeldError)(nil); errors.As(err, &held) {
		fmt.Println(held.Holder, "holds", held.Key)
	}
	// Output: worker A holds report
}

// Tokens of another lock service, and what a stale one is answered with.
func ExampleTransport() {
	server, proxy := stage()
	defer server.Close()
	defer proxy.Close()

	web := &http.Client{Transport: &client.Transport{}}
	for _, token := range []string{"34", "33"} {
		ctx := client.WithToken(context.Background(), token)
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, proxy.URL+"/accounts/42", strings.NewReader("balance"))
		if err != nil {
			log.Fatal(err)
		}
		resp, err := web.Do(req)
		if stale := (*client.StaleTokenError)(nil); errors.As(err, &stale) {
			fmt.Println("stop: token", stale.Token, "is stale,", stale.Highest, "is the highest")
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		_ = resp.Body.Close()
		fmt.Println("token", token, "gets", resp.StatusCode)
	}
	// Output:
	// token 34 gets 200
	// stop: token 33 is stale, 34 is the highest
}

// stage is a lease server, and a proxy that refuses tokens below 34 once it has
// seen that one.
func stage() (server, proxy *httptest.Server) {
	seen := false
	proxy = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := r.Header.Get(client.Header)
		if token == "34" {
			seen = true
		} else if seen {
			p := wire.NewProblem(wire.StaleToken, "stop, and take the lease again before you write")
			p.Key, p.Token, p.Highest = r.URL.Path, token, "34"
			p.Write(w)
		}
	}))
	return httptest.NewServer(&clienttest.Server{}), proxy
}
