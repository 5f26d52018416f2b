package leases

import (
	"fmt"
	"slices"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
)

// What is done to a lock or its command: Event.Name of a Fault, whose
// Event.Result is the holder.
const (
	lockKilled     = "lock killed"
	lockTerminated = "lock terminated"
	commandKilled  = "command killed"
)

// What a command tells of itself.
const (
	started = "started"
	done    = "done"
)

// lockLife is what a history shows of one fenceproxy lock.
type lockLife struct {
	granted, held  bool // it was told so
	started, done  bool // its command
	code           uint16
	killed, termed bool
	commandKilled  bool
}

// exits: the code of a lock says what became of its lease and command.
func exits(h []torture.Event, _ limits) (bad []string) {
	lives := map[string]*lockLife{}
	of := func(holder string) *lockLife {
		if lives[holder] == nil {
			lives[holder] = &lockLife{}
		}
		return lives[holder]
	}
	for i, e := range h {
		switch e.Kind {
		case torture.Grant:
			of(e.Name).granted = true
		case torture.Refused:
			of(e.Name).held = of(e.Name).held || e.Result == "lease-held"
		case torture.Fault:
			l := of(e.Result)
			l.killed = l.killed || e.Name == lockKilled
			l.termed = l.termed || e.Name == lockTerminated
			l.commandKilled = l.commandKilled || e.Name == commandKilled
		case torture.Command:
			l := of(e.Name)
			l.started = true
			if e.Result == done {
				l.done, l.code = true, e.Status
			}
		case torture.Exit:
			if why := of(e.Name).wrong(e); why != "" {
				bad = append(bad, fmt.Sprintf("%s ended with %d %s (event %d, %v): %s", e.Name, e.Status, e.Result, i, e.At, why))
			}
		}
	}
	return bad
}

// wrong says why a lock cannot have ended like that; "" is for one that can.
func (l *lockLife) wrong(exit torture.Event) string {
	switch {
	case exit.Result == "terminated" && l.termed: // before it could say what it does with that
		return when(l.started, "it must end its command")
	case exit.Result != "":
		return when(!l.killed, "nobody has killed it")
	case l.started && !l.granted:
		return "its command ran without a lease"
	case exit.Status == 69:
		return when(l.started, "its command ran, so a server was there")
	case exit.Status == 75:
		return when(l.started || !l.held, "another's lease must have been in its way, and its command must not have run")
	case exit.Status == 76:
		return when(!l.granted, "what it never had cannot be lost")
	case exit.Status == 128+9:
		return when(!l.commandKilled, "nobody has killed its command")
	case exit.Status == 128+15:
		return when(!l.termed, "nobody has told it to end")
	case slices.Contains(codes, int(exit.Status)):
		return when(!l.done || l.code != exit.Status, "its command has not ended with that")
	}
	return "the contract has no such code here"
}

func when(wrong bool, why string) string {
	if wrong {
		return why
	}
	return ""
}
