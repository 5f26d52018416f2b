package leases

import (
	"fmt"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
)

// tally counts what a history shows, so that a quiet run is not taken for a
// good one.
type tally struct {
	grants, renewals, releases int
	heirs                      int // grants after a lease that ran out
	lost                       int // holders that were told so
	applied, stale             int
	exits                      map[string]int
}

func count(h []torture.Event) tally {
	c := tally{exits: map[string]int{}}
	open := map[string]time.Duration{} // leases that were not released, and when they were asked for
	for _, e := range h {
		switch e.Kind {
		case torture.Grant:
			c.grants++
			if _, ok := open[e.Key]; ok {
				c.heirs++
			}
			open[e.Key] = e.At
		case torture.Renewed:
			c.renewals++
		case torture.Release:
			c.releases++
			delete(open, e.Key)
		case torture.Refused:
			if e.Result == "lease-lost" {
				c.lost++
			}
		case torture.Apply:
			c.applied++
		case torture.Answer:
			if e.Name == "stale-token" {
				c.stale++
			}
		case torture.Exit:
			if e.Result != "" {
				c.exits[e.Result]++
			} else {
				c.exits[fmt.Sprint(e.Status)]++
			}
		}
	}
	return c
}

// quiet says what a run has not shown.
func (c tally) quiet() (all []string) {
	for what, n := range map[string]int{"lease was granted eight times": c.grants / 8, "lease was renewed": c.renewals, "lease was released": c.releases,
		"lease ran out and was granted again": c.heirs, "write was applied": c.applied, "stale write was refused": c.stale,
		"command ended by itself": c.exits["0"], "lock found the lease taken": c.exits["75"], "lock lost its lease": c.exits["76"], "lock was killed": c.exits["killed"]} {
		if n == 0 {
			all = append(all, "no "+what+", which shows little")
		}
	}
	return all
}
