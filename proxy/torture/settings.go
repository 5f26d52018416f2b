package torture

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Settings are the part of the configuration that tests vary; zero values
// stand for the proxy's own defaults.
type Settings struct {
	Upstream  string // URL
	HTTP2     bool   // to the backend; clients may speak it in any case
	Settle    time.Duration
	Response  time.Duration // response_timeout
	Drain     time.Duration // drain_timeout
	Shutdown  time.Duration // shutdown_timeout
	Unsettled []int         // unsettled_statuses
	BodyLimit string        // max_body_buffer, as in 64KiB
	Waiting   int           // max_waiting_per_key
	Key       string        // the key of the one rule; "" is thing:{id}
	Cert      string        // file of a certificate and its key, for TLS; "" for clear text
	Tokens    string        // token; "" is required
	Observe   bool          // mode: observe
	Leases    string        // address of the lease listener; "" for none
	Store     Shared        // of several proxies; the zero Shared is an embedded store
}

// Shared are the settings of a store that several proxies share.
type Shared struct {
	Engine string // as it stands below store, as in etcd: {endpoints: [http://127.0.0.1:2379]}
	TTL    time.Duration
	Margin time.Duration
	Linger time.Duration
}

// yaml writes the configuration of a proxy that fences every write under
// /things/{id}, and none under /open/{id}.
func (s Settings) yaml(listen, admin, store string) string {
	var b strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	duration := func(name string, d time.Duration) {
		if d > 0 {
			line("  %s: %s", name, d)
		}
	}
	line("listen:\n  address: %s", listen)
	if s.Cert != "" {
		line("  tls: {cert_file: %q, key_file: %q}", s.Cert, s.Cert)
	}
	line("upstream:\n  url: %s", s.Upstream)
	duration("settle", s.Settle)
	duration("response_timeout", s.Response)
	if len(s.Unsettled) > 0 {
		line("  unsettled_statuses: [%s]", strings.Trim(strings.Join(strings.Fields(fmt.Sprint(s.Unsettled)), ", "), "[]"))
	}
	line("admin:\n  address: %s", admin)
	if s.Leases != "" {
		line("leases:\n  address: %s", s.Leases)
	}
	if s.Store.Engine == "" {
		line("store:\n  embedded: {path: %q}", store)
	} else {
		line("store:\n  %s", s.Store.Engine)
		duration("session_ttl", s.Store.TTL)
		duration("margin", s.Store.Margin)
		duration("linger", s.Store.Linger)
	}
	line("fencing:\n  token: %s", cmp.Or(s.Tokens, "required"))
	if s.Observe {
		line("  mode: observe")
	}
	duration("drain_timeout", s.Drain)
	line("rules:\n  - name: things\n    path: /things/{id}\n    key: %s", cmp.Or(s.Key, "thing:{id}"))
	line("  - name: open\n    path: /open/{id}\n    token: none")
	if s.BodyLimit != "" || s.Waiting > 0 {
		line("limits:")
		if s.BodyLimit != "" {
			line("  max_body_buffer: %s", s.BodyLimit)
		}
		if s.Waiting > 0 {
			line("  max_waiting_per_key: %d", s.Waiting)
		}
	}
	if s.Shutdown > 0 {
		line("shutdown_timeout: %s", s.Shutdown)
	}
	return b.String()
}
