package stories

import (
	"testing"
	"time"
)

// x1: RA is cut off from the store alone, and still watches w1 at the upstream.
// Its session expires; RB waits until what RA cut at its deadline is settled.
// When they see each other again RA goes on by itself.
func x1(t *testing.T, p Place) {
	r := newRig(t, p)
	w1 := r.a.ask(1).admitted()
	w1.send()
	r.a.cut()
	w2 := r.b.ask(2).waits()
	w1.wasCut()
	w2.admitted().send()
	w2.answered()
	r.a.network.Hold(false, false)
	w3 := r.a.back(3)
	w3.send()
	w3.answered()
}

// x2: RA is paused between the check and the send, and again before the cut,
// each time for as long as a step that is due may take.
func x2(t *testing.T, p Place) {
	r := newRig(t, p)
	w1 := r.a.ask(1).admitted()
	r.a.cut()
	w2 := r.b.ask(2).waits()
	// The last check before the deadline, as far as the machine lets it come.
	checked := false
	r.eventually("the deadline is near", func() bool {
		near := r.a.store.Remaining() < margin/2
		may := w1.grant.MaySend()
		checked = checked || may
		return near
	})
	if !checked {
		t.Fatal("w1 may not be sent before the deadline")
	}
	r.a.pause()
	r.a.ends()
	time.Sleep(margin / 4)
	w1.sendLate()
	time.Sleep(margin / 4)
	r.a.resume()
	w1.wasCut()
	w2.admitted().send()
	w2.answered()
}

// x3: RA's session is over, w1 was admitted before that, and RA comes to send
// it.
func x3(t *testing.T, p Place) {
	r := newRig(t, p)
	w1 := r.a.ask(1).admitted()
	r.a.cut()
	w2 := r.b.ask(2).waits()
	w2.admitted().send()
	w2.answered()
	if w1.send() {
		t.Error("w1 is sent after the session, and after w2")
	}
}

// x4: RA's machine is suspended with w1 admitted, and wakes up when w2 has been
// applied. Nothing of RA has run meanwhile, so nothing but the clock can tell.
// No machine is suspended here: the clock is the test's, stands still like all
// timers of a suspended machine, and then has gone on, as CLOCK_BOOTTIME has.
func x4(t *testing.T, p Place) {
	r := newRig(t, p)
	w1 := r.a.ask(1).admitted()
	r.a.cut()
	r.a.clock.stop()
	w2 := r.b.ask(2).waits()
	w2.admitted().send()
	w2.answered()
	if !w1.grant.MaySend() {
		t.Fatal("w1 may not be sent while the clock stands still: this has shown nothing")
	}
	r.a.clock.goOn()
	if w1.send() {
		t.Error("w1 is sent after the suspension, and after w2")
	}
	r.a.ends()
}
