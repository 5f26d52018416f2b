package admin

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/guard"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// maxReason is the longest reason, in bytes.
const maxReason = 1000

// change is one that an operator has asked for, on its way through the audit.
type change struct {
	api  *api
	w    http.ResponseWriter
	r    *http.Request
	key  tokenstore.Key // "" for one of many keys
	own  owner
	line AuditLine
}

func (a *api) newChange(w http.ResponseWriter, r *http.Request, what string) *change {
	return &change{api: a, w: w, r: r, line: AuditLine{Audit: what, ID: rand.Text(), Who: whoIs(r, a.Token)}}
}

// on names the key of a change. A refusal is answered.
func (c *change) on(escaped string) bool {
	key, refusal := keyOf(escaped)
	c.key, c.line.Key = key, string(key)
	return c.accept(refusal)
}

// read reads the body into v. A refusal is answered.
func (c *change) read(v any) bool {
	if err := guard.ReadBody(c.w, c.r, v); err != nil {
		return c.accept(malformed(err.Error()))
	}
	return true
}

// because wants a reason. A refusal is answered.
func (c *change) because(reason string) bool {
	c.line.Reason = reason
	switch {
	case strings.TrimSpace(reason) == "":
		return c.accept(malformed("a change needs a reason, for the audit"))
	case len(reason) > maxReason:
		c.line.Reason = reason[:maxReason]
		return c.accept(malformed("the reason is longer than 1000 bytes"))
	}
	return true
}

// owned finds the rule of the change's key. A refusal is answered.
func (c *change) owned(named string) bool {
	o, refusal := c.api.owner(c.key, named)
	c.own, c.line.Rule = o, o.Name
	return c.accept(refusal)
}

// made finds the rule of a key that may be an older rule's. A refusal is
// answered.
func (c *change) made() bool {
	c.own = c.api.listed(c.key)
	c.line.Rule = c.own.Name
	return c.accept(c.api.unmade(c.r.Context(), c.key))
}

// accept answers a refusal of what was asked, if there is one: nothing was
// changed.
func (c *change) accept(refusal *wire.Refusal) bool {
	if refusal == nil {
		return true
	}
	c.line.Result, c.line.Detail = resultRefused, refusal.Detail
	c.api.ended(c.line)
	if refusal.Key == "" {
		refusal.Key = c.line.Key
	}
	if refusal.Rule == "" {
		refusal.Rule = c.line.Rule
	}
	refusal.Write(c.w)
	return false
}

// begin tells the audit what is going to be done. Where it cannot be told it is
// not done.
func (c *change) begin() bool {
	if c.key != "" {
		before, err := c.snapshot()
		if err != nil {
			return c.accept(refusalOfRead(err, c.own.Format)) // nothing was begun
		}
		c.line.Before = before
	}
	c.line.Result = resultBegun
	if err := c.api.Audit.Write(c.line); err != nil {
		refusal := wire.NewRefusal(wire.AdminAuditUnavailable, "nothing was changed, since the audit line cannot be written: "+err.Error())
		refusal.Key = c.line.Key
		refusal.Write(c.w)
		return false
	}
	return true
}

// end tells the audit and the caller how it went: report where err is nil.
func (c *change) end(err error, report any) {
	c.line.Result, c.line.Report = resultDone, report
	var refusal *wire.Refusal
	if err != nil {
		refusal = refusalOf(err, c.own.Format)
		if c.line.Result = resultFailed; refusal.Status == http.StatusConflict {
			c.line.Result = resultRefused
		}
		c.line.Detail = refusal.Detail
	}
	if c.key != "" {
		if after, err := c.snapshot(); err == nil {
			c.line.After = after
		}
	}
	c.api.ended(c.line)
	if refusal == nil {
		answer(c.w, report)
		return
	}
	refusal.Key, refusal.Rule = c.line.Key, c.own.Name
	refusal.Write(c.w)
}

// snapshot reads the record of the key, whether the caller is still there or
// not.
func (c *change) snapshot() (*Snapshot, error) {
	rec, ok, err := c.api.load(context.WithoutCancel(c.r.Context()), c.key)
	if err != nil {
		return nil, err
	}
	return snapshotOf(c.own, rec, ok), nil
}

func snapshotOf(o owner, rec tokenstore.Record, ok bool) *Snapshot {
	if !ok {
		return &Snapshot{}
	}
	return &Snapshot{Highest: o.Format.Print(rec.Highest), Holder: rec.Holder, RaisedAt: &rec.RaisedAt}
}

// change is a POST to what stands behind a key.
func (a *api) change(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.EscapedPath(), wire.KeysPath+"/")
	at := strings.LastIndexByte(path, '/')
	if at < 0 {
		noEndpoint(w, r)
		return
	}
	switch path[at+1:] {
	case "raise":
		a.raise(w, r, path[:at])
	case "settle":
		a.settle(w, r, path[:at])
	default:
		noEndpoint(w, r)
	}
}

// raise announces a new holder: its token is recorded, and every older write on
// the key is over when it is answered.
func (a *api) raise(w http.ResponseWriter, r *http.Request, escaped string) {
	c := a.newChange(w, r, "raise")
	var body wire.RaiseRequest
	if !c.on(escaped) || !c.read(&body) {
		return
	}
	c.line.Asked = struct {
		Token  string `json:"token"`
		Holder string `json:"holder,omitempty"`
	}{body.Token, body.Holder}
	if !c.because(body.Reason) {
		return
	}
	if len(a.owners(c.key)) == 0 {
		c.accept(noRule())
		return
	}
	if !c.owned(body.Rule) {
		return
	}
	token, refusal := c.raisable(body)
	if !c.accept(refusal) || !c.begin() {
		return
	}
	start := time.Now()
	err := a.Gate.Enter(r.Context(), gate.Request{Claims: []gate.Claim{a.claim(c.key, token, body.Holder)},
		DrainTimeout: c.own.DrainTimeout, Since: start, Read: true}, new(gate.Ticket))
	if err == nil && a.DrainOlder != nil {
		err = a.DrainOlder(r.Context(), c.own.Name, c.key, c.own.DrainTimeout-time.Since(start))
	}
	if err != nil {
		c.end(err, nil)
		return
	}
	rec, ok, err := a.load(context.WithoutCancel(r.Context()), c.key)
	if err != nil {
		c.end(err, nil)
		return
	}
	st := status(c.key, c.own, rec, ok, a.Gate.Status(c.key, ok))
	// A raise does not end a lease, whose holder cannot write any more: say so. It
	// is made, whether that can be looked up or not.
	st.Lease, _ = a.lease(context.WithoutCancel(r.Context()), c.key, rec.Highest)
	c.end(nil, st)
}

// maxHolder is the longest holder of an announced token, in bytes.
const maxHolder = 256

// raisable reads the token to raise a key to. What no client could follow is
// refused: it would lock all of them out for ever.
func (c *change) raisable(body wire.RaiseRequest) (tokenstore.Token, *wire.Refusal) {
	o := c.own
	if len(body.Holder) > maxHolder {
		return tokenstore.Token{}, malformed("the holder is longer than 256 bytes")
	}
	token, refusal := o.parse(body.Token)
	if refusal != nil {
		return token, refusal
	}
	bound := o.MaxToken
	bound.Epoch = o.Epoch
	switch {
	case token.Epoch > o.Epoch:
		refusal = wire.NewRefusal(wire.TokenImplausible, "the epoch is above the rule's, so that every client's token would be stale; raise the rule's epoch in the configuration")
	case o.HasMaxToken && bound.Less(token):
		refusal = wire.NewRefusal(wire.TokenImplausible, "the token is above max_token, so that no client could follow")
	default:
		return token, nil
	}
	refusal.Token = body.Token
	return token, refusal
}

// settle takes the operator's word that what was lost from sight is over.
func (a *api) settle(w http.ResponseWriter, r *http.Request, escaped string) {
	c := a.newChange(w, r, "settle")
	var body wire.ChangeRequest
	if !c.on(escaped) || !c.read(&body) || !c.because(body.Reason) {
		return
	}
	if !c.made() || !c.begin() {
		return
	}
	done, err := a.Gate.Settle(c.key)
	if err != nil {
		c.end(err, nil)
		return
	}
	report := wire.SettleReport{Key: string(c.key), Unsettled: unsettled(c.own, done.Unsettled), Quarantined: done.Quarantine,
		InFlight: inFlight(c.own, a.Gate.Status(c.key, true).InFlight)}
	for _, key := range done.Also {
		report.AlsoOn = append(report.AlsoOn, string(key))
	}
	c.end(nil, report)
}
