package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// leaseAnswer is what the lease API says, a lease or a problem.
type leaseAnswer struct {
	status                  int
	Holder, Token, ID, Type string
	Waiting                 int
}

func (a leaseAnswer) String() string {
	word := strings.TrimPrefix(a.Type, "urn:fenceproxy:problem:")
	return strings.Join(strings.Fields(fmt.Sprint(a.status, " ", word, " ", a.Holder, " ", a.Token)), " ")
}

// lease METHOD KEY [BODY] [NAME:VALUE…] asks the lease API, and prints the
// status with the holder and the token, or with the problem's name. $ID is then
// the lease's. With & at the end it returns as soon as others can
// see that it waits, or has it but for the drain, and leased prints the rest.
func cmdLease(ts *testscript.TestScript, neg bool, args []string) {
	background := len(args) > 0 && args[len(args)-1] == "&"
	if background {
		args = args[:len(args)-1]
	}
	usage(ts, neg || len(args) < 2, "lease METHOD KEY [BODY] [NAME:VALUE…] [&]")
	body, headers := "", []string(nil)
	if len(args) > 2 {
		body, headers = args[2], args[3:]
	}
	req, err := http.NewRequest(args[0], "http://"+ts.Getenv("LEASES")+"/v1/leases/"+url.PathEscape(args[1]), strings.NewReader(body))
	ts.Check(err)
	req.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		name, value, ok := strings.Cut(h, ":")
		usage(ts, !ok, "a header is NAME:VALUE")
		req.Header.Set(name, value)
	}
	if background {
		leased := make(chan string, 1)
		stageOf(ts).leased = leased
		before := lookAtLease(ts, req.URL.String())
		go func() {
			a, err := askLease(req)
			if err != nil {
				leased <- "none: " + err.Error()
				return
			}
			leased <- a.String()
		}()
		for end := time.Now().Add(scriptPatience); lookAtLease(ts, req.URL.String()) == before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				ts.Fatalf("nobody sees that the lease is asked for")
			}
		}
		return
	}
	a, err := askLease(req)
	ts.Check(err)
	if a.ID != "" {
		ts.Setenv("ID", a.ID)
	}
	_, err = fmt.Fprintln(ts.Stdout(), a)
	ts.Check(err)
}

// leased waits for the lease in the background, and prints what lease prints.
func cmdLeased(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg || len(args) != 0 || stageOf(ts).leased == nil, "leased (after lease … &)")
	_, err := fmt.Fprintln(ts.Stdout(), <-stageOf(ts).leased)
	ts.Check(err)
}

// lookAtLease is who holds the lease, and how many wait for it.
func lookAtLease(ts *testscript.TestScript, at string) string {
	req, err := http.NewRequest(http.MethodGet, at, nil)
	ts.Check(err)
	a, err := askLease(req)
	ts.Check(err)
	return fmt.Sprint(a, " ", a.Waiting)
}

func askLease(req *http.Request) (a leaseAnswer, err error) {
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: scriptPatience}
	resp, err := web.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	a.status = resp.StatusCode
	if resp.StatusCode == http.StatusNoContent {
		return a, nil
	}
	return a, json.NewDecoder(resp.Body).Decode(&a)
}
