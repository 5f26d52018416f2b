package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// forget forgets one key.
func (a *api) forget(w http.ResponseWriter, r *http.Request) {
	c := a.newChange(w, r, "forget")
	var body wire.ChangeRequest
	if !c.on(strings.TrimPrefix(r.URL.EscapedPath(), wire.KeysPath+"/")) || !c.read(&body) || !c.because(body.Reason) {
		return
	}
	if !c.made() || !c.begin() {
		return
	}
	f, err := a.Gate.Forget(r.Context(), c.key, nil)
	report := wire.ForgetReport{}
	if f.Exists && err == nil {
		report.Forgotten = 1
	}
	c.end(err, report)
}

const (
	atOnce    = 64  // keys that are forgotten at once, so that they share a sync
	maxSample = 20  // keys that a report names of those that were forgotten
	maxKept   = 100 // and of those that were not, with why
)

// forgetMany forgets the keys of a prefix, of an age, or both.
func (a *api) forgetMany(w http.ResponseWriter, r *http.Request) {
	c := a.newChange(w, r, "forget-many")
	var body wire.ForgetRequest
	if !c.read(&body) {
		return
	}
	c.line.Asked = body
	if !body.DryRun && !c.because(body.Reason) {
		return
	}
	lister, ok := a.Store.(tokenstore.Lister)
	if !ok {
		c.accept(wire.NewRefusal(wire.AdminNotSupported, "this store cannot list its keys"))
		return
	}
	if body.Prefix == "" && body.RaisedBefore == "" {
		c.accept(malformed("name a prefix, or raised_before, or both: all keys at once are not forgotten"))
		return
	}
	before, refusal := moment(body.RaisedBefore, time.Now())
	if !c.accept(refusal) {
		return
	}
	if !body.DryRun && !c.begin() {
		return
	}
	m := &many{change: c, before: before, dry: body.DryRun}
	m.report.DryRun = body.DryRun
	err := m.run(r.Context(), lister, body.Prefix)
	if body.DryRun {
		if err != nil {
			refusalOfRead(err, tokenstore.Decimal).Write(w)
			return
		}
		answer(w, m.report)
		return
	}
	if err != nil {
		refusal := refusalOf(err, tokenstore.Decimal)
		refusal.Detail = strconv.Itoa(m.report.Forgotten) + " keys were forgotten before this: " + refusal.Detail
		err = refusal
	}
	c.end(err, m.report)
}

// many is the forgetting of many keys.
type many struct {
	change *change
	before time.Time // zero: of any age
	dry    bool

	mu     sync.Mutex // guards what follows
	report wire.ForgetReport
	err    error // the first that is not about one key
}

// run goes through all pages. Those who come first are not waited for: a key
// that is made meanwhile is too new, or is found, or is not.
func (m *many) run(ctx context.Context, lister tokenstore.Lister, prefix string) error {
	for after := tokenstore.Key(""); ; {
		page, next, err := m.page(ctx, lister, prefix, after)
		if err != nil {
			return err
		}
		var wg sync.WaitGroup
		room := make(chan struct{}, atOnce)
		for _, l := range page {
			if !m.is(l.Record) {
				continue
			}
			room <- struct{}{}
			wg.Go(func() {
				defer func() { <-room }()
				m.one(ctx, l)
			})
		}
		wg.Wait()
		if after = next; m.err != nil || next == "" {
			slices.Sort(m.report.Sample)
			slices.SortFunc(m.report.KeptKeys, func(a, b wire.KeptKey) int { return strings.Compare(a.Key, b.Key) })
			return m.err
		}
	}
}

func (m *many) page(ctx context.Context, lister tokenstore.Lister, prefix string, after tokenstore.Key) ([]tokenstore.Listed, tokenstore.Key, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return lister.List(ctx, prefix, after, tokenstore.MaxPage)
}

// is reports whether a record is old enough.
func (m *many) is(rec tokenstore.Record) bool {
	return m.before.IsZero() || rec.RaisedAt.Before(m.before)
}

// one forgets one key, and tells the audit.
func (m *many) one(ctx context.Context, l tokenstore.Listed) {
	a, o := m.change.api, m.change.api.listed(l.Key)
	var err error
	rec, exists := l.Record, true
	switch {
	case l.Damaged != nil:
		err = &tokenstore.InUseError{Key: l.Key, Why: "its record is damaged: " + l.Damaged.Why}
	case m.dry:
		err = m.dryRun(ctx, l.Key)
	default:
		f, ferr := a.Gate.Forget(ctx, l.Key, m.is)
		rec, exists, err = f.Record, f.Exists, ferr
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	line := m.change.line
	line.Audit, line.Key, line.Rule, line.Asked = "forget", string(l.Key), o.Name, nil
	var used *tokenstore.InUseError
	switch {
	case errors.As(err, &used):
		m.report.Kept++
		if len(m.report.KeptKeys) < maxKept {
			m.report.KeptKeys = append(m.report.KeptKeys, wire.KeptKey{Key: string(l.Key), Why: used.Why})
		}
		return
	case err != nil && m.err == nil:
		m.err = err
	case err == nil && exists:
		m.report.Forgotten++
		if len(m.report.Sample) < maxSample {
			m.report.Sample = append(m.report.Sample, string(l.Key))
		}
	}
	if m.dry || err == nil && !exists {
		return
	}
	line.Result, line.Before, line.After = resultDone, snapshotOf(o, rec, exists), &Snapshot{}
	if err != nil {
		line.Result, line.After, line.Detail = resultFailed, nil, err.Error()
	}
	a.ended(line)
}

// dryRun says what would refuse a key, as far as it is known here.
func (m *many) dryRun(ctx context.Context, key tokenstore.Key) error {
	st := m.change.api.Gate.Status(key, true)
	switch {
	case len(st.InFlight) > 0, len(st.Unsettled) > 0:
		return &tokenstore.InUseError{Key: key, Why: "writes are in flight or unsettled"}
	case st.Waiting > 0:
		return &tokenstore.InUseError{Key: key, Why: strconv.Itoa(st.Waiting) + " writes are waiting"}
	case !st.QuarantinedUntil.IsZero():
		return &tokenstore.InUseError{Key: key, Why: "it is quarantined after a crash"}
	}
	return m.change.api.Gate.Leased(ctx, key)
}

// moment reads raised_before: a time, or how long before now.
func moment(s string, now time.Time) (time.Time, *wire.Refusal) {
	if s == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil && n > 0 {
			return now.AddDate(0, 0, -int(n)), nil
		}
	} else if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, malformed(`raised_before must be a time ago, as in "90d" or "36h", or a time as in "2026-01-31T00:00:00Z"`)
}
