// Package shared holds several real proxies over one real store against the
// promises of the protocol, section 3: the built binary as processes, etcd and
// PostgreSQL as processes, a backend with a history, and between all of them
// relays that can stop passing bytes. It is tests only.
package shared
