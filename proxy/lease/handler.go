package lease

import (
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/proxy/guard"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// HandlerOptions of the lease API.
type HandlerOptions struct {
	Issuer *Issuer
	// Token is what clients have to show; nil for nothing.
	Token *guard.Token
	// Loopback says that the listener can be reached from this machine alone:
	// then the Host of a request must be a loopback name, which keeps browsers
	// out that were led here by a foreign one. What any other page shows could take
	// leases, and with them raise tokens.
	Loopback bool
	// BodyTimeout is a client's time for its body: 10s.
	BodyTimeout time.Duration
	// Log is told of requests that are kept out; nil tells nobody.
	Log *zap.Logger
}

// NewHandler returns the lease API. It is safe for concurrent use.
func NewHandler(o HandlerOptions) http.Handler {
	return guard.New(guard.Options{Token: o.Token, AnyHost: !o.Loopback, Refuse: refuse, BodyTimeout: o.BodyTimeout, Log: o.Log}).Wrap(&api{o})
}

// refuse answers a request that does not come as far as a lease.
func refuse(w http.ResponseWriter, status int, detail string) {
	name := wire.LeaseMalformed
	if status == http.StatusUnauthorized {
		name = wire.Unauthorized
	}
	p := wire.NewProblem(name, detail)
	p.Status = status
	p.Write(w)
}

type api struct{ HandlerOptions }

// ServeHTTP needs no router: what stands behind LeasesPath is a key, whatever it
// looks like.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.EscapedPath(), wire.LeasesPath) {
		guard.Unread(w, r)
		refuse(w, http.StatusNotFound, "there is nothing here: leases are at "+wire.LeasesPath+" and a resource key")
		return
	}
	switch r.Method {
	case http.MethodGet:
		a.show(w, r)
	case http.MethodPost:
		a.acquire(w, r)
	case http.MethodPut:
		a.renew(w, r)
	case http.MethodDelete:
		a.release(w, r)
	default:
		guard.Unread(w, r)
		w.Header().Set("Allow", "GET, POST, PUT, DELETE")
		refuse(w, http.StatusMethodNotAllowed, "a lease is shown by GET, asked for by POST, renewed by PUT and released by DELETE")
	}
}

// acquire waits in the request's own goroutine: a client that leaves ends its
// context, since its body was read to the end.
func (a *api) acquire(w http.ResponseWriter, r *http.Request) {
	key, body, ok := a.read(w, r, "holder", "ttl", "wait", "fence", "rule")
	if !ok {
		return
	}
	req := Request{Key: key, Holder: body.Holder, TTL: time.Duration(body.TTL), Wait: time.Duration(body.Wait),
		Fence: body.Fence == nil || *body.Fence, Rule: body.Rule}
	if req.Holder == "" {
		req.Holder, _, _ = net.SplitHostPort(r.RemoteAddr)
	}
	h, err := a.Issuer.Acquire(r.Context(), req)
	if err != nil {
		problem(key, err).Write(w)
		return
	}
	answer(w, http.StatusCreated, shown(key, h))
}

func (a *api) renew(w http.ResponseWriter, r *http.Request) {
	key, body, ok := a.read(w, r, "id", "ttl")
	if !ok {
		return
	}
	h, err := a.Issuer.Renew(r.Context(), key, body.ID, time.Duration(body.TTL))
	if err != nil {
		problem(key, err).Write(w)
		return
	}
	answer(w, http.StatusOK, shown(key, h))
}

func (a *api) release(w http.ResponseWriter, r *http.Request) {
	key, body, ok := a.read(w, r, "id")
	if !ok {
		return
	}
	if err := a.Issuer.Release(r.Context(), key, body.ID); err != nil {
		problem(key, err).Write(w)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNoContent)
}

func (a *api) show(w http.ResponseWriter, r *http.Request) {
	key, err := keyOf(r)
	if err != nil {
		problem(key, err).Write(w)
		return
	}
	st, err := a.Issuer.Status(r.Context(), key)
	if err != nil {
		problem(key, err).Write(w)
		return
	}
	l := shown(key, st.Held)
	l.TTL, l.GrantedAt, l.Waiting = wire.Duration(st.TTL), &st.GrantedAt, st.Waiting
	answer(w, http.StatusOK, l)
}

// keyOf is the key in the path, as it stands in answers and logs, with
// percent-escapes of its own, so that in the path it is escaped once more.
func keyOf(r *http.Request) (tokenstore.Key, error) {
	text, err := url.PathUnescape(strings.TrimPrefix(r.URL.EscapedPath(), wire.LeasesPath))
	if err != nil {
		return "", &RequestError{"the key in the path is not percent-encoded as it should be"}
	}
	return tokenstore.Key(text), checkKey(tokenstore.Key(text))
}

// shown is a lease as JSON has it. Its time is rounded down.
func shown(key tokenstore.Key, h Held) wire.Lease {
	return wire.Lease{Key: string(key), Holder: h.Holder, ID: h.ID, Token: strconv.FormatUint(h.Token.Major, 10), Epoch: h.Token.Epoch,
		ExpiresIn: wire.Duration(h.Left.Truncate(time.Millisecond))}
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
}
