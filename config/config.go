// Package config is the configuration of fenceproxy: plain structs, a strict
// loader of their YAML form that reports everything wrong at once with its
// place, and the annotated reference file.
//
// It says what a file means, not what follows from it: patterns and key
// templates are read by the packages that use them, whose errors come back to
// their place in the file through Config.Errorf. It uses no other package of
// the project and has no global state; a Config is not changed after it is
// made and may then be read by any number of goroutines.
package config

import "time"

// Config is one whole configuration with its defaults filled in.
type Config struct {
	Listen   Listen   `yaml:"listen"`
	Upstream Upstream `yaml:"upstream"`
	Admin    Admin    `yaml:"admin"`
	Store    Store    `yaml:"store"`
	// Fencing holds the defaults of every rule; Config.Policy says what a
	// rule makes of them.
	Fencing Fencing `yaml:"fencing"`
	// Rules in the order of the file, with names that are unique. Without any
	// rule UnmatchedWrites decides about every write.
	Rules []Rule `yaml:"rules"`
	// UnmatchedWrites says what becomes of a write that no rule covers.
	UnmatchedWrites UnmatchedWrites `yaml:"unmatched_writes"`
	Limits          Limits          `yaml:"limits"`
	// ShutdownTimeout is how long a stop waits until nothing is in flight,
	// unsettled or quarantined (rule 12), 1ms to 24h.
	ShutdownTimeout time.Duration `yaml:"shutdown_timeout"`
	// Leases are off without an address.
	Leases  Leases  `yaml:"leases"`
	Log     Log     `yaml:"log"`
	Tracing Tracing `yaml:"tracing"`
	// Audit is the file that the lines about changes by an operator go to; "" is
	// standard error.
	Audit string `yaml:"audit"`

	origin origin
}

// Listen is where clients come in.
type Listen struct {
	// Address is host:port; port 0 takes a free one, an empty host is every
	// interface. Or it is unix:/path.
	Address string `yaml:"address"`
	// SocketMode is the mode of a unix socket's file.
	SocketMode FileMode  `yaml:"socket_mode"`
	TLS        ListenTLS `yaml:"tls"`
	// HeaderTimeout is a client's time for its request head, 1ms to 24h.
	HeaderTimeout time.Duration `yaml:"header_timeout"`
	// IdleTimeout is how long an idle connection is kept, 1ms to 24h.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// TrustedProxies are the addresses and networks of clients whose Forwarded
	// and X-Forwarded-* are kept; Trusted has them as prefixes.
	TrustedProxies []string `yaml:"trusted_proxies"`
}

// ListenTLS lets clients come in over TLS, and over nothing else. Without
// CertFile it is off, and then the others are empty.
type ListenTLS struct {
	// CertFile is the certificate with its chain, KeyFile its key, both PEM.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// ClientCAFile holds the authorities, PEM, one of which must have signed
	// the certificate that a client must then have; "" asks for none.
	ClientCAFile string `yaml:"client_ca_file"`
}

// On reports whether clients come in over TLS.
func (t ListenTLS) On() bool { return t.CertFile != "" }

// Upstream is the service behind the proxy.
type Upstream struct {
	// URL is http://, https:// or h2c://HOST[:PORT][/PATH], which url.Parse
	// reads: no user, query or fragment. PATH has no dot segment and, unless it
	// is "/", no slash at its end; it is put in front of every target. Or it is
	// the path of a unix socket, absolute and as it stands: see Socket.
	URL string `yaml:"url"`
	TLS TLS    `yaml:"tls"`
	// PreserveHost forwards the client's Host instead of the URL's.
	PreserveHost bool `yaml:"preserve_host"`
	// ConnectTimeout is the time for making a connection, 1ms to 24h.
	ConnectTimeout time.Duration `yaml:"connect_timeout"`
	// ResponseTimeout of an admitted write runs from the whole request being
	// sent to the end of the answer; of everything else to the answer's head.
	// 1ms to 24h. A write that passes it is unsettled (rule 10).
	ResponseTimeout time.Duration `yaml:"response_timeout"`
	// Settle is A1: the upstream never applies a write later than this after
	// the proxy lost sight of it. 1ms to 24h.
	Settle time.Duration `yaml:"settle"`
	// UnsettledStatuses are the final answers, 200 to 599, that do not prove
	// a write is over (rule 10). May be empty.
	UnsettledStatuses []int `yaml:"unsettled_statuses"`
}

// TLS is for an https upstream. It sets nothing for others.
type TLS struct {
	// CAFile has the authorities that the upstream's certificate has to come
	// from; "" means the system's.
	CAFile string `yaml:"ca_file"`
	// CertFile and KeyFile are the client's certificate; both or none.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// ServerName is the name in the upstream's certificate; "" means the URL's
	// host.
	ServerName string `yaml:"server_name"`
}

// Admin is the operator's listener.
type Admin struct {
	// Address is host:port; "" turns the listener off. Where it is not a loopback
	// address, TokenFile or TLS.ClientCAFile is set.
	Address string `yaml:"address"`
	// TokenFile has the bearer token that callers must know; "" for none.
	TokenFile string    `yaml:"token_file"`
	TLS       ListenTLS `yaml:"tls"`
	// Hosts are the names that a Host header may carry beside loopback: names or
	// IP addresses, without port.
	Hosts []string `yaml:"hosts"`
}

// Store says where the highest tokens are kept. Exactly one of the kinds,
// Embedded to Redis, is not nil.
type Store struct {
	Embedded *Embedded `yaml:"embedded"`
	Memory   *Memory   `yaml:"memory"`
	Etcd     *Etcd     `yaml:"etcd"`
	Postgres *Postgres `yaml:"postgres"`
	Redis    *Redis    `yaml:"redis"`
	// SessionTTL is how long a shared store keeps a proxy's session that is not
	// heard of (R1), 3s to 24h; Margin by how much earlier the proxy gives it up
	// (R5), at most half of it. Both are of meaning with a shared store.
	SessionTTL time.Duration `yaml:"session_ttl"`
	Margin     time.Duration `yaml:"margin"`
	// Linger is how long the entries of a session that is gone stay (R9), at
	// least the longest settle; 0 for just that.
	Linger time.Duration `yaml:"linger"`
	// AcceptChangedRules names the rules that may read their marks under
	// other keys than when the store was last used. Each is a rule's name.
	AcceptChangedRules []string `yaml:"accept_changed_rules"`
}

// Embedded is a store in a directory that this proxy has to itself.
type Embedded struct {
	// Path is the directory, relative to the working directory of serve.
	Path string `yaml:"path"`
	// Create makes a store where there is none; without it the start fails
	// there.
	Create bool `yaml:"create"`
}

// Memory is a store that forgets at exit.
type Memory struct{}

// Fencing is how writes of a rule carry their fencing token.
type Fencing struct {
	// Header that carries the token: letters, digits and "-", spelt as in the
	// file.
	Header string `yaml:"header"`
	Format Format `yaml:"format"`
	// Epoch goes in front of every token, 0 to 2^64-1. Where it is above 0,
	// marks are printed with it, as in 3/120. The highest that a rule has had
	// is remembered in the store, and a start with a lower one is refused.
	Epoch uint64 `yaml:"epoch"`
	Token Token  `yaml:"token"`
	Mode  Mode   `yaml:"mode"`
	Reads Reads  `yaml:"reads"`
	// DrainTimeout is how long a write waits for older writes on its key
	// (rule 7), 1ms to 24h.
	DrainTimeout time.Duration `yaml:"drain_timeout"`
	// DiscloseHighest names the highest token in the answer to a stale one.
	DiscloseHighest bool `yaml:"disclose_highest"`
	// HolderHeader names who holds the token: spelt as Header, and another
	// name than it. With it an equal token from another holder is refused; ""
	// for none.
	HolderHeader string `yaml:"holder_header"`
	// MaxToken is the highest token that is plausible; "" for no bound. It
	// has the shape of a token of Format, and is not zero. That its numbers
	// are at most 2^64-1 is for the reader of tokens to say.
	MaxToken string `yaml:"max_token"`
	// MaxJump is the same, counted from the highest token of the key: how far
	// a raise may go. Of a composite one the first number counts, and the
	// second is zero.
	MaxJump string `yaml:"max_jump"`
}

// Limits bound what the proxy holds in memory.
type Limits struct {
	// MaxBodyBuffer is the largest body, in bytes, that is read before
	// admission; 0 to 1GiB.
	MaxBodyBuffer Size `yaml:"max_body_buffer"`
	// MaxBuffered is the sum of all bodies read so, in bytes; MaxBodyBuffer
	// to 1TiB.
	MaxBuffered Size `yaml:"max_buffered"`
	// MaxHeader is the largest request head in bytes, 1KiB to 16MiB.
	MaxHeader Size `yaml:"max_header"`
	// MaxWaitingPerKey is how many writes may wait on one key, 1 to 1000000.
	MaxWaitingPerKey int `yaml:"max_waiting_per_key"`
	// MaxWaiting is how many writes may wait in all, 1 to 1000000.
	MaxWaiting int `yaml:"max_waiting"`
	// MaxKeys is how many keys the store may have a record of, 0 to 1000000000;
	// 0 stands for no limit. Stores that several proxies share have none.
	MaxKeys int `yaml:"max_keys"`
}

// Log is what goes to standard error.
type Log struct {
	Level  LogLevel  `yaml:"level"`
	Format LogFormat `yaml:"format"`
	// Access writes a line for every request.
	Access bool `yaml:"access"`
}

// Tracing sends spans to a collector.
type Tracing struct {
	// OTLPEndpoint is the http or https URL of the collector, with or without a
	// path (/v1/traces stands for none); "" makes no traces.
	OTLPEndpoint string `yaml:"otlp_endpoint"`
	// SamplePercent is how many of the requests are traced that come without a
	// decision of their client's, 0 to 100.
	SamplePercent int `yaml:"sample_percent"`
}
