package config

import "testing"

const spellingWarning = "warning: --key: paths that differ in letter case or in a slash at the end count as different resources (a configuration file with a rule for each kind of path, where the upstream takes them for one)"

func TestFromFlags(t *testing.T) {
	f := DefaultFlags()
	f.Upstream = "http://127.0.0.1:9000"
	c, r := FromFlags(f)
	wantLines(t, r, spellingWarning)
	wantSame(t, c, mustLoad(t, good, env()))

	f = Flags{Upstream: "http://svc", Listen: ":1", Data: "/d", Key: "k:{header.X}"}
	c, r = FromFlags(f)
	wantLines(t, r)
	want := mustLoad(t, good, env())
	want.Upstream.URL, want.Listen.Address, want.Admin.Address = "http://svc", ":1", ""
	want.Store.Embedded.Path, want.Rules[0].Key = "/d", "k:{header.X}"
	wantSame(t, c, want)
}

func TestBadFlags(t *testing.T) {
	_, r := FromFlags(Flags{Admin: ":1", Listen: "x"})
	wantLines(t, r,
		`--listen: "x" is not an address (host:port, as in 127.0.0.1:8080)`,
		`--admin: ":1" is not a loopback address, and anybody could change keys there (127.0.0.1:PORT, [::1]:PORT or localhost:PORT; any other needs admin.token_file or admin.tls.client_ca_file)`,
		"--upstream: is missing (the service to protect, as in http://127.0.0.1:9000)",
		"--data: is empty (a directory, as in ./fenceproxy-data)",
		"--key: is missing (what the path names, as in account:{id}; or token: none)")
	if !r.Has("rules[0].key") || !r.Has("rules[0]") || r.Has("rules[0].path") {
		t.Error("Has does not find the settings of flags")
	}
	f := DefaultFlags()
	f.Upstream = "http://u:secret@h"
	c, r := FromFlags(f)
	wantLines(t, r, "--upstream: holds a user name or a password (as in http://127.0.0.1:9000; clients' own Authorization headers pass)", spellingWarning)
	if got, want := c.Errorf("rules[0].key", "bad %s", "part").Error(), "--key: bad part"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
