package config

import "time"

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
	// Key is the template of the resource key; "" only where no token is
	// asked for.
	Key string `yaml:"key"`

	Overrides `yaml:",inline"`
}

// Overrides are the settings that a rule may set for itself; nil leaves the
// default. Their ranges are those of the defaults.
type Overrides struct {
	Header          *string        `yaml:"header"`
	Format          *Format        `yaml:"format"`
	Token           *Token         `yaml:"token"`
	DrainTimeout    *time.Duration `yaml:"drain_timeout"`
	DiscloseHighest *bool          `yaml:"disclose_highest"`
	ResponseTimeout *time.Duration `yaml:"response_timeout"`
	Settle          *time.Duration `yaml:"settle"`
}

// Policy is what holds for one rule: the defaults with its overrides.
type Policy struct {
	Fencing
	ResponseTimeout time.Duration // as Upstream.ResponseTimeout
	Settle          time.Duration // as Upstream.Settle
}

// Policy returns what holds for r: the settings of fencing and upstream, each
// replaced where r sets it. r need not be one of c.Rules; a rule without
// overrides gives the defaults.
func (c *Config) Policy(r *Rule) Policy {
	p := Policy{Fencing: c.Fencing, ResponseTimeout: c.Upstream.ResponseTimeout, Settle: c.Upstream.Settle}
	override(&p.Header, r.Header)
	override(&p.Format, r.Format)
	override(&p.Token, r.Token)
	override(&p.DrainTimeout, r.DrainTimeout)
	override(&p.DiscloseHighest, r.DiscloseHighest)
	override(&p.ResponseTimeout, r.ResponseTimeout)
	override(&p.Settle, r.Settle)
	return p
}

func override[T any](to *T, by *T) {
	if by != nil {
		*to = *by
	}
}
