package config

import "time"

// Leases is where clients ask for leases.
type Leases struct {
	// Address is host:port; "" turns leases off. Unless it is a loopback one,
	// there is a TokenFile or a TLS.ClientCAFile.
	Address string `yaml:"address"`
	// TokenFile holds what clients have to show; "" for nothing.
	TokenFile string    `yaml:"token_file"`
	TLS       ListenTLS `yaml:"tls"`
	// DefaultTTL is what a lease lives that is asked for without, 100ms to
	// MaxTTL; MaxTTL is the longest that may be asked for, to 24h.
	DefaultTTL time.Duration `yaml:"default_ttl"`
	MaxTTL     time.Duration `yaml:"max_ttl"`
	// MaxHeld is how many leases may be held at a time, 1 to 1000000.
	MaxHeld int `yaml:"max_held"`
}

// On reports whether there are leases.
func (l Leases) On() bool { return l.Address != "" }

// Loopback reports whether only this machine can ask for leases.
func (l Leases) Loopback() bool {
	a, err := parseAddress(l.Address)
	return err == nil && a.loopback()
}

// minTTL is the shortest life of a lease that a network can keep alive.
const minTTL = 100 * time.Millisecond

func (v *validator) leases() {
	l := v.cfg.Leases
	v.ttl("leases.default_ttl", l.DefaultTTL)
	v.ttl("leases.max_ttl", l.MaxTTL)
	v.count("leases.max_held", l.MaxHeld)
	if l.DefaultTTL > l.MaxTTL && !v.bad["leases.max_ttl"] {
		v.fail("leases.default_ttl", l.DefaultTTL.String()+" is above max_ttl", "at most "+l.MaxTTL.String())
	}
	v.serverTLS("leases.tls", l.TLS)
	if !l.On() {
		for _, name := range []string{"token_file", "tls"} {
			if v.cfg.given("leases."+name) && (l.TokenFile != "" || l.TLS != ListenTLS{}) {
				v.warn("leases."+name, "counts only with leases.address, and there is none", "leases.address, or leave it out")
			}
		}
		return
	}
	at, err := parseAddress(l.Address)
	switch {
	case err != nil:
		v.fail("leases.address", err.message, err.remedy)
		return
	case at.unix != "":
		v.fail("leases.address", "is a unix socket, which only listen.address may be", "host:port, as in 127.0.0.1:8090")
		return
	case !at.loopback() && l.TokenFile == "" && l.TLS.ClientCAFile == "":
		v.fail("leases.address", quote(l.Address)+" is not a loopback address, and whoever reaches it could take every lease",
			"leases.token_file or leases.tls.client_ca_file beside it; or 127.0.0.1:PORT, [::1]:PORT or localhost:PORT")
	}
	if !at.loopback() && l.TokenFile != "" && !l.TLS.On() {
		v.warn("leases.token_file", "goes over the network in clear text", "leases.tls.cert_file and key_file")
	}
	for _, other := range []struct{ setting, address string }{{"listen.address", v.cfg.Listen.Address}, {"admin.address", v.cfg.Admin.Address}} {
		if a, err := parseAddress(other.address); err == nil && at.overlaps(a) {
			v.fail("leases.address", "is taken by "+other.setting+" already", "another port")
		}
	}
}

func (v *validator) ttl(path string, d time.Duration) {
	if d < minTTL || d > maxDuration {
		v.fail(path, d.String()+" is out of range", "100ms to 24h")
	}
}
