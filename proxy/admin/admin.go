// Package admin is the operator's listener: health, metrics, and what goes on
// at a resource key. It changes nothing in this version.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Options of the admin API; all must be set.
type Options struct {
	Gate    *gate.Gate
	Store   tokenstore.Store
	Metrics prometheus.Gatherer
	// Ready returns why no write can be admitted, or nil.
	Ready func(context.Context) error
	// Notice returns what the operator should know although writes can be
	// admitted, or nothing.
	Notice func() string
	// Formats returns the formats of the fenced rules, as they are now, by their
	// names. Where they differ, a request has to name the rule that owns its key.
	Formats func() map[string]tokenstore.Format
}

const (
	keysPath     = "/v1/keys/"
	storeTimeout = 5 * time.Second // for one look into the store
)

// NewHandler returns the admin API. It is safe for concurrent use.
func NewHandler(o Options) http.Handler {
	a := &api{o}
	r := chi.NewRouter()
	r.Use(onlyLocalHost)
	r.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "alive") })
	r.Get("/readyz", a.readyz)
	r.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{}))
	r.Get(keysPath+"*", a.key)
	return r
}

type api struct{ Options }

func (a *api) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()
	if err := a.Ready(ctx); err != nil {
		text(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
		return
	}
	line := "ready"
	if notice := a.Notice(); notice != "" {
		line += "\n" + notice
	}
	text(w, http.StatusOK, line)
}

// key tells of one resource key, as it stands in answers and logs, with
// percent-escapes of its own, so that in the URL it is escaped once more.
func (a *api) key(w http.ResponseWriter, r *http.Request) {
	key, err := url.PathUnescape(strings.TrimPrefix(r.URL.EscapedPath(), keysPath))
	if err != nil || key == "" || len(key) > tokenstore.MaxKey {
		text(w, http.StatusBadRequest, "the path must be /v1/keys/ and a resource key of 1 to 1024 bytes, percent-encoded once")
		return
	}
	format, err := a.format(r.URL.Query().Get("rule"))
	if err != nil {
		text(w, http.StatusBadRequest, err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()
	rec, ok, err := a.Store.Load(ctx, tokenstore.Key(key))
	if err != nil {
		text(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	st := a.Gate.Status(tokenstore.Key(key), ok)
	if !ok && len(st.InFlight) == 0 && len(st.Unsettled) == 0 && st.Waiting == 0 && st.QuarantinedUntil.IsZero() {
		text(w, http.StatusNotFound, "no token was ever recorded for this key")
		return
	}
	answer(w, status(key, format, rec, ok, st))
}

// format is the format of the rule that owns a key: the named one, or the only
// one that there is.
func (a *api) format(rule string) (tokenstore.Format, error) {
	if rule != "" {
		f, ok := a.Formats()[rule]
		if !ok {
			return 0, fmt.Errorf("no fenced rule has the name %q", rule)
		}
		return f, nil
	}
	only := tokenstore.Decimal
	first := true
	for _, f := range a.Formats() {
		if !first && f != only {
			return 0, errors.New("the rules have different formats of tokens: name the one that owns the key, as in ?rule=NAME")
		}
		only, first = f, false
	}
	return only, nil
}

// status puts together what the store and the gate know.
func status(key string, format tokenstore.Format, rec tokenstore.Record, recorded bool, st gate.Status) wire.KeyStatus {
	out := wire.KeyStatus{Key: key, Holder: rec.Holder, Waiting: st.Waiting,
		InFlight: []wire.InFlight{}, Unsettled: []wire.Unsettled{}}
	if recorded {
		out.Highest = format.Print(rec.Highest)
		out.RaisedAt = &rec.RaisedAt
	}
	if !st.QuarantinedUntil.IsZero() {
		out.QuarantinedUntil = &st.QuarantinedUntil
	}
	for _, f := range st.InFlight {
		out.InFlight = append(out.InFlight, wire.InFlight{Token: printed(format, f.Token, f.Unordered), Count: f.Count, Since: f.Since})
	}
	for _, u := range st.Unsettled {
		out.Unsettled = append(out.Unsettled, wire.Unsettled{Token: printed(format, u.Token, u.Unordered), Until: u.Until, Why: u.Why})
	}
	return out
}

// printed is a token, or nothing for an unordered write.
func printed(format tokenstore.Format, t tokenstore.Token, unordered bool) string {
	if unordered {
		return ""
	}
	return format.Print(t)
}

// onlyLocalHost keeps browsers out that were led here by a foreign name.
func onlyLocalHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !localHost(r.Host) {
			text(w, http.StatusForbidden, "the Host header must be localhost or a loopback address")
			return
		}
		next.ServeHTTP(w, r)
	})
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

func text(w http.ResponseWriter, status int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(line + "\n"))
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
}
