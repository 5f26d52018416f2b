package lease

import (
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// guard lets in who may ask. A browser may not: whatever page it shows could
// take leases, and with them raise tokens.
func (a *api) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// For the body, and for what net/http reads of one that is refused.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(a.BodyTimeout))
		changes := r.Method != http.MethodGet && r.Method != http.MethodHead
		switch {
		case a.Loopback && !localHost(r.Host):
			refuse(w, http.StatusForbidden, "the Host header must be localhost or a loopback address")
		case len(r.Header["Origin"]) > 0:
			refuse(w, http.StatusForbidden, "this is not for browsers: send no Origin header")
		case a.Bearer != nil && !a.Bearer.allows(r):
			w.Header().Set("WWW-Authenticate", "Bearer")
			closing(w)
			wire.NewProblem(wire.Unauthorized, "show the token of leases.token_file, as in Authorization: Bearer TOKEN").Write(w)
		case changes && !isJSON(r.Header.Get("Content-Type")):
			refuse(w, http.StatusUnsupportedMediaType, "send the body as Content-Type: application/json")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// refuse answers a request of which the body is not read.
func refuse(w http.ResponseWriter, status int, detail string) {
	closing(w)
	p := wire.NewProblem(wire.LeaseMalformed, detail)
	p.Status = status
	p.Write(w)
}

// closing keeps net/http from waiting for the rest of a body that nobody wants
// before the answer leaves.
func closing(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
}

func isJSON(contentType string) bool {
	t, _, err := mime.ParseMediaType(contentType)
	return err == nil && t == "application/json"
}

func localHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
