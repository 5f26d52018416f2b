package config

import "strings"

// upstreamTLS looks at what can be said without reading a file.
func (v *validator) upstreamTLS() {
	t, clear := v.cfg.Upstream.TLS, !strings.HasPrefix(strings.ToLower(v.cfg.Upstream.URL), "https:")
	for _, s := range []struct{ name, value string }{
		{"ca_file", t.CAFile}, {"cert_file", t.CertFile}, {"key_file", t.KeyFile}, {"server_name", t.ServerName},
	} {
		if s.value != "" && clear && v.cfg.Upstream.URL != "" && !v.bad["upstream.url"] {
			v.fail("upstream.tls."+s.name, "is for an upstream over https, and upstream.url is none", "leave it out, or an https URL")
		}
	}
	switch {
	case t.CertFile != "" && t.KeyFile == "":
		v.fail("upstream.tls.cert_file", "needs its key", "key_file beside it")
	case t.KeyFile != "" && t.CertFile == "":
		v.fail("upstream.tls.key_file", "needs its certificate", "cert_file beside it")
	}
	if t.ServerName != "" && !isHost(t.ServerName) {
		v.fail("upstream.tls.server_name", quote(t.ServerName)+" is neither a name nor an IP address", "a name in the upstream's certificate")
	}
}
