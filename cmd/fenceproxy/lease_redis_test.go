package main

import (
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore/redis/redistest"
)

// TestLeasesOverRedis: a lease over a Redis that keeps what it has acknowledged
// goes from holder to holder, at two proxies, while they and the Redis crash.
func TestLeasesOverRedis(t *testing.T) {
	t.Parallel()
	redis, err := redistest.New()
	if err != nil {
		t.Fatal(err)
	}
	redis.CloseAfter(t)
	f := newLeaseFleet(t, redis.Setting(redis.Address()), "a", torture.Settings{})
	a, b := f.members[0], f.members[1]
	command := []string{"--", "sh", "-c", "echo $FENCING_TOKEN; read line; echo over"}
	lock := func(m *leaseMember, holder string, flags ...string) *locked {
		return startLock(t, m.leases, append(append([]string{"thing:a", "--holder", holder}, flags...), command...)...)
	}

	one := lock(a, "one", "--ttl", "20s")
	if token := one.line(); token != "1" {
		t.Fatalf("the first token is %s", token)
	}
	f.writes(b, "1", 200, "admitted")
	lock(b, "impatient", "--wait", "0s").exits(75, "one")
	f.holds(a, "1") // nobody will ever tell what became of it
	two := lock(b, "two", "--ttl", "6s")
	for seen := ""; seen != "200one11"; seen = f.seen(b) {
		time.Sleep(time.Millisecond)
	}

	// The proxy that one asks, and the store of both, crash. One keeps its lease, and
	// gives it back; two has it when the write of the crashed proxy cannot land any
	// more: when its session is over, and linger behind that.
	crash := time.Now()
	a.Kill()
	redis.Kill()
	if err := redis.Start(); err != nil {
		t.Fatal(err)
	}
	f.starts(a)
	if seen := f.seen(a); seen != "200one10" {
		t.Errorf("the proxy of before sees %s", seen)
	}
	_ = one.stdin.Close()
	if rest := one.rest(); rest != "over\n" {
		t.Errorf("the command printed %q", rest)
	}
	if code := one.cmd.Wait(); code != nil {
		t.Errorf("%v\n%s", code, one.said())
	}
	if token := two.line(); token != "2" {
		t.Errorf("the second token is %s", token)
	}
	if waited := time.Since(crash); waited < fleetSettle {
		t.Errorf("it was granted %v after the crash, before what was lost with it had landed", waited)
	}
	f.letGo <- struct{}{}
	for _, m := range f.members {
		f.writes(m, "1", 409, "rejected;reason=stale-token")
		f.writes(m, "2", 200, "admitted")
	}

	// Two ends without a word, and its lease runs out.
	three := f.waitsFor(a, time.Minute)
	two.signal(syscall.SIGKILL)
	l := has(t, "the third lease", three)
	if l.Token != "3" {
		t.Errorf("the third token is %s", l.Token)
	}
	renewed := f.lease(b, http.MethodPut, wire.LeaseRequest{ID: l.ID, TTL: wire.Duration(2 * time.Minute)}, 200)
	if left := time.Duration(renewed.ExpiresIn); left <= time.Minute || renewed.Token != "3" {
		t.Errorf("renewed at the other proxy: %+v", renewed)
	}
	f.writes(b, "2", 409, "rejected;reason=stale-token")
	f.lease(b, http.MethodDelete, wire.LeaseRequest{ID: "another"}, 409)
	f.lease(b, http.MethodDelete, wire.LeaseRequest{ID: l.ID}, 204)
	f.lease(a, http.MethodGet, wire.LeaseRequest{}, 404)

	// Everything crashes at once, and the counter goes on.
	a.Kill()
	b.Kill()
	redis.Kill()
	if err := redis.Start(); err != nil {
		t.Fatal(err)
	}
	f.starts(a)
	unfenced := false // it would wait for the sessions of before
	if l := f.lease(a, http.MethodPost, wire.LeaseRequest{Holder: "four", Fence: &unfenced}, 201); l.Token != "4" {
		t.Errorf("the token after all of it is %s", l.Token)
	}
	f.writes(a, "2", 409, "rejected;reason=stale-token")
}
