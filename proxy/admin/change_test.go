package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
)

func TestRaise(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Rules[0].DrainTimeout = time.Second })
	var st wire.KeyStatus
	r.into(&st, 200, "POST", "/v1/keys/a:1/raise", `{"token":"7","reason":"hand-over","holder":"w2"}`)
	if st.Highest != "7" || st.Holder != "w2" || st.RaisedAt == nil || len(st.InFlight) > 0 {
		t.Errorf("%+v", st)
	}
	l := r.take()
	if len(l) != 2 || l[0].Result != "begun" || l[1].Result != "done" || l[0].ID != l[1].ID || l[0].ID == "" || l[1].Key != "a:1" || l[1].Rule != "a" ||
		l[1].Reason != "hand-over" || l[1].Before.Highest != "" || l[1].After.Highest != "7" || l[1].After.Holder != "w2" || l[1].Who.Peer == "" || l[1].Time.IsZero() {
		t.Errorf("%+v", l)
	}
	// The same again changes nothing and is no error; a lower one, and another
	// holder's, are refused.
	r.into(&st, 200, "POST", "/v1/keys/a:1/raise", `{"token":"7","reason":"r"}`)
	if p := r.refused(wire.StaleToken, "POST", "/v1/keys/a:1/raise", `{"token":"6","reason":"r"}`); p.Status != 409 || p.Highest != "7" || p.Key != "a:1" {
		t.Errorf("%+v", p)
	}
	r.refused(wire.TokenCollision, "POST", "/v1/keys/a:1/raise", `{"token":"7","reason":"r","holder":"w3"}`)
	if got, want := r.results(), "raise a:1 begun, raise a:1 done, raise a:1 begun, raise a:1 refused, raise a:1 begun, raise a:1 refused"; got != want {
		t.Errorf("%s", got)
	}
	// It waits for older writes, and counts although they are not over.
	r.enter("a:1", 7).Unsettle("reset")
	p := r.refused(wire.DrainTimeout, "POST", "/v1/keys/a:1/raise", `{"token":"8","reason":"r"}`)
	if h, _ := r.highest("a:1"); h.Major != 8 || p.Status != 503 {
		t.Errorf("%v %+v", h, p)
	}
	if l := r.take(); len(l) != 2 || l[1].Result != "failed" || l[1].After.Highest != "8" || l[1].Before.Highest != "7" {
		t.Errorf("%+v", l)
	}
}

// After a crash and a change of the rule nobody knows under which key a write of
// before went: a raise answers no sooner than a write would be sent, and its
// record does not say clear.
func TestRaiseSuspect(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Rules[0].Suspect, o.Rules[0].DrainTimeout = true, time.Second
		store := o.Store.(faulty)
		store.SetRecovered(true)
		var err error
		if o.Gate, err = gate.New(store, gate.Options{Settle: time.Hour}); err != nil {
			t.Fatal(err)
		}
	})
	r.refused(wire.DrainTimeout, "POST", "/v1/keys/a:1/raise", `{"token":"7","reason":"r"}`)
	if rec, ok, err := r.store.Load(t.Context(), "a:1"); !ok || err != nil || rec.Highest.Major != 7 || rec.Clear {
		t.Errorf("%+v, there: %v, %v", rec, ok, err)
	}
}

// A key too many is no store that does not answer, after which nobody would know
// what was raised.
func TestRaiseTooManyKeys(t *testing.T) {
	r := newRig(t)
	var st wire.KeyStatus
	r.into(&st, 200, "POST", "/v1/keys/a:1/raise", `{"token":"7","reason":"r"}`)
	r.gate.Change(gate.Options{MaxKeys: 1})
	r.refused(wire.TooManyKeys, "POST", "/v1/keys/a:2/raise", `{"token":"7","reason":"r"}`)
	r.into(&st, 200, "POST", "/v1/keys/a:1/raise", `{"token":"8","reason":"r"}`)
}

func TestRaiseEpoch(t *testing.T) {
	r := newRig(t)
	var st wire.KeyStatus
	r.into(&st, 200, "POST", "/v1/keys/e:1/raise", `{"token":"7","reason":"r"}`)
	if h, _ := r.highest("e:1"); h != (tokenstore.Token{Epoch: 3, Major: 7}) || st.Highest != "3/7" {
		t.Errorf("%v %+v", h, st)
	}
	r.into(&st, 200, "POST", "/v1/keys/e:1/raise", `{"token":"3/8","reason":"r"}`)
	r.refused(wire.StaleToken, "POST", "/v1/keys/e:1/raise", `{"token":"2/9","reason":"r"}`)
	r.refused(wire.TokenImplausible, "POST", "/v1/keys/e:1/raise", `{"token":"4/1","reason":"r"}`)
	r.refused(wire.TokenImplausible, "POST", "/v1/keys/e:1/raise", `{"token":"1001","reason":"r"}`)
	if h, _ := r.highest("e:1"); h != (tokenstore.Token{Epoch: 3, Major: 8}) {
		t.Errorf("%v", h)
	}
}

// What cannot be read, or has no reason, changes nothing, and is told.
func TestMalformed(t *testing.T) {
	r := newRig(t)
	r.enter("a:1", 7).Settle()
	long := strings.Repeat("r", maxReason+1)
	for _, body := range []string{"", "x", "null", "[]", `"x"`, "{}", `{"token":"9"}`, `{"token":"9","reason":" "}`, `{"token":9,"reason":"r"}`, `{"token":"9","reason":"r"}{}`,
		`{"token":"9","reason":"r","x":1}`, `{"token":"9","token":"10","reason":"r"}`, `{"Token":"9","reason":"r"}`, `{"token":"9","reaſon":"r"}`, `{"token":"9","reason":"r"`, `{"token":"9","reason":"` + long + `"}`,
		`{"token":"9","reason":"r","pad":"` + strings.Repeat("x", 70<<10) + `"}`} {
		r.refused(wire.AdminMalformed, "POST", "/v1/keys/a:1/raise", body)
		if l := r.take(); len(l) != 1 || l[0].Result != "refused" || l[0].Detail == "" {
			t.Errorf("%.60s: %+v", body, l)
		}
	}
	for _, token := range []string{"", "-1", "1.2", "0x9", "99999999999999999999", "1/2/3", "/9", " 9"} {
		r.refused(wire.TokenMalformed, "POST", "/v1/keys/a:1/raise", fmt.Sprintf(`{"token":%q,"reason":"r"}`, token))
	}
	r.refused(wire.AdminMalformed, "POST", "/v1/keys/nobodys/raise", `{"token":"9","reason":"r"}`)
	r.refused(wire.AdminMalformed, "DELETE", "/v1/keys/a:1", `{}`)
	r.refused(wire.AdminMalformed, "POST", "/v1/keys/a:1/settle", `{"reason":""}`)
	r.refused(wire.AdminNotFound, "POST", "/v1/keys/a:1/lower", `{"reason":"r"}`)
	r.refused(wire.AdminNotFound, "POST", "/v1/keys/a:1", `{"reason":"r"}`)
	if code, _ := r.send("PUT", "/v1/keys/a:1", `{"reason":"r"}`); code != 405 {
		t.Errorf("PUT: %d", code)
	}
	if h, _ := r.highest("a:1"); h.Major != 7 {
		t.Errorf("raised to %v", h)
	}
}

// A change that the audit cannot be told of is not made.
func TestAuditFails(t *testing.T) {
	r := newRig(t)
	r.enter("a:1", 7).Settle()
	r.enter("a:2", 7).Unsettle("reset")
	r.audit.fail = errors.New("no space")
	for _, c := range [][3]string{{"POST", "/v1/keys/a:1/raise", `{"token":"9","reason":"r"}`}, {"DELETE", "/v1/keys/a:1", `{"reason":"r"}`},
		{"POST", "/v1/keys/a:2/settle", `{"reason":"r"}`}, {"POST", "/v1/forget", `{"prefix":"a:1","reason":"r"}`}} {
		r.refused(wire.AdminAuditUnavailable, c[0], c[1], c[2])
	}
	if h, ok := r.highest("a:1"); !ok || h.Major != 7 || len(r.gate.Status("a:2", true).Unsettled) != 1 {
		t.Errorf("changed: %v %v", h, ok)
	}
}

// A store that fails is told, and what only reads, or was not begun, has changed
// nothing.
func TestStoreFails(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Store = deaf{o.Store.(faulty)} })
	r.enter("a:1", 7).Settle()
	r.store.Fail(errors.New("no answer"))
	for _, c := range [][3]string{{"POST", "/v1/keys/a:1/raise", `{"token":"9","reason":"r"}`}, {"DELETE", "/v1/keys/a:1", `{"reason":"r"}`}, {"GET", "/v1/check?key=a:2&token=9", ""}, {"GET", "/v1/check?key=nobodys&token=9", ""},
		{"GET", "/v1/keys/a:1", ""}, {"POST", "/v1/keys/nobodys/settle", `{"reason":"r"}`}, {"GET", "/v1/keys", ""}, {"POST", "/v1/forget", `{"prefix":"a:","dry_run":true}`}, {"DELETE", "/v1/keys/nobodys", `{"reason":"r"}`}} {
		if p := r.refused(wire.StoreUnavailable, c[0], c[1], c[2]); p.Status != 503 || !p.Retryable || !strings.HasSuffix(p.Detail, "; nothing was changed") {
			t.Errorf("%+v", p)
		}
	}
	for _, l := range r.take() {
		if l.Result != "refused" {
			t.Errorf("%+v", l)
		}
	}
	if p := r.refused(wire.StoreUnavailable, "POST", "/v1/forget", `{"prefix":"a:","reason":"r"}`); !strings.Contains(p.Detail, "is not known") {
		t.Errorf("a change that was begun: %+v", p)
	}
}

// deaf cannot be listed while it fails.
type deaf struct{ faulty }

func (d deaf) List(ctx context.Context, prefix string, after tokenstore.Key, limit int) ([]tokenstore.Listed, tokenstore.Key, error) {
	if _, _, err := d.Load(ctx, "a:1"); err != nil {
		return nil, "", err
	}
	return d.faulty.List(ctx, prefix, after, limit)
}

// A spelling that is nobody's is refused, and told to the audit; the key of a rule
// that has gone is not one, as long as anything of it is left.
func TestNobodysKey(t *testing.T) {
	var held *wire.KeyLease
	r := newRig(t, func(o *Options) {
		o.Lease = func(context.Context, tokenstore.Key) (*wire.KeyLease, error) { return held, nil }
	})
	settle, forget := [3]string{"POST", "/v1/keys/nobodys/settle", `{"reason":"r"}`}, [3]string{"DELETE", "/v1/keys/nobodys", `{"reason":"r"}`}
	check := [3]string{"GET", "/v1/check?key=nobodys&token=9", ""}
	nobodys := func(calls ...[3]string) {
		t.Helper()
		for _, c := range calls {
			if p := r.refused(wire.AdminMalformed, c[0], c[1], c[2]); !strings.HasPrefix(p.Detail, "no rule can make this key") {
				t.Errorf("%s %s: %+v", c[0], c[1], p)
			}
		}
	}
	nobodys(settle, forget, check)
	if got := r.results(); got != "settle nobodys refused, forget nobodys refused" {
		t.Error(got)
	}

	lost := r.enter("nobodys", 9) // under a rule of before
	lost.Unsettle("reset")
	var settled wire.SettleReport
	if r.into(&settled, 200, settle[0], settle[1], settle[2]); len(settled.Unsettled) != 1 {
		t.Errorf("%+v", settled)
	}
	r.into(new(wire.CheckReport), 200, check[0], check[1], check[2])
	var forgotten wire.ForgetReport
	if r.into(&forgotten, 200, forget[0], forget[1], forget[2]); forgotten.Forgotten != 1 {
		t.Errorf("%+v", forgotten)
	}
	nobodys(settle, forget, check)

	held = &wire.KeyLease{Holder: "cron", Token: "10"}
	r.into(new(wire.CheckReport), 200, check[0], check[1], check[2])
	held = nil

	// In flight, and not on record: its first raise is on its way.
	release := r.store.HoldAcquire()
	entered := make(chan error, 1)
	go func() {
		entered <- r.gate.Enter(context.Background(), gate.Request{Claims: []gate.Claim{{Key: "nobodys", Token: tokenstore.Token{Major: 1}}},
			DrainTimeout: time.Minute, Settle: time.Hour, Since: time.Now()}, new(gate.Ticket))
	}()
	for r.gate.Status("nobodys", false).Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	r.refused(wire.AdminInUse, forget[0], forget[1], forget[2])
	release()
	if err := <-entered; err != nil {
		t.Fatal(err)
	}
	r.refused(wire.AdminInUse, forget[0], forget[1], forget[2])

	// A key that a rule can make may have nothing to its name.
	r.into(&settled, 200, "POST", "/v1/keys/a:new/settle", `{"reason":"r"}`)
	r.into(&forgotten, 200, "DELETE", "/v1/keys/a:new", `{"reason":"r"}`)
}

func TestSettle(t *testing.T) {
	r := newRig(t)
	w := r.enter("a:1", 7)
	r.enter("a:1", 7).Unsettle("reset")
	var s wire.SettleReport
	r.into(&s, 200, "POST", "/v1/keys/a:1/settle", `{"reason":"the backend was restarted"}`)
	if len(s.Unsettled) != 1 || s.Unsettled[0].Token != "7" || s.Unsettled[0].Why != "reset" || s.Quarantined || len(s.InFlight) != 1 || s.InFlight[0].Count != 1 {
		t.Errorf("%+v", s)
	}
	if l := r.take(); len(l) != 2 || l[1].Result != "done" || l[1].Report == nil || l[1].Reason != "the backend was restarted" {
		t.Errorf("%+v", l)
	}
	w.Settle()
	var st wire.KeyStatus
	r.into(&st, 200, "POST", "/v1/keys/a:1/raise", `{"token":"8","reason":"r"}`)
}

func TestForget(t *testing.T) {
	r := newRig(t)
	w := r.enter("a:1", 7)
	if p := r.refused(wire.AdminInUse, "DELETE", "/v1/keys/a:1", `{"reason":"r"}`); p.Status != 409 || !strings.Contains(p.Detail, "in flight") {
		t.Errorf("%+v", p)
	}
	if l := r.take(); len(l) != 2 || l[1].Result != "refused" || l[1].After.Highest != "7" {
		t.Errorf("%+v", l)
	}
	w.Settle()
	var f wire.ForgetReport
	r.into(&f, 200, "DELETE", "/v1/keys/a:1", `{"reason":"closed"}`)
	if _, ok := r.highest("a:1"); ok || f.Forgotten != 1 {
		t.Errorf("%v %+v", ok, f)
	}
	if l := r.take(); len(l) != 2 || l[1].Result != "done" || l[1].Before.Highest != "7" || l[1].After.Highest != "" {
		t.Errorf("%+v", l)
	}
	r.into(&f, 200, "DELETE", "/v1/keys/a:1", `{"reason":"again"}`)
	if f.Forgotten != 0 {
		t.Errorf("%+v", f)
	}
	r.enter("a:1", 1).Settle()
}

func TestForgetMany(t *testing.T) {
	r := newRig(t)
	for i := range 2500 {
		r.enter(tokenstore.Key(fmt.Sprintf("a:%04d", i)), 7).Settle()
	}
	r.enter("b", 7).Settle()
	r.enter("a:0007", 7)
	for _, body := range []string{`{"reason":"r"}`, `{"prefix":"","reason":"r"}`, `{"prefix":"a:"}`, `{"raised_before":"90","reason":"r"}`, `{"raised_before":"-1h","reason":"r"}`,
		`{"raised_before":"0d","reason":"r"}`, `{"raised_before":"yesterday","reason":"r"}`, `{"prefix":"a","reason":"r","dry_run":"yes"}`} {
		r.refused(wire.AdminMalformed, "POST", "/v1/forget", body)
	}
	r.take()
	var f wire.ForgetReport
	r.into(&f, 200, "POST", "/v1/forget", `{"prefix":"a:","reason":"r","dry_run":true}`)
	if !f.DryRun || f.Forgotten != 2499 || f.Kept != 1 || len(f.Sample) != maxSample || len(f.KeptKeys) != 1 || f.KeptKeys[0].Key != "a:0007" || r.store.Store.Keys() != 2501 || len(r.take()) > 0 {
		t.Errorf("%d %d %+v %d", f.Forgotten, f.Kept, f.KeptKeys, r.store.Store.Keys())
	}
	f = wire.ForgetReport{}
	r.into(&f, 200, "POST", "/v1/forget", `{"prefix":"a:","raised_before":"1h","reason":"r"}`)
	if f.Forgotten != 0 || r.store.Store.Keys() != 2501 {
		t.Errorf("too young: %+v", f)
	}
	r.take()
	r.into(&f, 200, "POST", "/v1/forget", `{"prefix":"a:","raised_before":"`+time.Now().Add(time.Hour).Format(time.RFC3339)+`","reason":"gone"}`)
	if f.Forgotten != 2499 || f.Kept != 1 || r.store.Store.Keys() != 2 {
		t.Errorf("%d %d, %d stored", f.Forgotten, f.Kept, r.store.Store.Keys())
	}
	l := r.take()
	if len(l) != 2501 || l[0].Result != "begun" || l[2500].Result != "done" || l[2500].Audit != "forget-many" || l[9].Audit != "forget" || l[9].Before.Highest != "7" || l[9].ID != l[0].ID || l[9].Reason != "gone" {
		t.Errorf("%d lines, %+v", len(l), l[0])
	}
}

func TestMoment(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	for s, want := range map[string]string{"90d": "2026-02-03T03:02:01Z", "36h": "2026-05-02T15:02:01Z", "1h30m": "2026-05-04T01:32:01Z", "2026-01-31T00:00:00Z": "2026-01-31T00:00:00Z", "2026-01-31T01:00:00+01:00": "2026-01-31T00:00:00Z"} {
		if got, err := moment(s, now); err != nil || got.UTC().Format(time.RFC3339) != want {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"d", "-3d", "1.5d", "70000d", "0h", "2026-01-31", "1w"} {
		if got, err := moment(s, now); err == nil {
			t.Errorf("%s: %v", s, got)
		}
	}
}

func TestExportImport(t *testing.T) {
	r := newRig(t)
	for i := range 1500 {
		r.enter(tokenstore.Key(fmt.Sprintf("a:%04d", i)), uint64(i)+1).Settle()
	}
	code, text := r.get("/v1/export")
	d, err := dump.NewReader(strings.NewReader(text))
	if err != nil || code != 200 || d.Header.Clean || !d.Header.Unordered || d.Header.Settle != time.Minute || d.Header.Rules["a"] != "fa" || d.Header.ExportedAt.IsZero() {
		t.Fatalf("%d %v %+v", code, err, d)
	}
	n := 0
	for ; err == nil; n++ {
		_, err = d.Next()
	}
	if n != 1501 {
		t.Errorf("%d records, %v", n, err)
	}

	// What is higher here stays.
	o := newRig(t)
	o.enter("a:0000", 5).Settle()
	o.enter("a:0001", 2).Settle() // the same
	o.enter("a:0002", 1)          // in flight, and not waited for
	var report wire.ImportReport
	o.into(&report, 200, "POST", "/v1/import?reason=restore", text)
	if report.Keys != 1500 || report.Raised != 1498 || report.Kept != 2 {
		t.Errorf("%+v", report)
	}
	for key, want := range map[tokenstore.Key]uint64{"a:0000": 5, "a:0001": 2, "a:0002": 3, "a:1499": 1500} {
		if h, _ := o.highest(key); h.Major != want {
			t.Errorf("%s: %v, want %d", key, h, want)
		}
	}
	if got := o.results(); got != "import  begun, import  done" {
		t.Errorf("%s", got)
	}

	// What is damaged, or does not fit the rules, raises nothing at all.
	broken := strings.Replace(text, `"key":"a:0777"`, `"key":"a:0778"`, 1)
	for what, bad := range map[string]string{"damaged": broken, "cut": text[:len(text)/2], "empty": "", "none": "{}\n",
		"other rules": dumpOf(t, dump.Header{Rules: tokenstore.Rules{"a": "other"}}, "a:1", tokenstore.Token{Major: 1}),
		"epoch":       dumpOf(t, dump.Header{}, "e:1", tokenstore.Token{Epoch: 4}), "format": dumpOf(t, dump.Header{}, "a:1", tokenstore.Token{Major: 1, Minor: 1})} {
		p := newRig(t)
		p.refused(wire.AdminMalformed, "POST", "/v1/import?reason=r", bad)
		if p.store.Store.Keys() != 0 {
			t.Errorf("%s: %d keys were raised", what, p.store.Store.Keys())
		}
	}
	o.refused(wire.AdminMalformed, "POST", "/v1/import", text)
}

// The counter of leases goes along: a token that was granted here is granted
// nowhere that has taken the dump in, also on a key that was forgotten.
func TestExportImportCounter(t *testing.T) {
	r, o := newRig(t), newRig(t)
	ask := tokenstore.Lease{ID: "i", TTL: time.Second}
	var last tokenstore.Lease
	for range 7 {
		l, err := r.store.Store.GrantLease(t.Context(), "a:1", tokenstore.Lease{}, ask, 0)
		if err != nil || r.store.Store.EndLease(t.Context(), "a:1", l) != nil {
			t.Fatal(err)
		}
		last = l
	}
	_, text := r.get("/v1/export")
	o.into(new(wire.ImportReport), 200, "POST", "/v1/import?reason=restore", text)
	l, err := o.store.Store.GrantLease(t.Context(), "a:1", tokenstore.Lease{}, ask, 0)
	if err != nil || !last.Token.Less(l.Token) {
		t.Fatalf("token %v behind the import, and %v was granted before (%v)", l.Token, last.Token, err)
	}
}

// A proxy's own export can be taken in, also where several rules make a key, and
// the holder of a token comes along: or another one could write with it.
func TestImportOwnExport(t *testing.T) {
	shared := func(o *Options) { o.Owners = func(tokenstore.Key) []int { return []int{0, 1} } }
	r, o := newRig(t, shared), newRig(t, shared)
	var st wire.KeyStatus
	r.into(&st, 200, "POST", "/v1/keys/s:1/raise", `{"token":"7","rule":"e","holder":"A","reason":"r"}`)
	o.into(&st, 200, "POST", "/v1/keys/s:1/raise", `{"token":"7","rule":"e","reason":"r"}`)
	_, text := r.get("/v1/export")
	o.into(new(wire.ImportReport), 200, "POST", "/v1/import?reason=restore", text)
	if rec, _, err := o.store.Load(t.Context(), "s:1"); err != nil || rec.Highest.Major != 7 || rec.Holder != "A" {
		t.Errorf("%+v, %v", rec, err)
	}
}

func dumpOf(t *testing.T, h dump.Header, key tokenstore.Key, token tokenstore.Token) string {
	t.Helper()
	var b bytes.Buffer
	w := dump.NewWriter(&b)
	if err := errors.Join(w.Begin(h), w.Add(dump.Record{Key: key, Record: tokenstore.Record{Highest: token}}), w.End()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A file that was moved away is made anew, and is its owner's alone to read.
func TestAuditFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	a, err := OpenAudit(path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(key string) {
		t.Helper()
		if err := a.Write(AuditLine{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	write("two")
	write("three")
	for file, want := range map[string]int{path: 2, path + ".1": 1} {
		b, err := os.ReadFile(file)
		if err != nil || bytes.Count(b, []byte("\n")) != want || !json.Valid(b[:bytes.IndexByte(b, '\n')]) {
			t.Errorf("%s: %s %v", file, b, err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info.Mode(), err)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".2"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := a.Write(AuditLine{}); err == nil {
		t.Error("a directory takes lines")
	}
}
