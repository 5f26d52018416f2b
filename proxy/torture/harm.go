package torture

import (
	"math/rand/v2"
	"time"
)

// Ways to harm a connection.
const (
	HarmDelay    = "delay"
	HarmCut      = "cut"      // both sides see an end
	HarmReset    = "reset"    // both sides see an error
	HarmTruncate = "truncate" // the receiver sees an end, and may still speak
)

// Harm is what a Relay does to one connection; the zero Harm is nothing.
type Harm struct {
	How   string
	Back  bool          // on the way back to who dialed
	After int           // bytes of that way
	Wait  time.Duration // of a delay
}

// Harms draw what is done to the connections of one relay. The n-th connection
// of one seed suffers the same in every run.
type Harms struct {
	Seed     uint64
	PerMille int           // of the connections, of each kind; delays are four times as many
	There    int           // it happens before so many bytes of the way there
	Back     int           // or of the way back
	Delay    time.Duration // the longest
	// Whole says that the way there is never truncated: a backend that sees an
	// end of what the proxy sends takes it for the proxy's leaving, and may drop a
	// write that the proxy then sees answered.
	Whole bool
}

// Of draws the harm of the n-th connection.
func (h Harms) Of(n int) (harm Harm) {
	rng := rand.New(rand.NewPCG(h.Seed, 1<<48+uint64(n)))
	switch d := rng.IntN(1000); {
	case d < 4*h.PerMille:
		harm.How = HarmDelay
		harm.Wait = time.Duration(1 + rng.Int64N(int64(h.Delay)))
	case d < 5*h.PerMille:
		harm.How = HarmCut
	case d < 6*h.PerMille:
		harm.How = HarmReset
	case d < 7*h.PerMille:
		harm.How = HarmTruncate
	default:
		return Harm{}
	}
	harm.Back = rng.IntN(2) == 0 || harm.How == HarmTruncate && h.Whole
	if harm.Back {
		harm.After = rng.IntN(h.Back)
	} else {
		harm.After = rng.IntN(h.There)
	}
	return harm
}
