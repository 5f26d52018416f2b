package config

import "strings"

// Flags are the flags of serve without a file. Each is as the user gave it;
// DefaultFlags has what they are otherwise.
type Flags struct {
	Upstream string // --upstream, required: upstream.url
	Listen   string // --listen: listen.address
	Data     string // --data: store.embedded.path, made where it is missing
	Admin    string // --admin: admin.address, "" for none
	Key      string // --key: the key template of the one rule
}

// DefaultFlags returns the flags' defaults; Upstream has none.
func DefaultFlags() Flags {
	d, e := Default(), Embedded{}
	e.setDefaults()
	return Flags{Listen: d.Listen.Address, Data: e.Path, Admin: d.Admin.Address, Key: "{path}"}
}

// FromFlags returns the configuration of serve without a file: one rule named
// all that fences every write on every path, and an embedded store. All that
// is wrong is reported at once, each under the name of its flag, as is what
// Config.Errorf makes of it. As with Load, the Config is fit for use only
// where Report.Err is nil. Variables in flags are not expanded: the shell
// does that.
func FromFlags(f Flags) (*Config, Report) {
	c := Default()
	c.Upstream.URL = f.Upstream
	c.Listen.Address = f.Listen
	c.Admin.Address = f.Admin
	c.Store.Embedded = &Embedded{Path: f.Data, Create: true}
	c.Rules = []Rule{{Name: "all", Paths: []string{"/*"}, Key: f.Key}}
	c.origin.flags = map[string]string{
		"upstream.url":        "--upstream",
		"listen.address":      "--listen",
		"admin.address":       "--admin",
		"store.embedded":      "--data",
		"store.embedded.path": "--data",
		"rules[0].key":        "--key",
	}
	var report Report
	validate(c, &report, map[string]bool{})
	if spelling(f.Key) {
		report.Warn(c.warnSpelling())
	}
	return c, report
}

// spelling reports whether a key template takes the path as it is spelt.
func spelling(template string) bool {
	return strings.Contains(template, "{path") || strings.Contains(template, "{*")
}

func (c *Config) warnSpelling() Problem {
	p := c.Errorf("rules[0].key", "paths that differ in letter case or in a slash at the end count as different resources")
	p.Remedy = "a configuration file with a rule for each kind of path, where the upstream takes them for one"
	return p
}
