package torture

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// What a proxy says of a new configuration.
const (
	Reloaded    = `"msg":"the configuration was reloaded"`
	NotReloaded = `"msg":"the configuration was not reloaded`
)

// Configure writes a configuration with the addresses and the store of the first
// one. It appears as a whole: a proxy that watches its file never reads half of
// it.
func (p *Proxy) Configure(s Settings) error {
	return p.configure(s.yaml(p.Addr, p.admin, p.store))
}

func (p *Proxy) configure(text string) error {
	err := os.WriteFile(p.config+".new", []byte(text), 0o600)
	if err == nil {
		err = os.Rename(p.config+".new", p.config)
	}
	if err != nil {
		return fmt.Errorf("writing the configuration: %w", err)
	}
	return nil
}

// Hangup tells the process to read its configuration again.
func (p *Proxy) Hangup() { p.process.Signal(syscall.SIGHUP) }

// logged returns how much was logged so far.
func (p *Proxy) logged() int64 {
	info, err := os.Stat(p.log)
	if err != nil {
		return 0
	}
	return info.Size()
}

// Says waits until the log has text behind its first from bytes.
func (p *Proxy) Says(text string, from int64, patience time.Duration) error {
	f, err := os.Open(p.log)
	if err != nil {
		return fmt.Errorf("reading the proxy's log: %w", err)
	}
	defer f.Close()
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		b, err := io.ReadAll(io.NewSectionReader(f, from, 1<<30))
		switch {
		case err != nil:
			return fmt.Errorf("reading the proxy's log: %w", err)
		case bytes.Contains(b, []byte(text)):
			return nil
		case time.Now().After(end):
			return fmt.Errorf("the proxy did not say %s within %v, but:\n%s", text, patience, b)
		}
		select {
		case <-p.process.Ended():
			return errors.New("the proxy ended, before it said " + text)
		default:
		}
	}
}
