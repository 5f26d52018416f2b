package main

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/client"
)

// listing is what keys list was asked for.
type listing struct {
	prefix string
	limit  int // 0 for all
	busy   bool
}

// list prints page after page; as JSON it is a line a key.
func (l listing) list(c keysCall) error {
	const page = 1000
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fetch, row := c.admin.Keys, recordRow
	if l.busy {
		fetch, row = c.admin.BusyKeys, busyRow
	}
	switch {
	case c.json:
		row = func(_ io.Writer, k client.ListedKey) error { return printJSON(c.out, k) }
	case l.busy:
		fmt.Fprintln(w, "KEY\tHIGHEST\tIN FLIGHT\tUNSETTLED\tWAITING\tRULE\tWHY")
	default:
		fmt.Fprintln(w, "KEY\tHIGHEST\tRAISED\tHOLDER\tRULE")
	}
	for after, left := "", l.limit; ; {
		n := page
		if l.limit > 0 {
			n = min(n, left)
		}
		list, err := fetch(c.ctx, l.prefix, after, n)
		if err != nil {
			return err
		}
		if after == "" && list.QuarantinedUntil != nil {
			fmt.Fprintf(c.errors, "keys are quarantined after a crash, for %s more; listed are only those with writes since\n", short(time.Until(*list.QuarantinedUntil)))
		}
		if list.WithoutKey != nil {
			if err := row(w, *list.WithoutKey); err != nil {
				return err
			}
		}
		for _, k := range list.Keys {
			if err := row(w, k); err != nil {
				return err
			}
		}
		left -= len(list.Keys)
		if after = list.Next; after == "" || l.limit > 0 && left <= 0 {
			return w.Flush()
		}
		// A page at a time: a list of a million keys is not kept to line it up.
		if err := w.Flush(); err != nil {
			return err
		}
	}
}

func recordRow(w io.Writer, k client.ListedKey) error {
	_, err := fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", plain(k.Key), highest(k), when(k.RaisedAt), cmp.Or(plain(k.Holder), "-"), k.Rule)
	return err
}

func highest(k client.ListedKey) string {
	if k.Damaged != "" {
		return "damaged: " + k.Damaged
	}
	return k.Highest
}

// busyRow is of no key where the writes are those whose key nobody knows.
func busyRow(w io.Writer, k client.ListedKey) error {
	inFlight, unsettled, waiting, why := "-", "-", "-", ""
	if f := k.InFlight; f != nil {
		inFlight = fmt.Sprintf("%d for %s", f.Count, short(time.Since(f.Since)))
	}
	if u := k.Unsettled; u != nil {
		unsettled, why = fmt.Sprintf("%d for %s more", u.Count, short(time.Until(u.Until))), u.Why
	}
	if k.Waiting > 0 {
		waiting = strconv.Itoa(k.Waiting)
	}
	_, err := fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", cmp.Or(plain(k.Key), "(not known)"), cmp.Or(k.Highest, "-"), inFlight, unsettled, waiting, cmp.Or(k.Rule, "-"), cmp.Or(why, "-"))
	return err
}
