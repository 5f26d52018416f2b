// Package admin is the operator's listener: health, metrics, what goes on at a
// resource key, and what an operator may do about it. Every change obeys the
// rules of the gate, needs a reason, and is told to the audit before it is made.
package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/guard"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
)

// Options of the admin API.
type Options struct {
	Gate *gate.Gate
	// DrainOlder waits, beside the gate, for older writes on the key that it does
	// not know of, for patience at the most: then it is a *gate.DrainTimeoutError.
	// nil where there are none.
	DrainOlder func(ctx context.Context, rule string, key tokenstore.Key, patience time.Duration) error

	Store   tokenstore.Store
	Metrics prometheus.Gatherer
	// Ready returns why no write can be admitted, or nil.
	Ready func(context.Context) *NotReady
	// Notice returns what the operator should know although writes can be
	// admitted, or nothing.
	Notice func() string
	// Rules are the rules by their index; Owners names, by the same index, those
	// that can make a key.
	Rules  []Rule
	Owners func(key tokenstore.Key) []int
	// Lease looks for who holds the lease of a key: nil for nobody. A nil Lease
	// says that there are none.
	Lease func(context.Context, tokenstore.Key) (*wire.KeyLease, error)
	// Audit takes the lines about changes; Log is told of those about their end
	// that cannot be written, and of requests that are kept out. A nil Log drops
	// them.
	Audit *Audit
	Log   *zap.Logger
	// Token, where it is not nil, has to be known by every caller but those that
	// ask for health. Hosts are names that a Host header may carry.
	Token *guard.Token
	Hosts []string
	// Header is what an export says of the whole store.
	Header func() dump.Header
}

// Rule is what the admin API knows of a rule.
type Rule struct {
	Name         string
	Fenced       bool
	Format       tokenstore.Format
	Epoch        uint64
	DrainTimeout time.Duration
	MaxToken     tokenstore.Token // bounds what is raised where HasMaxToken is set
	HasMaxToken  bool
	Suspect      bool // its keys were made otherwise before a crash: see gate.Claim
}

// NotReady is why no write can be admitted. Why is a few words for everybody, so
// that nothing of the machine stands in it; Err, which may be nil, is for those who
// may see the rest.
type NotReady struct {
	Why string
	Err error
}

// storeTimeout is for one look into the store.
const storeTimeout = 5 * time.Second

// NewHandler returns the admin API. It is safe for concurrent use.
func NewHandler(o Options) http.Handler {
	a := &api{Options: o}
	if a.Log == nil {
		a.Log = zap.NewNop()
	}
	a.guard = guard.New(guard.Options{Token: o.Token, Hosts: o.Hosts, Refuse: refuse, BodyTypes: []string{"application/json"}, Log: a.Log})
	imports := guard.New(guard.Options{Token: o.Token, Hosts: o.Hosts, Refuse: refuse, BodyTypes: []string{"application/x-ndjson", "application/json"}, Log: a.Log})
	r := chi.NewRouter()
	r.NotFound(a.guard.Wrap(http.HandlerFunc(noEndpoint)).ServeHTTP)
	r.MethodNotAllowed(a.guard.Wrap(noMethod(r)).ServeHTTP)
	r.Get("/healthz", healthz)
	r.Get("/readyz", a.readyz)
	r.Head("/healthz", healthz) // as some probes and load balancers ask
	r.Head("/readyz", a.readyz)
	r.With(imports.Wrap).Post(wire.ImportPath, a.importDump)
	r.Group(func(r chi.Router) {
		r.Use(a.guard.Wrap)
		r.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{}))
		r.Get(wire.KeysPath, a.list)
		r.Get(wire.KeysPath+"/*", a.get)
		r.Post(wire.KeysPath+"/*", a.change)
		r.Delete(wire.KeysPath+"/*", a.forget)
		r.Post(wire.ForgetPath, a.forgetMany)
		r.Get(wire.CheckPath, a.check)
		r.Get(wire.ExportPath, a.export)
	})
	return r
}

type api struct {
	Options
	guard *guard.Guard
}

func healthz(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "alive") }

// readyz, like healthz, is asked by probes, which know no token and call the
// pod by its address: they get a few words. The rest is for those who may see it.
func (a *api) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()
	status, line, more := http.StatusOK, "ready", a.Notice()
	if not := a.Ready(ctx); not != nil {
		status, line, more = http.StatusServiceUnavailable, "not ready: "+not.Why, ""
		if not.Err != nil {
			more = strings.TrimPrefix(not.Err.Error(), not.Why+": ")
		}
	}
	if more != "" && a.guard.Knows(r) && a.guard.Trusts(r) {
		line += ": " + more
	}
	text(w, status, line)
}

func noEndpoint(w http.ResponseWriter, _ *http.Request) {
	wire.NewRefusal(wire.AdminNotFound, "the admin API has no such path; see the README").Write(w)
}

// noMethod says which methods the path takes. chi knows them, too, but tells no
// handler of ours, and it refuses a method that it has never heard of before it
// looks whether there is such a path.
func noMethod(routes chi.Routes) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.RawPath
		if path == "" {
			path = r.URL.Path // as chi does it
		}
		var allowed []string
		for _, m := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete} {
			if routes.Match(chi.NewRouteContext(), m, path) {
				allowed = append(allowed, m)
			}
		}
		if allowed == nil {
			noEndpoint(w, r)
			return
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		refusal := wire.NewRefusal(wire.AdminNotFound, "this path does not take that method; see the README")
		refusal.Status = http.StatusMethodNotAllowed
		refusal.Write(w)
	})
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
