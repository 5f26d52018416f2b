// Package guard keeps out of an operator's listener whom it is not meant for:
// callers without its token, and browsers that were led there.
package guard

import (
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
)

// Options say who is let in.
type Options struct {
	// Token, where it is not nil, is what a caller has to know.
	Token *Token
	// Hosts are the names that a Host header may carry, beside localhost and the
	// loopback addresses: any other name may have been made up by the page that
	// led a browser here (DNS rebinding).
	Hosts []string
	// AnyHost lets every Host through: callers have something to show that no
	// page has, and know the listener by names that nobody has listed.
	AnyHost bool
	// Refuse answers in the words of the API: 401, 403 or 415.
	Refuse func(w http.ResponseWriter, status int, detail string)
	// BodyTypes are the content types of requests that change something; none
	// stands for application/json. A browser sends none of them to a stranger
	// without having asked first.
	BodyTypes []string
	// BodyTimeout is a caller's time for its body: 10s.
	BodyTimeout time.Duration
	// Log is told of those that are kept out; nil tells nobody.
	Log *zap.Logger
}

// Guard lets requests through or answers them.
type Guard struct {
	o     Options
	hosts map[string]bool
}

// New returns a guard.
func New(o Options) *Guard {
	if len(o.BodyTypes) == 0 {
		o.BodyTypes = []string{"application/json"}
	}
	if o.BodyTimeout <= 0 {
		o.BodyTimeout = 10 * time.Second
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	g := &Guard{o: o, hosts: map[string]bool{}}
	for _, h := range o.Hosts {
		g.hosts[small(h)] = true
	}
	return g
}

// Wrap asks for the host and the token, and that no browser sends the request.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			// Also for what net/http reads of a body that the handler leaves, before
			// it sends the answer. Without a body there is a watch for a caller that
			// leaves, and a deadline would end it.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(g.o.BodyTimeout))
		}
		if g.host(w, r) && g.origin(w, r) && g.token(w, r) && g.change(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}

// Trusts reports whether the Host of a request means this listener and nothing
// else.
func (g *Guard) Trusts(r *http.Request) bool {
	host := small(hostOf(r.Host))
	return g.o.AnyHost || loopback(host) || g.hosts[host]
}

func (g *Guard) host(w http.ResponseWriter, r *http.Request) bool {
	if g.Trusts(r) {
		return true
	}
	g.refuse(w, r, http.StatusForbidden, "the Host header must be localhost, a loopback address, or one of the configured hosts")
	return false
}

// Knows reports whether a request carries the token, where one is asked for.
func (g *Guard) Knows(r *http.Request) bool {
	return g.o.Token == nil || g.o.Token.In(r)
}

func (g *Guard) token(w http.ResponseWriter, r *http.Request) bool {
	if g.Knows(r) {
		return true
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	detail := "this listener asks for a token: send Authorization: Bearer with it (fenceproxy keys and lock: --token-file FILE)"
	// How near it was to the right one is not told: only that there was something.
	if strings.Join(r.Header.Values("Authorization"), "") != "" {
		detail = "the token that was sent is not the one of this listener: send what its token_file holds, once, as Authorization: Bearer (admin and leases have each a file; fenceproxy keys and lock: --token-file FILE)"
	}
	g.refuse(w, r, http.StatusUnauthorized, detail)
	return false
}

// origin refuses what a browser says of the page that it asks for.
func (g *Guard) origin(w http.ResponseWriter, r *http.Request) bool {
	if len(r.Header.Values("Origin")) == 0 {
		return true
	}
	g.refuse(w, r, http.StatusForbidden, "this is not for browsers: requests with an Origin header are refused")
	return false
}

// change looks at requests that are not safe. Simple forms of another origin
// have none of the content types.
func (g *Guard) change(w http.ResponseWriter, r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return true
	}
	if types := r.Header.Values("Content-Type"); len(types) == 1 {
		if slices.Contains(g.o.BodyTypes, types[0]) { // as mostly: nothing to parse
			return true
		}
		if kind, _, err := mime.ParseMediaType(types[0]); err == nil {
			if slices.Contains(g.o.BodyTypes, kind) {
				return true
			}
		}
	}
	g.refuse(w, r, http.StatusUnsupportedMediaType, fmt.Sprintf("changes need Content-Type: %s", strings.Join(g.o.BodyTypes, " or ")))
	return false
}

func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, status int, detail string) {
	g.o.Log.Info("a request was kept out", zap.String("peer", r.RemoteAddr), zap.String("method", r.Method), zap.String("path", r.URL.EscapedPath()),
		zap.Int("status", status), zap.String("why", detail))
	Unread(w, r)
	g.o.Refuse(w, status, detail)
}

// Unread says, before the answer, that nobody will read the body: net/http would
// wait for some of it before it sends the answer.
func Unread(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
	}
}

func hostOf(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok { // half a pair is no address
			return inner
		}
	}
	return host
}

// small makes small letters of ASCII alone: what Unicode folds to a name's letters
// is another name.
func small(host string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, host)
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
