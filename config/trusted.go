package config

import (
	"fmt"
	"net/netip"
)

// Trusted returns TrustedProxies as prefixes.
func (l Listen) Trusted() []netip.Prefix {
	var all []netip.Prefix
	for _, s := range l.TrustedProxies {
		if p, err := parseNetwork(s); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// parseNetwork reads an address, or a network as ADDRESS/BITS.
func parseNetwork(s string) (netip.Prefix, *wrong) {
	const right = "as in 10.0.0.0/8, 192.0.2.7 or fd00::/8"
	if ip, err := netip.ParseAddr(s); err == nil && ip.Zone() == "" {
		ip = ip.Unmap()
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil || p.Addr().Is4In6():
		return p, &wrong{quote(s) + " is neither an IP address nor a network", right}
	case p.Masked() != p:
		return p, &wrong{quote(s) + " has bits behind its network", p.Masked().String() + ", or " + p.Addr().String() + " alone"}
	}
	return p, nil
}

func (v *validator) trusted() {
	for i, s := range v.cfg.Listen.TrustedProxies {
		path := fmt.Sprintf("listen.trusted_proxies[%d]", i)
		switch p, err := parseNetwork(s); {
		case err != nil:
			v.fail(path, err.message, err.remedy)
		case p.Bits() == 0:
			v.warn(path, "believes every client what it says of itself in X-Forwarded-*", "the addresses of your proxies")
		}
	}
}
