package config

import (
	"regexp"
	"time"
)

// Etcd is a store that several proxies share.
type Etcd struct {
	// Endpoints are http or https URLs, all of one kind, at least one.
	Endpoints []string `yaml:"endpoints"`
	// Prefix begins the name of everything that is kept there.
	Prefix string `yaml:"prefix"`
	// Username and PasswordFile are both set or neither.
	Username     string `yaml:"username"`
	PasswordFile string `yaml:"password_file"`
	// TLS is for https endpoints.
	TLS TLS `yaml:"tls"`
}

// Postgres is a store that several proxies share.
type Postgres struct {
	URL string `yaml:"url"`
	// TablePrefix begins the names of its tables.
	TablePrefix string `yaml:"table_prefix"`
}

var tablePrefix = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)

// Redis is a store that several proxies share, and that can lose raises.
type Redis struct {
	URL string `yaml:"url"`
	// Prefix begins the name of everything that is kept there.
	Prefix string `yaml:"prefix"`
	// AcceptLostWrites has to be said: a failover can lose the last raises.
	AcceptLostWrites bool `yaml:"accept_lost_writes"`
}

func (e *Etcd) setDefaults() { e.Prefix = "/fenceproxy/" }

func (p *Postgres) setDefaults() { p.TablePrefix = "fenceproxy_" }

func (r *Redis) setDefaults() { r.Prefix = "fenceproxy:" }

// Shared reports whether several proxies may use the store.
func (s *Store) Shared() bool { return s.Etcd != nil || s.Postgres != nil || s.Redis != nil }

// The defaults of what shared stores have in common; linger is settle.
const (
	defaultSessionTTL = 10 * time.Second
	defaultMargin     = 2 * time.Second
)
