package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/client"
)

// table prints what was answered, for people.
type table func(w io.Writer)

// print prints an answer as it was asked for.
func (c keysCall) print(v any, t table) error {
	if c.json {
		return printJSON(c.out, v)
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	t(w)
	return w.Flush()
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func statusTable(st client.KeyStatus) table {
	return func(w io.Writer) {
		row(w, "key", plain(st.Key))
		row(w, "rule", cmp.Or(strings.Join(st.Rules, ", "), st.Rule))
		row(w, "highest", st.Highest)
		if st.RaisedAt != nil {
			raised := when(st.RaisedAt) + " (" + short(time.Since(*st.RaisedAt)) + " ago)"
			if st.Holder == "" { // its rule has no holder_header
				raised += ", by a holder that was not named"
			}
			row(w, "raised", raised)
		}
		row(w, "holder", plain(st.Holder))
		if st.Lease != nil {
			row(w, "lease", leaseText(st.Lease))
			if st.Lease.Stale {
				row(w, "", "that token is stale: its holder's writes get 409, and nobody else gets the lease while it is renewed; end the holder")
			}
		}
		inFlightRows(w, st.InFlight)
		unsettledRows(w, st.Unsettled)
		if st.Waiting > 0 {
			row(w, "waiting", strconv.Itoa(st.Waiting))
		}
		if st.QuarantinedUntil != nil {
			row(w, "quarantined", "for "+short(time.Until(*st.QuarantinedUntil))+" more, after a crash")
		}
	}
}

func leaseText(l *client.KeyLease) string {
	text := fmt.Sprintf("held by %s %s, for %s more unless it is renewed", plain(l.Holder), with(l.Token), short(time.Duration(l.ExpiresIn)))
	if l.Waiting > 0 {
		text += "; " + count(l.Waiting, "waits", "wait") + " for it"
	}
	return text
}

func inFlightRows(w io.Writer, writes []client.InFlight) {
	for _, f := range writes {
		row(w, "in flight", fmt.Sprintf("%d %s, the oldest for %s", f.Count, with(f.Token), short(time.Since(f.Since))))
	}
}

func unsettledRows(w io.Writer, writes []client.Unsettled) {
	for _, u := range writes {
		row(w, "unsettled", fmt.Sprintf("%s, for %s more: %s", with(u.Token), short(time.Until(u.Until)), u.Why))
	}
}

func settleTable(r client.SettleReport) table {
	return func(w io.Writer) {
		row(w, "key", plain(r.Key))
		row(w, "settled", count(len(r.Unsettled), "write", "writes"))
		for _, u := range r.Unsettled {
			row(w, "", with(u.Token)+": "+u.Why)
		}
		for _, key := range r.AlsoOn {
			row(w, "also on", plain(key))
		}
		if r.Quarantined {
			row(w, "quarantine", "over for this key")
		}
		inFlightRows(w, r.InFlight)
	}
}

func forgetTable(r client.ForgetReport) table {
	return func(w io.Writer) {
		word := "forgotten"
		if r.DryRun {
			word = "would be forgotten"
		}
		row(w, word, strconv.Itoa(r.Forgotten))
		for _, key := range r.Sample {
			row(w, "", plain(key))
		}
		if more := r.Forgotten - len(r.Sample); len(r.Sample) > 0 && more > 0 {
			row(w, "", fmt.Sprintf("and %d more", more))
		}
		row(w, "kept", strconv.Itoa(r.Kept))
		for _, k := range r.KeptKeys {
			row(w, "", plain(k.Key)+": "+k.Why)
		}
		if more := r.Kept - len(r.KeptKeys); more > 0 {
			row(w, "", fmt.Sprintf("and %d more", more))
		}
	}
}

func checkTable(r client.CheckReport) table {
	return func(w io.Writer) {
		row(w, "key", plain(r.Key))
		row(w, "rule", r.Rule)
		row(w, "token", r.Token+" is not stale")
		row(w, "highest", r.Highest)
	}
}

func importTable(r client.ImportReport) table {
	return func(w io.Writer) {
		row(w, "keys", strconv.Itoa(r.Keys))
		row(w, "raised", strconv.Itoa(r.Raised))
		row(w, "kept", strconv.Itoa(r.Kept))
	}
}

// row is one line of two columns; one that has nothing to say is left out.
func row(w io.Writer, name, value string) {
	if value != "" {
		fmt.Fprintf(w, "%s\t%s\n", name, value)
	}
}

func with(token string) string {
	if token == "" {
		return "without a token that counts"
	}
	return "with token " + token
}

// when is a time here, with how far that is from the time of the logs.
func when(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05Z07:00")
}

// count is how many, in words.
func count[N int | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// short is a duration for people.
func short(d time.Duration) string {
	d = max(0, d)
	if d >= 48*time.Hour {
		return strconv.Itoa(int(d/(24*time.Hour))) + "d"
	}
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}

// plain is a key, or a holder, whose bytes cannot speak to a terminal.
func plain(s string) string {
	if q := strconv.Quote(s); strings.Trim(q, `"`) != s {
		return q
	}
	return s
}
