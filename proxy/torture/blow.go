package torture

import (
	"math/rand/v2"
	"time"
)

// Blow is one kind of thing that is done to a proxy, as a history names it.
type Blow string

// Blows that end the process by SIGKILL, and have it running again.
const (
	BlowKillWorking   Blow = "killed"
	BlowKillStopped   Blow = "killed while SIGSTOP holds it"
	BlowKillFull      Blow = "killed while its disk is full"
	BlowKillLeaving   Blow = "killed while SIGTERM stops it"
	BlowKillReloading Blow = "killed while it reloads"
	BlowKillStarting  Blow = "killed while it starts"
)

// Blows that it has to live with, or that stop it as an operator would.
const (
	BlowTerm          Blow = "SIGTERM"
	BlowTermFull      Blow = "SIGTERM while its disk is full"
	BlowStop          Blow = "SIGSTOP, SIGCONT"
	BlowHangup        Blow = "reloaded by SIGHUP"
	BlowSwap          Blow = "reloaded since its file changed"
	BlowBadFile       Blow = "given a file that is wrong"
	BlowFullDisk      Blow = "its disk is full"
	BlowHoldClients   Blow = "silence between clients and proxy"
	BlowHoldBackend   Blow = "silence between proxy and backend"
	BlowResetClients  Blow = "all connections of clients reset"
	BlowResetBackend  Blow = "all connections to the backend reset"
	BlowRefuseBackend Blow = "the backend refuses connections"
)

var (
	kills = []Blow{BlowKillWorking, BlowKillStopped, BlowKillFull, BlowKillLeaving, BlowKillReloading, BlowKillStarting}
	other = []Blow{BlowTerm, BlowStop, BlowHangup, BlowSwap, BlowBadFile, BlowFullDisk, BlowHoldClients, BlowHoldBackend, BlowResetClients, BlowResetBackend, BlowRefuseBackend, BlowTermFull}
)

// Step is one blow of a schedule, with what was drawn for it.
type Step struct {
	Blow
	Wait time.Duration // how long it lasts, up to 300 ms
	Look bool          // where it ends the process: read the store before the next one starts
	Form int           // where it changes the configuration: how
}

// Schedule draws what is done to the proxy in a run, in order: n kills, and as
// many other blows, but at least one of each kind. The first ones are kills, one
// of each kind: they show most. One seed draws one schedule.
func Schedule(seed uint64, n int) []Step {
	rng := rand.New(rand.NewPCG(seed, 1<<40))
	draw := func(from []Blow, n int) (steps []Step) {
		for i := range n {
			steps = append(steps, Step{
				Blow: from[i%len(from)],
				Wait: time.Duration(rng.Int64N(int64(300 * time.Millisecond))),
				Look: rng.IntN(2) == 0,
				Form: rng.IntN(1 << 10),
			})
		}
		return steps
	}
	shuffle := func(steps []Step) []Step {
		rng.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
		return steps
	}
	first := draw(kills, min(n, len(kills)))
	rest := append(draw(kills, n-len(first)), draw(other, max(n, len(other)))...)
	return append(shuffle(first), shuffle(rest)...)
}
