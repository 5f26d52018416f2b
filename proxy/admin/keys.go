package admin

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// usualPage is how many keys a list has where nobody says how many.
const usualPage = 100

// list tells which keys have a record, or which are busy, a page at a time.
func (a *api) list(w http.ResponseWriter, r *http.Request) {
	q, refusal := query(r, "prefix", "after", "limit", "busy")
	limit := usualPage
	if refusal == nil && q.Has("limit") {
		var err error
		if limit, err = strconv.Atoi(q.Get("limit")); err != nil || limit < 1 || limit > tokenstore.MaxPage {
			refusal = malformed("limit must be 1 to 1000")
		}
	}
	busy := q.Get("busy") == "true"
	if refusal == nil && q.Has("busy") && !busy && q.Get("busy") != "false" {
		refusal = malformed("busy must be true or false")
	}
	if refusal == nil && busy {
		answer(w, a.busy(q.Get("prefix"), tokenstore.Key(q.Get("after")), limit))
		return
	}
	lister, ok := a.Store.(tokenstore.Lister)
	if refusal == nil && !ok {
		refusal = wire.NewRefusal(wire.AdminNotSupported, "this store cannot list its keys")
	}
	if refusal != nil {
		refusal.Write(w)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()
	page, next, err := lister.List(ctx, q.Get("prefix"), tokenstore.Key(q.Get("after")), limit)
	if err != nil {
		refusalOfRead(err, tokenstore.Decimal).Write(w)
		return
	}
	out := wire.KeyList{Keys: make([]wire.ListedKey, len(page)), Next: string(next)}
	for i, l := range page {
		o := a.listed(l.Key)
		out.Keys[i] = wire.ListedKey{Key: string(l.Key), Rule: o.Name}
		if l.Damaged != nil {
			out.Keys[i].Damaged = l.Damaged.Why
			continue
		}
		out.Keys[i].Highest, out.Keys[i].RaisedAt, out.Keys[i].Holder = o.Format.Print(l.Record.Highest), &page[i].Record.RaisedAt, l.Record.Holder
	}
	answer(w, out)
}

// get tells of one resource key, as it stands in answers and logs, with
// percent-escapes of its own, so that in the URL it is escaped once more.
func (a *api) get(w http.ResponseWriter, r *http.Request) {
	key, refusal := keyOf(strings.TrimPrefix(r.URL.EscapedPath(), wire.KeysPath+"/"))
	var q url.Values
	if refusal == nil {
		q, refusal = query(r, "rule")
	}
	var o owner
	if refusal == nil {
		o, refusal = a.owner(key, q.Get("rule"))
	}
	if refusal != nil {
		refusal.Write(w)
		return
	}
	rec, ok, err := a.load(r.Context(), key)
	if err != nil {
		refusalOfRead(err, o.Format).Write(w)
		return
	}
	held, err := a.lease(r.Context(), key, rec.Highest)
	if err != nil {
		refusalOfRead(err, o.Format).Write(w)
		return
	}
	st := a.Gate.Status(key, ok)
	if !ok && held == nil && len(st.InFlight) == 0 && len(st.Unsettled) == 0 && st.Waiting == 0 && st.QuarantinedUntil.IsZero() {
		noRecord(key, o).Write(w)
		return
	}
	out := status(key, o, rec, ok, st)
	out.Lease = held
	answer(w, out)
}

func noRecord(key tokenstore.Key, o owner) *wire.Refusal {
	detail := "no token was ever recorded for this key, or it was forgotten"
	if !o.known {
		detail += "; no rule can make it: look at its spelling, as answers and logs have it"
	}
	refusal := wire.NewRefusal(wire.AdminNoRecord, detail)
	refusal.Key = string(key)
	return refusal
}

// load looks a record up.
func (a *api) load(ctx context.Context, key tokenstore.Key) (tokenstore.Record, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return a.Store.Load(ctx, key)
}

// keyOf reads a key from a path.
func keyOf(escaped string) (tokenstore.Key, *wire.Refusal) {
	key, err := url.PathUnescape(escaped)
	if err != nil || key == "" || len(key) > tokenstore.MaxKey {
		return "", malformed("the path must be /v1/keys/ and a resource key of 1 to 1024 bytes, percent-encoded once")
	}
	return tokenstore.Key(key), nil
}

// query reads a query of which every name is known, once.
func query(r *http.Request, names ...string) (url.Values, *wire.Refusal) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, malformed("the query cannot be read; percent-encode its values")
	}
	for name, values := range q {
		known := false
		for _, n := range names {
			known = known || n == name
		}
		if !known {
			return nil, malformed("the query names " + strconv.Quote(name) + "; here may stand: " + strings.Join(names, ", "))
		}
		if len(values) > 1 {
			return nil, malformed("the query names " + name + " twice")
		}
	}
	return q, nil
}

// status puts together what the store and the gate know.
func status(key tokenstore.Key, o owner, rec tokenstore.Record, recorded bool, st gate.Status) wire.KeyStatus {
	out := wire.KeyStatus{Key: string(key), Rule: o.Name, Rules: o.all, Holder: rec.Holder, Waiting: st.Waiting,
		InFlight: inFlight(o, st.InFlight), Unsettled: unsettled(o, st.Unsettled)}
	if recorded {
		out.Highest = o.Format.Print(rec.Highest)
		out.RaisedAt = &rec.RaisedAt
	}
	if !st.QuarantinedUntil.IsZero() {
		out.QuarantinedUntil = &st.QuarantinedUntil
	}
	return out
}

func inFlight(o owner, writes []gate.InFlight) []wire.InFlight {
	out := []wire.InFlight{}
	for _, f := range writes {
		out = append(out, wire.InFlight{Token: o.print(f.Token, f.Unordered), Count: f.Count, Since: f.Since})
	}
	return out
}

func unsettled(o owner, writes []gate.Unsettled) []wire.Unsettled {
	out := []wire.Unsettled{}
	for _, u := range writes {
		out = append(out, wire.Unsettled{Token: o.print(u.Token, u.Unordered), Until: u.Until, Why: u.Why})
	}
	return out
}

// print is a token, or nothing for an unordered write.
func (o owner) print(t tokenstore.Token, unordered bool) string {
	if unordered {
		return ""
	}
	return o.Format.Print(t)
}
