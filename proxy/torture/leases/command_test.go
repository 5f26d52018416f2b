package leases

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
)

const ordersVariable = "FENCEPROXY_TORTURE_ORDERS"

// orders are what the command under a lease is to do.
type orders struct {
	Proxies []string      `json:"proxies"` // where to write to
	Key     string        `json:"key"`     // as the backend sees it
	First   uint32        `json:"first"`   // ID of the first write
	Writes  int           `json:"writes"`
	Pause   time.Duration `json:"pause"` // between two of them, at the most
	Seed    uint64        `json:"seed"`
	Code    int           `json:"code"` // to exit with
}

// line is what the command prints, one JSON object a line.
type line struct {
	PID   int            `json:"pid,omitempty"` // first of all
	Event *torture.Event `json:"event,omitempty"`
	Done  bool           `json:"done,omitempty"` // last of all
}

// obey is the command: it writes with the token of its lease, whether that is
// still held or not, as programs do that know nothing of leases.
func obey(text string) int {
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 100
	}
	token, err := strconv.ParseUint(os.Getenv("FENCING_TOKEN"), 10, 64)
	if err != nil || os.Getenv("FENCING_KEY") != leaseKey(o.Key) {
		fmt.Fprintf(os.Stderr, "FENCING_TOKEN=%s FENCING_KEY=%s for %s\n", os.Getenv("FENCING_TOKEN"), os.Getenv("FENCING_KEY"), o.Key)
		return 101
	}
	out := json.NewEncoder(os.Stdout)
	_ = out.Encode(line{PID: os.Getpid()})
	rng := rand.New(rand.NewPCG(o.Seed, 0))
	for i := range o.Writes {
		w := torture.Write{ID: o.First + uint32(i), Key: o.Key, Token: token, Body: rng.IntN(300), Plan: drawPlan(rng), Patience: patience}
		h := torture.NewHistory()
		c := torture.Client{Addr: o.Proxies[rng.IntN(len(o.Proxies))], H: h}
		c.Do(w)
		c.Close()
		for _, e := range h.Events() {
			if e.Kind != torture.Send {
				_ = out.Encode(line{Event: &e})
			}
		}
		time.Sleep(time.Duration(rng.Int64N(int64(o.Pause))))
	}
	_ = out.Encode(line{Done: true})
	return o.Code
}

// drawPlan is what the backend does with one write: most are quick, some slow,
// and some are applied behind the back of a proxy that has lost them.
func drawPlan(rng *rand.Rand) torture.Plan {
	slow := func(low, high time.Duration) time.Duration { return low + time.Duration(rng.Int64N(int64(high-low))) }
	switch n := rng.IntN(20); {
	case n < 12:
		return torture.Plan{Delay: slow(0, 20*time.Millisecond)}
	case n < 16:
		return torture.Plan{Delay: slow(50*time.Millisecond, response*3/4)}
	case n < 17:
		return torture.Plan{End: torture.Reset, Late: slow(time.Millisecond, settle/3)}
	case n < 18:
		return torture.Plan{End: torture.Break}
	default:
		return torture.Plan{Delay: response + slow(0, settle/4)} // too late for an answer, not for the write
	}
}
