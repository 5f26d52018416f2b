package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

func (v *validator) store() {
	s := v.cfg.Store
	var kinds []string
	for _, kind := range []string{"embedded", "memory", "etcd", "postgres", "redis"} {
		if v.cfg.given("store." + kind) {
			kinds = append(kinds, kind)
		}
	}
	switch {
	case len(kinds) > 1:
		v.fail("store", "names "+strings.Join(kinds, " and "), "exactly one of embedded, memory, etcd, postgres and redis")
	case len(kinds) == 0 && !v.report.Has("store"):
		v.fail("store", "names no kind", "exactly one of embedded, as in embedded: {path: ./fenceproxy-data}, memory: {}, etcd, postgres and redis")
	}
	if s.Embedded != nil && s.Embedded.Path == "" {
		v.fail("store.embedded.path", "is empty", "a directory, as in ./fenceproxy-data")
	}
	if s.Memory != nil {
		v.warn("store.memory", "forgets every token when the proxy stops", "for trying out; embedded to keep them")
	}
	v.etcd(s.Etcd)
	v.postgres(s.Postgres)
	v.redis(s.Redis)
	v.session()
	v.acceptChanged(s)
}

func (v *validator) etcd(e *Etcd) {
	if e == nil {
		return
	}
	if len(e.Endpoints) == 0 {
		v.fail("store.etcd.endpoints", "is missing", "one or more, as in [http://127.0.0.1:2379]")
	}
	secure := 0
	for i, text := range e.Endpoints {
		path := fmt.Sprintf("store.etcd.endpoints[%d]", i)
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" || u.RawQuery != "":
			v.fail(path, quote(text)+" is not the address of an etcd", "as in http://127.0.0.1:2379")
		case u.Scheme == "https":
			secure++
		}
	}
	if secure > 0 && secure < len(e.Endpoints) {
		v.fail("store.etcd.endpoints", "are partly http and partly https", "all of them the same")
	}
	if e.TLS != (TLS{}) && secure == 0 && len(e.Endpoints) > 0 && !v.bad["store.etcd.endpoints"] {
		v.fail("store.etcd.tls", "is for endpoints over https, and there are none", "leave it out, or https endpoints")
	}
	if (e.TLS.CertFile == "") != (e.TLS.KeyFile == "") {
		v.fail("store.etcd.tls", "has one of cert_file and key_file", "both, or none")
	}
	if e.Prefix == "" {
		v.fail("store.etcd.prefix", "is empty", "as in /fenceproxy/, apart from what others keep there")
	}
	if (e.Username == "") != (e.PasswordFile == "") {
		v.fail("store.etcd", "has one of username and password_file", "both, or none")
	}
}

func (v *validator) postgres(p *Postgres) {
	if p == nil {
		return
	}
	if p.URL == "" {
		v.fail("store.postgres.url", "is missing", "as in postgres://user@127.0.0.1:5432/fenceproxy")
	} else if !strings.HasPrefix(p.URL, "postgres://") && !strings.HasPrefix(p.URL, "postgresql://") {
		v.fail("store.postgres.url", "is no postgres URL", "as in postgres://user@127.0.0.1:5432/fenceproxy")
	}
	if !tablePrefix.MatchString(p.TablePrefix) {
		v.fail("store.postgres.table_prefix", quote(p.TablePrefix)+" cannot begin a table's name", "small letters, digits and _, at most 32, beginning with a letter, as in fenceproxy_")
	}
}

func (v *validator) redis(r *Redis) {
	if r == nil {
		return
	}
	switch {
	case r.URL == "":
		v.fail("store.redis.url", "is missing", "as in redis://127.0.0.1:6379/0")
	case !strings.HasPrefix(r.URL, "redis://") && !strings.HasPrefix(r.URL, "rediss://") && !strings.HasPrefix(r.URL, "unix://"):
		v.fail("store.redis.url", "is no redis URL", "as in redis://127.0.0.1:6379/0")
	}
	if r.Prefix == "" {
		v.fail("store.redis.prefix", "is empty", "as in fenceproxy:, apart from what others keep there")
	}
	if !r.AcceptLostWrites {
		v.fail("store.redis.accept_lost_writes", "is not true: a failover of Redis can lose the last raises that it acknowledged, and then stale writes pass",
			"true, if that may be; etcd or postgres, if not")
	}
}

// session looks at what the shared stores have in common.
func (v *validator) session() {
	s := v.cfg.Store
	if !s.Shared() {
		for _, name := range []string{"session_ttl", "margin", "linger"} {
			if v.cfg.given("store." + name) {
				v.fail("store."+name, "is for a store that several proxies share", "leave it out")
			}
		}
		return
	}
	v.duration("store.session_ttl", s.SessionTTL)
	v.duration("store.margin", s.Margin)
	if s.SessionTTL < 3*time.Second {
		v.fail("store.session_ttl", s.SessionTTL.String()+" is too short to be kept alive over a network", "3s or more; 10s is usual")
	} else if s.Margin > s.SessionTTL/2 {
		v.fail("store.margin", s.Margin.String()+" leaves too little of session_ttl", "at most half of it")
	}
	settle := v.longestSettle()
	if v.cfg.given("store.linger") {
		v.duration("store.linger", s.Linger)
		if s.Linger < settle {
			v.fail("store.linger", s.Linger.String()+" is below the longest settle, "+settle.String()+", so that a write of a proxy that is gone could still land (R9)", settle.String()+" or more")
		}
	}
}

// longestSettle is of all rules.
func (v *validator) longestSettle() time.Duration {
	longest := v.cfg.Upstream.Settle
	for i := range v.cfg.Rules {
		longest = max(longest, v.cfg.Policy(&v.cfg.Rules[i]).Settle)
	}
	return longest
}

func (v *validator) acceptChanged(s Store) {
	names := make([]string, len(v.cfg.Rules))
	for i, r := range v.cfg.Rules {
		names[i] = r.Name
	}
	for i, name := range s.AcceptChangedRules {
		path := fmt.Sprintf("store.accept_changed_rules[%d]", i)
		if slices.Contains(names, name) {
			v.warn(path, "lets every later change of the keys of rule "+name+" pass as well", "take it out again after one start")
			continue
		}
		remedy := "the name of a rule"
		if near := nearest(name, names); near != "" {
			remedy = "did you mean " + near + "?"
		}
		v.fail(path, "no rule has the name "+quote(name), remedy)
	}
}
