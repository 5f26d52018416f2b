package admin

import (
	"net/http"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// check says whether a token would be refused now, and changes nothing.
func (a *api) check(w http.ResponseWriter, r *http.Request) {
	q, refusal := query(r, "key", "token", "holder", "rule")
	key := tokenstore.Key(q.Get("key"))
	if refusal == nil && (key == "" || len(key) > tokenstore.MaxKey) {
		refusal = malformed("key must be a resource key of 1 to 1024 bytes")
	}
	if refusal == nil {
		refusal = a.unmade(r.Context(), key)
	}
	var o owner
	if refusal == nil {
		o, refusal = a.owner(key, q.Get("rule"))
	}
	var token tokenstore.Token
	if refusal == nil {
		token, refusal = o.parse(q.Get("token"))
	}
	if refusal != nil {
		refusal.Write(w)
		return
	}
	claims := []gate.Claim{{Key: key, Token: token, Holder: q.Get("holder")}}
	err := a.Gate.Check(r.Context(), claims, storeTimeout, new(gate.Ticket))
	var rec tokenstore.Record
	var ok bool
	if err == nil {
		rec, ok, err = a.load(r.Context(), key)
	}
	// A shared store tells Check nothing that it does not hold by itself.
	if err == nil {
		_, _, err = rec.Raise(ok, tokenstore.Mark{Key: key, Token: token, Holder: claims[0].Holder}, time.Now())
	}
	if err != nil {
		refusal := refusalOfRead(err, o.Format)
		refusal.Key, refusal.Rule, refusal.Token = string(key), o.Name, q.Get("token")
		refusal.Write(w)
		return
	}
	report := wire.CheckReport{Key: string(key), Rule: o.Name, Token: o.Format.Print(token)}
	if ok {
		report.Highest = o.Format.Print(rec.Highest)
	}
	answer(w, report)
}
