package torture

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// Striker does the blows of a schedule to a proxy. It is for one goroutine.
type Striker struct {
	Proxy   *Proxy
	H       *History
	Clients *Relay // between the clients and the proxy
	Backend *Relay // between the proxy and the backend
	// Settings are those of the start. A reload makes times that the judges measure
	// against longer, never shorter.
	Settings Settings
	Keys     []string // to look for in the store
	Codes    map[int]int
}

// stopPatience is how long a stop may take on a machine that is busy, beyond
// shutdown_timeout.
const stopPatience = 10 * time.Second

// Strike does one blow, and has the proxy running when it returns.
func (s *Striker) Strike(st Step) error {
	s.H.Add(Event{Kind: Fault, Name: string(st.Blow), Result: st.Wait.String()})
	if err := s.strike(st); err != nil {
		return fmt.Errorf("%s: %w", st.Blow, err)
	}
	return nil
}

func (s *Striker) strike(st Step) error {
	p := s.Proxy
	switch st.Blow {
	case BlowKillWorking:
		return s.kill(st)
	case BlowKillStopped:
		p.Pause()
		time.Sleep(st.Wait)
		return s.kill(st)
	case BlowKillFull:
		if err := p.FillDisk(true); err != nil {
			return err
		}
		time.Sleep(500*time.Millisecond + st.Wait) // for some raises to be tried
		st.Look = true
		return s.kill(st)
	case BlowKillLeaving:
		p.Terminate()
		time.Sleep(st.Wait)
		return s.kill(st)
	case BlowKillReloading:
		if err := p.Configure(s.form(st.Form)); err != nil {
			return err
		}
		p.Hangup()
		time.Sleep(st.Wait / 30) // a reload takes some milliseconds
		return s.kill(st)
	case BlowKillStarting:
		p.Kill()
		if err := p.Launch(); err != nil {
			return err
		}
		time.Sleep(st.Wait / 2)
		return s.kill(st)
	case BlowTerm:
		return s.terminate(st, false)
	case BlowTermFull:
		if err := p.FillDisk(true); err != nil {
			return err
		}
		return s.terminate(st, fillsDisks)
	case BlowStop:
		p.Pause()
		time.Sleep(st.Wait)
		p.Resume()
	case BlowHangup:
		return s.reload(st, p.Hangup)
	case BlowSwap:
		return s.reload(st, func() {})
	case BlowBadFile:
		return s.badFile(st)
	case BlowFullDisk:
		if err := p.FillDisk(true); err != nil {
			return err
		}
		time.Sleep(st.Wait)
		return p.FillDisk(false)
	case BlowHoldClients:
		s.hold(s.Clients, st)
	case BlowHoldBackend:
		// A connection that HTTP/2 shares outlives the write that the proxy gives up
		// on it, and bytes that were held back would come long after settle: that
		// breaks A1, and shows nothing of the proxy.
		if s.Settings.HTTP2 {
			s.Backend.Reset()
		} else {
			s.hold(s.Backend, st)
		}
	case BlowResetClients:
		s.Clients.Reset()
	case BlowResetBackend:
		s.Backend.Reset()
	case BlowRefuseBackend:
		err := s.Backend.Refuse(true)
		s.Backend.Reset()
		time.Sleep(st.Wait)
		return errors.Join(err, s.Backend.Refuse(false))
	default:
		return errors.New("nobody knows how to do it")
	}
	return nil
}

// kill ends the process, looks at what it left behind, and starts the next one.
func (s *Striker) kill(st Step) error {
	s.Proxy.Kill()
	return s.start(st)
}

func (s *Striker) start(st Step) error {
	if st.Look {
		if err := s.Proxy.Look(s.Keys); err != nil {
			return err
		}
	}
	return s.Proxy.Start()
}

// terminate stops the process as an operator does. Where its disk is full the
// marker of a clean stop cannot be written, and it has to say so.
func (s *Striker) terminate(st Step, full bool) error {
	s.Proxy.Terminate()
	code, err := s.Proxy.Wait(s.Settings.Shutdown + stopPatience)
	if err != nil {
		return err
	}
	s.Codes[code]++
	switch {
	case full && code == 0:
		return errors.New("exit code 0, though the marker of a clean stop cannot be on the disk")
	case code != 0 && code != 3 && !(full && code == 1):
		return fmt.Errorf("exit code %d", code)
	}
	return s.start(st)
}

// form is one of the configurations that a reload may come to.
func (s *Striker) form(n int) Settings {
	f := s.Settings
	f.Settle += time.Duration(n%3) * f.Settle / 4
	f.Response += time.Duration(n/3%3) * f.Response / 4
	f.Drain += time.Duration(n/9%3) * f.Drain / 8
	f.Waiting = []int{0, 40, 50}[n/27%3]
	f.BodyLimit = []string{s.Settings.BodyLimit, "4KiB", "16KiB"}[n/81%3]
	if n%2 == 0 {
		f.Shutdown /= 20 // too short for what is unsettled: exit code 3
	}
	return f
}

func (s *Striker) reload(st Step, tell func()) error {
	from := s.Proxy.logged()
	if err := s.Proxy.Configure(s.form(st.Form)); err != nil {
		return err
	}
	tell()
	return s.Proxy.Says(Reloaded, from, startPatience)
}

// badFile gives it a file that is wrong at its end, and takes it away again.
func (s *Striker) badFile(st Step) error {
	good, err := os.ReadFile(s.Proxy.config)
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	from := s.Proxy.logged()
	if err := s.Proxy.configure(string(good) + "fences: {}\n"); err != nil {
		return err
	}
	s.Proxy.Hangup()
	if err := s.Proxy.Says(NotReloaded, from, startPatience); err != nil {
		return err
	}
	time.Sleep(st.Wait)
	return s.reload(st, s.Proxy.Hangup)
}

// hold is silence for up to 900 ms: longer than the proxy waits for an answer.
func (s *Striker) hold(r *Relay, st Step) {
	r.Hold(true)
	time.Sleep(3 * st.Wait)
	r.Hold(false)
}
