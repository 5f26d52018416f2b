package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/rogpeppe/go-internal/testscript"
)

// backend is the service behind the proxy: it opens websockets, and answers
// every other request with 204, those below /slow/ only after release.
type backend struct {
	*httptest.Server
	release func()
	arrived chan struct{} // gets one for each slow request
}

// upstream starts the service. $UPSTREAM is then its URL.
func cmdUpstream(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg || len(args) != 0, "upstream")
	slow := make(chan struct{})
	b := &backend{release: sync.OnceFunc(func() { close(slow) }), arrived: make(chan struct{}, 16)}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			echo(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		if strings.HasPrefix(r.URL.Path, "/slow/") {
			b.arrived <- struct{}{}
			<-slow
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	stageOf(ts).upstream = b
	ts.Defer(func() { b.release(); b.Close() })
	ts.Setenv("UPSTREAM", b.URL)
}

// echo is a websocket that says everything again.
func echo(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = c.CloseNow() }()
	for {
		kind, message, err := c.Read(context.Background())
		if err != nil || c.Write(context.Background(), kind, message) != nil {
			return
		}
	}
}

// socket PATH [NAME:VALUE…] opens a websocket through the proxy, has something
// said over it, and leaves it open.
func cmdSocket(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg || len(args) < 1, "socket PATH [NAME:VALUE…]")
	header := http.Header{}
	for _, h := range args[1:] {
		name, value, ok := strings.Cut(h, ":")
		usage(ts, !ok, "a header is NAME:VALUE")
		header.Add(name, value)
	}
	ctx, cancel := context.WithTimeout(context.Background(), scriptPatience)
	defer cancel()
	c, _, err := websocket.Dial(ctx, "ws://"+ts.Getenv("PROXY")+args[0], &websocket.DialOptions{HTTPHeader: header})
	ts.Check(err)
	ts.Defer(func() { _ = c.CloseNow() })
	ts.Check(c.Write(ctx, websocket.MessageText, []byte("hello")))
	_, said, err := c.Read(ctx)
	ts.Check(err)
	if string(said) != "hello" {
		ts.Fatalf("the websocket says %q", said)
	}
}

// release AFTER lets the requests below /slow/ end, that long from now.
func cmdRelease(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg || len(args) != 1, "release AFTER")
	after, err := time.ParseDuration(args[0])
	ts.Check(err)
	timer := time.AfterFunc(after, stageOf(ts).upstream.release)
	ts.Defer(func() { timer.Stop() })
}

// http METHOD PATH [NAME:VALUE…] sends a request to the proxy, and prints the
// status of the answer and, where the answer is one, the problem's name. With
// & at the end it returns as soon as the upstream has the request, which is
// for those below /slow/, and answer prints the rest.
func cmdHTTP(ts *testscript.TestScript, neg bool, args []string) {
	background := len(args) > 0 && args[len(args)-1] == "&"
	if background {
		args = args[:len(args)-1]
	}
	usage(ts, neg || len(args) < 2, "http METHOD PATH [NAME:VALUE…] [&]")
	req, err := http.NewRequest(args[0], "http://"+ts.Getenv("PROXY")+args[1], strings.NewReader("x"))
	ts.Check(err)
	for _, h := range args[2:] {
		name, value, ok := strings.Cut(h, ":")
		usage(ts, !ok, "a header is NAME:VALUE")
		req.Header.Add(name, value)
	}
	if !background {
		answer, err := ask(req)
		ts.Check(err)
		_, err = fmt.Fprintln(ts.Stdout(), answer)
		ts.Check(err)
		return
	}
	stage, done, got := stageOf(ts), make(chan struct{}), make(chan string, 1)
	stage.answer = got // a later request has another, while this one may still run
	go func() {
		defer close(done)
		answer, err := ask(req)
		if err != nil {
			answer = "none: " + err.Error()
		}
		got <- answer
	}()
	ts.Defer(func() { stage.upstream.release(); <-done })
	select {
	case <-stage.upstream.arrived:
	case <-time.After(scriptPatience):
		ts.Fatalf("the request did not reach the upstream within %v", scriptPatience)
	}
}

// admin PATH asks the admin listener, and prints the status and the body.
func cmdAdmin(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg || len(args) != 1, "admin PATH")
	res, err := http.Get("http://" + ts.Getenv("ADMIN") + args[0])
	ts.Check(err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	ts.Check(err)
	_, err = fmt.Fprintf(ts.Stdout(), "%d %s", res.StatusCode, body)
	ts.Check(err)
}

// answer waits for the request in the background, and prints what http prints.
func cmdAnswer(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg || len(args) != 0 || stageOf(ts).answer == nil, "answer (after http … &)")
	_, err := fmt.Fprintln(ts.Stdout(), <-stageOf(ts).answer)
	ts.Check(err)
}

// ask returns the status and the problem's name.
func ask(req *http.Request) (string, error) {
	ctx, cancel := context.WithTimeout(req.Context(), scriptPatience)
	defer cancel()
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := web.Do(req.WithContext(ctx))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var problem struct{ Type string }
	if resp.Header.Get("Content-Type") == "application/problem+json" {
		if err := json.NewDecoder(resp.Body).Decode(&problem); err != nil {
			return "", err
		}
	}
	word := strings.TrimPrefix(problem.Type, "urn:fenceproxy:problem:")
	if result := resp.Header.Get("Fencing-Result"); strings.HasPrefix(result, "would-") {
		word = result
	}
	return strings.TrimSpace(fmt.Sprint(resp.StatusCode, " ", word)), nil
}
