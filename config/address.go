package config

import (
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
)

// address is a host:port taken apart, where the host of every interface is "",
// or the path of a unix socket.
type address struct {
	host string
	port int
	unix string // "" for host:port
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?$`)

// parseAddress reads host:port or unix:/path. It resolves nothing.
func parseAddress(s string) (address, *wrong) {
	const right = "host:port, as in 127.0.0.1:8080"
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		return address{unix: path}, checkSocket(path)
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return address{}, &wrong{quote(s) + " is not an address", right}
	}
	n, err := parseDigits(port)
	if err != nil || n > 65535 {
		return address{}, &wrong{"the port of " + quote(s) + " is not a number from 0 to 65535", right}
	}
	if !isHost(host) {
		return address{}, &wrong{"the host of " + quote(s) + " is neither a name nor an IP address", right}
	}
	return address{host: host, port: int(n)}, nil
}

// isHost reports whether host is a name, an IP address or "". What looks like
// an IPv4 address must be one: resolvers read 127.1 and 0x7f.1 in their own
// ways.
func isHost(host string) bool {
	if host == "" {
		return true
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Zone() == "" || hostName.MatchString(ip.Zone()) // netip takes any text for a zone
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	return hostName.MatchString(host) && (last == "" || last[0] < '0' || last[0] > '9')
}

func (a address) loopback() bool {
	ip, err := netip.ParseAddr(a.host)
	return err == nil && ip.Unmap().IsLoopback() || strings.EqualFold(a.host, "localhost")
}

// everywhere reports whether a is every interface of the machine.
func (a address) everywhere() bool {
	ip, err := netip.ParseAddr(a.host)
	return a.unix == "" && (a.host == "" || err == nil && ip.IsUnspecified())
}

// overlaps reports whether a and b certainly are one socket.
func (a address) overlaps(b address) bool {
	if a.unix != "" || b.unix != "" {
		return a.unix == b.unix
	}
	return a.port == b.port && a.port != 0 && (strings.EqualFold(a.host, b.host) || a.everywhere() || b.everywhere())
}

// parseURL reads the upstream's URL.
func parseURL(s string) (address, *wrong) {
	const right = "as in http://127.0.0.1:9000"
	if path, ok := Socket(s); ok {
		return address{}, checkSocket(path)
	}
	if strings.Contains(s, "@") {
		// It may be a password: it is not shown.
		return address{}, &wrong{"holds a user name or a password", right + "; clients' own Authorization headers pass"}
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Opaque != "" && isHTTP(u):
		return address{}, &wrong{quote(s) + " is not a URL", right}
	case !isHTTP(u):
		return address{}, &wrong{quote(s) + " is not an http, https or h2c URL", right}
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(s, "#"):
		return address{}, &wrong{quote(s) + " has a query or a fragment", right}
	case u.Hostname() == "":
		return address{}, &wrong{quote(s) + " has no host", right}
	}
	port := "80"
	if u.Scheme == "https" {
		port = "443"
	}
	if u.Port() != "" || strings.HasSuffix(u.Host, ":") {
		port = u.Port()
	}
	n, err := parseDigits(port)
	if err != nil || n < 1 || n > 65535 {
		return address{}, &wrong{"the port of " + quote(s) + " is not a number from 1 to 65535", right}
	}
	if !isHost(u.Hostname()) {
		return address{}, &wrong{"the host of " + quote(s) + " is neither a name nor an IP address", right}
	}
	if !plainPath(u) {
		return address{}, &wrong{"the path of " + quote(s) + " is not canonical", "segments that are neither empty nor dots, without a slash at the end, as in http://127.0.0.1:9000/api"}
	}
	return address{host: u.Hostname(), port: int(n)}, nil
}

// isHTTP takes h2c for the HTTP that it is: cleartext HTTP/2.
func isHTTP(u *url.URL) bool {
	return u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "h2c"
}

var pathText = regexp.MustCompile(`^(/[A-Za-z0-9._~!$&'()*+,=:@-]+)*$`)

// plainPath reports whether the URL's path can be put in front of a canonical
// target without making it another. Escapes are left out: no service is known
// by them.
func plainPath(u *url.URL) bool {
	path := u.EscapedPath()
	if path == "/" {
		return true
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return false
		}
	}
	return pathText.MatchString(path)
}
