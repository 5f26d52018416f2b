package config

import "fmt"

// admin wants a listener that strangers cannot reach, or cannot use. listen is
// the address of the data port.
func (v *validator) admin(listen address) {
	a := v.cfg.Admin
	v.serverTLS("admin.tls", a.TLS)
	for i, host := range a.Hosts {
		if host == "" || !isHost(host) {
			v.fail(fmt.Sprintf("admin.hosts[%d]", i), quote(host)+" is neither a name nor an IP address", "as in fence.internal, without a port")
		}
	}
	if a.Address == "" {
		return
	}
	admin, err := parseAddress(a.Address)
	switch {
	case err != nil:
		v.fail("admin.address", err.message, err.remedy)
	case admin.unix != "":
		v.fail("admin.address", "is a unix socket, which only listen.address may be", "127.0.0.1:PORT, [::1]:PORT or localhost:PORT")
	case admin.overlaps(listen):
		v.fail("admin.address", "is taken by listen.address already", "another port")
	case admin.loopback():
	case a.TokenFile == "" && a.TLS.ClientCAFile == "":
		v.fail("admin.address", quote(a.Address)+" is not a loopback address, and anybody could change keys there",
			"127.0.0.1:PORT, [::1]:PORT or localhost:PORT; any other needs admin.token_file or admin.tls.client_ca_file")
	case !a.TLS.On() && a.TLS.ClientCAFile == "":
		v.warn("admin.tls", "is left out, and the token crosses the network for all to read", "admin.tls.cert_file and key_file")
	}
}
