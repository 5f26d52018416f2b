package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"time"
)

// Rule says which requests are fenced and by which resource key.
type Rule struct {
	// Name is a letter and up to 62 letters, digits, "_" or "-"; unique.
	Name string `yaml:"name"`
	// Paths are patterns that begin with "/", at least one. What they mean is
	// read by the package that matches them.
	Paths []string `yaml:"path,one"`
	// Methods in upper case, each once; nil stands for every method that is
	// not safe.
	Methods []string `yaml:"methods"`
	// Key is the template of the resource key, and Keys are those of a request
	// that writes to 1 to 16 resources at once. Exactly one of them is set,
	// except where no token is asked for; Config.Keys gives either.
	Key  string `yaml:"key"`
	Keys []Key  `yaml:"keys"`
	// WebSocket lets websocket handshakes pass on the rule's paths, whatever
	// its methods are.
	WebSocket bool `yaml:"websocket"`

	Overrides `yaml:",inline"`
}

// Key is one resource of a request.
type Key struct {
	// Template of the resource key. What it means is read by the package that
	// makes keys.
	Template string `yaml:"key"`
	// Header that carries the token for it, as Fencing.Header; "" in Rule.Keys
	// stands for the rule's.
	Header string `yaml:"header"`
}

// Overrides are the settings that a rule may set for itself; nil leaves the
// default. Their ranges are those of the defaults.
type Overrides struct {
	Header          *string        `yaml:"header"`
	Format          *Format        `yaml:"format"`
	Epoch           *uint64        `yaml:"epoch"`
	Token           *Token         `yaml:"token"`
	Mode            *Mode          `yaml:"mode"`
	Reads           *Reads         `yaml:"reads"`
	DrainTimeout    *time.Duration `yaml:"drain_timeout"`
	DiscloseHighest *bool          `yaml:"disclose_highest"`
	HolderHeader    *string        `yaml:"holder_header"`
	MaxToken        *string        `yaml:"max_token"`
	MaxJump         *string        `yaml:"max_jump"`
	ResponseTimeout *time.Duration `yaml:"response_timeout"`
	Settle          *time.Duration `yaml:"settle"`
	// PathPolicy has no default that a file can set: without it only canonical
	// targets pass.
	PathPolicy *PathPolicy `yaml:"path_policy"`
}

// Policy is what holds for one rule: the defaults with its overrides. Two
// rules with equal policies are treated alike, but for their paths, methods
// and keys.
type Policy struct {
	Fencing
	ResponseTimeout time.Duration // as Upstream.ResponseTimeout
	Settle          time.Duration // as Upstream.Settle
	PathPolicy      PathPolicy
}

// Policy returns what holds for r: the settings of fencing and upstream, each
// replaced where r sets it. r need not be one of c.Rules; a rule without
// overrides gives the defaults.
func (c *Config) Policy(r *Rule) Policy {
	p := Policy{Fencing: c.Fencing, ResponseTimeout: c.Upstream.ResponseTimeout, Settle: c.Upstream.Settle, PathPolicy: defaultPathPolicy()}
	override(&p.Header, r.Header)
	override(&p.Format, r.Format)
	override(&p.Epoch, r.Epoch)
	override(&p.Token, r.Token)
	override(&p.Mode, r.Mode)
	override(&p.Reads, r.Reads)
	override(&p.DrainTimeout, r.DrainTimeout)
	override(&p.DiscloseHighest, r.DiscloseHighest)
	override(&p.HolderHeader, r.HolderHeader)
	override(&p.MaxToken, r.MaxToken)
	override(&p.MaxJump, r.MaxJump)
	override(&p.ResponseTimeout, r.ResponseTimeout)
	override(&p.Settle, r.Settle)
	override(&p.PathPolicy, r.PathPolicy)
	return p
}

// Keys returns the resources of a request that r covers, in the order of the
// file, each with the header that carries its token: the one of Rule.Key, or
// all of Rule.Keys. It is empty where r asks for no token.
func (c *Config) Keys(r *Rule) []Key {
	p := c.Policy(r)
	if p.Token == TokenNone {
		return nil
	}
	if len(r.Keys) == 0 {
		return []Key{{Template: r.Key, Header: p.Header}}
	}
	keys := slices.Clone(r.Keys)
	for i := range keys {
		keys[i].Header = cmp.Or(keys[i].Header, p.Header)
	}
	return keys
}

// Setting returns the path of what decides a setting of c.Rules[i], for
// Errorf and Report.Has: the rule's own, as in rules[0].max_token, where the
// file has it, else its default, as in fencing.max_token. name is one of the
// settings in Overrides.
func (c *Config) Setting(i int, name string) string {
	own := fmt.Sprintf("rules[%d].%s", i, name)
	if c.given(own) {
		return own
	}
	if _, ok := fieldsOf(reflect.TypeFor[Fencing]())[name]; ok {
		return join("fencing", name)
	}
	if _, ok := fieldsOf(reflect.TypeFor[Upstream]())[name]; ok {
		return join("upstream", name)
	}
	return own
}

func override[T any](to *T, by *T) {
	if by != nil {
		*to = *by
	}
}
