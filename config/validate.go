package config

import (
	"fmt"
	"slices"
	"time"
)

const (
	minDuration = time.Millisecond
	maxDuration = 24 * time.Hour
	maxWaiting  = 1_000_000
)

// validator looks at values that could be read: each by itself, then against
// each other. A setting that could not be read is not told of a second time.
type validator struct {
	cfg    *Config
	report *Report
	bad    map[string]bool
}

func validate(cfg *Config, report *Report, bad map[string]bool) {
	if bad[""] { // the file holds no settings at all
		return
	}
	v := &validator{cfg: cfg, report: report, bad: bad}
	v.listeners()
	v.upstream()
	v.store()
	v.fencing("fencing", cfg.Fencing, func(string) bool { return true })
	v.rules()
	v.limits()
	v.tracing()
	v.shutdown()
	v.leases()
}

// problem is one at a setting; ok is false where that setting, or what holds
// it, has been told of.
func (v *validator) problem(path, message, remedy string) (p Problem, ok bool) {
	for around := path; around != ""; around = parent(around) {
		if v.bad[around] {
			return Problem{}, false
		}
	}
	p = v.cfg.Errorf(path, "%s", message)
	p.Remedy = remedy
	return p, true
}

func (v *validator) fail(path, message, remedy string) {
	if p, ok := v.problem(path, message, remedy); ok {
		v.report.Errors = append(v.report.Errors, p)
		v.bad[path] = true
	}
}

func (v *validator) warn(path, message, remedy string) {
	if p, ok := v.problem(path, message, remedy); ok {
		v.report.Warnings = append(v.report.Warnings, p)
	}
}

func (v *validator) duration(path string, d time.Duration) {
	if d < minDuration || d > maxDuration {
		v.fail(path, d.String()+" is out of range", "1ms to 24h")
	}
}

func (v *validator) size(path string, s, least, most Size) {
	if s < least || s > most {
		v.fail(path, s.String()+" is out of range", least.String()+" to "+most.String())
	}
}

func (v *validator) count(path string, n int) {
	if n < 1 || n > maxWaiting {
		v.fail(path, fmt.Sprintf("%d is out of range", n), fmt.Sprintf("1 to %d", maxWaiting))
	}
}

func (v *validator) listeners() {
	l := v.cfg.Listen
	v.duration("listen.header_timeout", l.HeaderTimeout)
	v.duration("listen.idle_timeout", l.IdleTimeout)
	v.trusted()
	listen, err := parseAddress(l.Address)
	if err != nil {
		v.fail("listen.address", err.message, err.remedy)
	}
	v.socketMode(listen)
	v.serverTLS("listen.tls", l.TLS)
	v.admin(listen)
}

// socketMode looks for a mode that says nothing, or locks everybody out.
func (v *validator) socketMode(listen address) {
	mode := v.cfg.Listen.SocketMode
	switch {
	case mode&0o200 == 0:
		v.fail("listen.socket_mode", mode.String()+" keeps even the proxy's own user from connecting", `"0660", or another that has write for its owner`)
	case listen.unix == "" && !v.bad["listen.address"] && v.cfg.given("listen.socket_mode") && mode != Default().Listen.SocketMode:
		v.warn("listen.socket_mode", "counts only for a unix socket, and listen.address is none", "leave it out")
	}
}

// serverTLS wants files that go together. What is in them is read where they
// are used.
func (v *validator) serverTLS(path string, t ListenTLS) {
	switch {
	case t.On() && t.KeyFile == "":
		v.fail(path+".key_file", "is missing", "the file of the certificate's key")
	case !t.On() && (t.KeyFile != "" || t.ClientCAFile != ""):
		v.fail(path+".cert_file", "is missing", "the file of the certificate; or leave "+path+" out for plain HTTP")
	}
}

func (v *validator) upstream() {
	u := v.cfg.Upstream
	if u.URL == "" {
		v.fail("upstream.url", "is missing", "the service to protect, as in http://127.0.0.1:9000")
	} else if to, err := parseURL(u.URL); err != nil {
		v.fail("upstream.url", err.message, err.remedy)
	} else if listen, err := parseAddress(v.cfg.Listen.Address); err == nil && to.loopback() && to.overlaps(listen) {
		v.fail("upstream.url", "is listen.address, the proxy itself", "the service to protect")
	}
	v.upstreamTLS()
	v.duration("upstream.connect_timeout", u.ConnectTimeout)
	v.duration("upstream.response_timeout", u.ResponseTimeout)
	v.duration("upstream.settle", u.Settle)
	for i, status := range u.UnsettledStatuses {
		path := fmt.Sprintf("upstream.unsettled_statuses[%d]", i)
		switch {
		case status < 200 || status > 599:
			v.fail(path, fmt.Sprintf("%d is not a final status", status), "200 to 599")
		case slices.Contains(u.UnsettledStatuses[:i], status):
			v.fail(path, fmt.Sprintf("%d stands twice", status), "once")
		}
	}
}

// maxStored is the highest limits.max_keys.
const maxStored = 1_000_000_000

func (v *validator) limits() {
	l := v.cfg.Limits
	v.size("limits.max_body_buffer", l.MaxBodyBuffer, 0, 1<<30)
	v.size("limits.max_buffered", l.MaxBuffered, 0, 1<<40)
	v.size("limits.max_header", l.MaxHeader, 1<<10, 16<<20)
	v.count("limits.max_waiting_per_key", l.MaxWaitingPerKey)
	v.count("limits.max_waiting", l.MaxWaiting)
	if l.MaxKeys < 0 || l.MaxKeys > maxStored {
		v.fail("limits.max_keys", fmt.Sprintf("%d is out of range", l.MaxKeys), fmt.Sprintf("0 to %d; 0 for no limit", maxStored))
	}
	if s := v.cfg.Store; l.MaxKeys > 0 && (s.Etcd != nil || s.Postgres != nil || s.Redis != nil) {
		// Every raise of a new key would have to count the keys of all proxies.
		v.fail("limits.max_keys", "is for a store of one proxy: nobody counts the keys of one that several share", "leave it out, and limit the space of the store itself")
	}
	if l.MaxBuffered < l.MaxBodyBuffer && !v.bad["limits.max_body_buffer"] {
		v.fail("limits.max_buffered", l.MaxBuffered.String()+" does not hold one body of max_body_buffer", l.MaxBodyBuffer.String()+" or more")
	}
	if l.MaxWaiting < l.MaxWaitingPerKey && !v.bad["limits.max_waiting_per_key"] {
		v.warn("limits.max_waiting", "is below max_waiting_per_key, so that one key can take it all", fmt.Sprintf("%d or more", l.MaxWaitingPerKey))
	}
}

// shutdown warns where a stop may give up on writes that are on their way in
// good order: it then ends without its marker (rule 12), and the next start
// quarantines.
func (v *validator) shutdown() {
	v.duration("shutdown_timeout", v.cfg.ShutdownTimeout)
	longest := v.cfg.Upstream.ResponseTimeout + v.cfg.Upstream.Settle
	for i := range v.cfg.Rules {
		p, path := v.cfg.Policy(&v.cfg.Rules[i]), fmt.Sprintf("rules[%d]", i)
		if v.bad[path+".response_timeout"] || v.bad[path+".settle"] {
			continue
		}
		longest = max(longest, p.ResponseTimeout+p.Settle)
	}
	if v.cfg.ShutdownTimeout < longest {
		v.warn("shutdown_timeout", v.cfg.ShutdownTimeout.String()+" is below response_timeout + settle, so that a stop may end unclean", longest.String()+" or more")
	}
}
