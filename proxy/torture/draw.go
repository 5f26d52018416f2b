package torture

import (
	"math/rand/v2"
	"time"
)

// Draw makes random writes for a torture run. It is for one goroutine; one
// seed makes one sequence.
type Draw struct {
	Rand *rand.Rand
	// Patience is the proxy's response_timeout, which some writes overstay.
	Patience time.Duration
	// Late is the longest time after a break at which a write is applied.
	Late time.Duration
	// Buffer is the proxy's max_body_buffer, in bytes; some bodies are larger.
	Buffer int
	// Leavers is how many clients in a thousand leave; 0 is 50.
	Leavers int
	// Silence is a client's patience, see Write.Patience.
	Silence time.Duration
}

// Write fills in what the backend and the client do with a write. About one in
// fifteen is lost sight of; more would leave every key waiting all the time.
func (d *Draw) Write(w *Write) {
	d.backend(&w.Plan)
	w.Body, w.Patience = d.Rand.IntN(300), d.Silence
	switch n := d.Rand.IntN(1000); {
	case n < 20: // larger than what is read ahead
		w.Body = d.Buffer + d.Rand.IntN(4*d.Buffer)
	case n < 35: // and stalled, inside what is read ahead or behind it
		w.Body = 3 * d.Buffer
		w.StallAfter = 1 + d.Rand.IntN(2*d.Buffer)
		w.Stall = d.between(20*time.Millisecond, 600*time.Millisecond)
	case n < 40: // small and stalled: holds no key
		w.Body, w.StallAfter, w.Stall = 200, 100, d.between(20*time.Millisecond, 600*time.Millisecond)
	case n < 50: // a slow reader
		w.Plan.Size = 256 << 10
		w.ReadPause = d.between(time.Millisecond, 20*time.Millisecond)
	case n < 60:
		w.Body, w.Expect = 2*d.Buffer, true
	}
	w.HalfClose = d.Rand.IntN(100) == 0 // gone, to a proxy that has not sent the write yet
	w.Softly = d.Rand.IntN(2) == 0
	leavers := d.Leavers
	if leavers == 0 {
		leavers = 50
	}
	switch n := d.Rand.IntN(1000); { // leaves early, or while it waits or reads
	case n < leavers/2:
		w.Leave = d.between(time.Millisecond/10, 5*time.Millisecond)
	case n < leavers:
		w.Leave = d.between(time.Millisecond, 60*time.Millisecond)
	}
}

func (d *Draw) backend(p *Plan) {
	p.Size = d.Rand.IntN(200)
	p.Delay = time.Duration(d.Rand.ExpFloat64() * float64(2*time.Millisecond))
	p.Delay = min(p.Delay, d.Patience/2)
	p.KeepOff = d.Rand.IntN(4) == 0
	late := 1 + d.between(0, d.Late)
	switch n := d.Rand.IntN(1000); {
	case n < 60: // slow
		p.Delay = d.between(10*time.Millisecond, 60*time.Millisecond)
	case n < 100: // trickled
		p.Pieces, p.Pause = 2+d.Rand.IntN(4), d.between(0, 10*time.Millisecond)
	case n < 130: // refused, with or without effect: A2 says it is over
		p.Status, p.Skip = []uint16{400, 404, 422, 500}[d.Rand.IntN(4)], d.Rand.IntN(2) == 0
	case n < 135:
		p.Status, p.Refuse, p.Skip = 413, true, true
	case n < 147: // reset: before, after, and long before it takes effect
		p.End = Reset
		d.effect(p, late)
	case n < 157:
		p.End, p.Size, p.Pieces = Break, 50, 1+d.Rand.IntN(3)
		d.effect(p, late)
		if p.Late > 0 || p.Skip { // its head may reach the client, and a 2xx is a promise
			p.Status = 500
		}
	case n < 167:
		p.Status = []uint16{202, 502, 504}[d.Rand.IntN(3)]
		d.effect(p, late)
	case n < 171:
		p.End = Hang
		d.effect(p, late)
	case n < 174:
		p.End = HalfClose
		d.effect(p, late)
	}
	if d.Rand.IntN(2) == 0 { // counts only where the upload is cut
		p.Cut = late
	}
}

// effect draws whether a write that is lost sight of was applied before, is
// applied after, or never is.
func (d *Draw) effect(p *Plan, late time.Duration) {
	switch d.Rand.IntN(4) {
	case 0:
		p.Skip = true
	case 1:
	default:
		p.Late = late
	}
}

func (d *Draw) between(low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(d.Rand.Int64N(int64(high-low)))
}
