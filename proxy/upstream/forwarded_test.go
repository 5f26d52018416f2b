package upstream

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// TestForwarded: a client's word on who asks counts only where it is a trusted
// proxy.
func TestForwarded(t *testing.T) {
	said := http.Header{"X-Forwarded-For": {"198.51.100.9, 203.0.113.1", "203.0.113.2"}, "X-Forwarded-Host": {"shop.example"}, "X-Forwarded-Proto": {"https"},
		"X-Forwarded-Port": {"443"}, "X_forwarded_for": {"6.6.6.6"}, "X-Forwarded_host": {"evil"}, "X.forwarded.proto": {"evil"},
		"X!Forwarded!For": {"6.6.6.6"}, "x~forwarded~proto": {"evil"}, "X-Forwarded'port": {"1"},
		"Forwarded": {"for=198.51.100.9"}, "X-Real-Ip": {"1"}, "X_forward": {"1"}}
	const own = "|X-Real-Ip: 1|X_forward: 1"
	rows := []struct {
		name   string
		peer   string
		header http.Header
		want   string
	}{
		{"nobody", "192.0.2.1:5000", said, "X-Forwarded-For: 192.0.2.1|X-Forwarded-Host: api.example|X-Forwarded-Proto: http" + own},
		{"a trusted proxy", "10.1.2.3:5000", said, "Forwarded: for=198.51.100.9, for=10.1.2.3|X-Forwarded-For: 198.51.100.9, 203.0.113.1, 203.0.113.2, 10.1.2.3|X-Forwarded-Host: shop.example|X-Forwarded-Port: 443|X-Forwarded-Proto: https" + own},
		{"a trusted proxy over IPv6", "[fd00::7]:5000", http.Header{"Forwarded": {"for=1", "for=2"}}, `Forwarded: for=1, for=2, for="[fd00::7]"|X-Forwarded-For: fd00::7|X-Forwarded-Host: api.example|X-Forwarded-Proto: http`},
		{"a trusted proxy as IPv6 shows it", "[::ffff:10.1.2.3]:5000", http.Header{"X-Forwarded-For": {"1"}}, "X-Forwarded-For: 1, ::ffff:10.1.2.3|X-Forwarded-Host: api.example|X-Forwarded-Proto: http"},
		{"a trusted proxy that says nothing", "10.1.2.3:5000", http.Header{"X-Forwarded-Host": {" "}}, "X-Forwarded-For: 10.1.2.3|X-Forwarded-Host: api.example|X-Forwarded-Proto: http"},
		{"the same address in a zone", "[fd00::7%eth0]:5000", http.Header{"X-Forwarded-For": {"1"}}, "X-Forwarded-For: 1, fd00::7%eth0|X-Forwarded-Host: api.example|X-Forwarded-Proto: http"},
		{"no address: a unix socket", "@", said, "X-Forwarded-Host: api.example|X-Forwarded-Proto: http" + own},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			u := newUpstream(t, "http://127.0.0.1")
			u.trusted = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
			got := sentHead(t, u, &Request{Method: "GET", Target: "/", Host: "api.example", Header: row.header, RemoteAddr: row.peer, Scheme: "http"})
			want := append(strings.Split(row.want, "|"), "Connection: close", "Host: api.example")
			slices.Sort(want)
			if !slices.Equal(got[1:], want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got[1:], "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// A trusted proxy's word must not end a line.
func TestForwardedIsChecked(t *testing.T) {
	u := newUpstream(t, "http://127.0.0.1")
	u.trusted = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded"} {
		r := put()
		r.Header = http.Header{name: {"a\r\nX: y"}}
		if b, err := u.appendHead(nil, r); err == nil {
			t.Errorf("%s: %q was made", name, b)
		}
	}
}

// Servers exist that take a trailer for a header.
func TestForwardedInTrailers(t *testing.T) {
	b, err := appendTrailers(nil, http.Header{"X-Forwarded-For": {"1"}, "X_forwarded_host": {"1"}, "X!forwarded!proto": {"1"}, "Content_Length": {"1"}, "Forwarded": {"1"}, "X-Sum": {"1"}})
	if got, want := string(b), "0\r\nX-Sum: 1\r\n\r\n"; err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}
