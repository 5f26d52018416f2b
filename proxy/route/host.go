package route

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// hostValue is the host that the request names: small letters, without a port
// and a trailing dot. Servers choose a virtual host by its name alone, so the
// port makes no other resource.
func hostValue(r *http.Request) (value, why string) {
	// net/http keeps Host out of the header; a request that has it there has
	// two of them.
	if _, twice := r.Header["Host"]; twice {
		return "", "is given twice; send one Host"
	}
	host, port, hasPort := r.Host, "", false
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host, port, hasPort = host[:i], host[i+1:], true
	}
	const bad = "is not a valid host; send Host as name or name:port"
	if hasPort && port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || strconv.FormatUint(n, 10) != port {
			return "", bad
		}
	}
	if strings.HasPrefix(host, "[") {
		addr, err := netip.ParseAddr(strings.TrimSuffix(host[1:], "]"))
		if err != nil || !addr.Is6() || addr.Zone() != "" || !strings.HasSuffix(host, "]") {
			return "", bad
		}
		host = "[" + addr.String() + "]"
	} else {
		host = strings.TrimSuffix(lower(host), ".")
		for i := range len(host) {
			if !unreserved[host[i]] || host[i] == '.' && (i == 0 || host[i-1] == '.') {
				return "", bad
			}
		}
		if strings.HasSuffix(host, ".") {
			return "", bad
		}
	}
	return host, ""
}
