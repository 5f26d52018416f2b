package torture

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ends are the two ends of one connection through a relay.
type ends struct{ near, far net.Conn }

// relayed connects through a relay to a listener of the test.
func throughRelay(t *testing.T, o RelayOptions) (*Relay, ends) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	r, err := StartRelay(ln.Addr().String(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	near, err := r.Dial()
	if err != nil {
		t.Fatal(err)
	}
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	for _, c := range []net.Conn{near, far} {
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	}
	return r, ends{near, far}
}

func harmed(h Harm) RelayOptions { return RelayOptions{Harm: func(int) Harm { return h }} }

func says(t *testing.T, c net.Conn, s string) {
	t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		t.Fatal(err)
	}
}

// hears reads to the end.
func hears(t *testing.T, c net.Conn, want string, wantErr error) {
	t.Helper()
	got, err := io.ReadAll(c)
	if string(got) != want || !errors.Is(err, wantErr) {
		t.Errorf("%q and the error %v, want %q and %v", got, err, want, wantErr)
	}
}

func hangsUp(c net.Conn) { _ = c.(*net.TCPConn).CloseWrite() }

func TestRelay(t *testing.T) {
	for _, c := range []struct {
		name string
		harm Harm
		do   func(t *testing.T, e ends)
	}{
		{"nothing", Harm{}, func(t *testing.T, e ends) {
			says(t, e.near, "question")
			hangsUp(e.near)
			hears(t, e.far, "question", nil)
			says(t, e.far, "answer") // to one who has half closed
			hangsUp(e.far)
			hears(t, e.near, "answer", nil)
		}},
		{"delay", Harm{How: HarmDelay, After: 3, Wait: 80 * time.Millisecond}, func(t *testing.T, e ends) {
			begin := time.Now()
			says(t, e.near, "question")
			hangsUp(e.near)
			head := make([]byte, 3)
			if _, err := io.ReadFull(e.far, head); err != nil || string(head) != "que" {
				t.Errorf("%q, %v", head, err)
			}
			hears(t, e.far, "stion", nil)
			if took := time.Since(begin); took < 80*time.Millisecond {
				t.Errorf("all of it was there after %v", took)
			}
		}},
		{"cut", Harm{How: HarmCut, After: 3}, func(t *testing.T, e ends) {
			says(t, e.near, "question")
			hears(t, e.far, "que", nil)
			hears(t, e.near, "", nil)
		}},
		{"reset on the way back", Harm{How: HarmReset, Back: true, After: 3}, func(t *testing.T, e ends) {
			says(t, e.near, "question")
			says(t, e.far, "answer")
			if _, err := io.ReadAll(e.near); !errors.Is(err, syscall.ECONNRESET) { // what came before may be lost
				t.Errorf("near: %v", err)
			}
			if _, err := io.ReadAll(e.far); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("far: %v", err)
			}
		}},
		{"truncate", Harm{How: HarmTruncate, After: 3}, func(t *testing.T, e ends) {
			says(t, e.near, "question")
			hears(t, e.far, "que", nil)
			says(t, e.near, "more")
			says(t, e.far, "answer")
			hangsUp(e.far)
			hears(t, e.near, "answer", nil)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			told := 0
			o := harmed(c.harm)
			o.Told = func(h Harm) { told++ }
			r, e := throughRelay(t, o)
			c.do(t, e)
			_, _ = e.near.Close(), e.far.Close()
			r.Close()
			if len(r.links) > 0 {
				t.Errorf("%d connections are left", len(r.links))
			}
			if want := min(1, len(c.harm.How)); told != want {
				t.Errorf("told of %d harms, want %d", told, want)
			}
		})
	}
}

// What is under way when the proxy leaves is lost, and its backend hears of that
// at once, though the way is held.
func TestRelayDrops(t *testing.T) {
	r, e := throughRelay(t, RelayOptions{Drops: true})
	says(t, e.near, "before ")
	before := make([]byte, len("before "))
	if _, err := io.ReadFull(e.far, before); err != nil {
		t.Fatal(err)
	}
	r.Hold(true)
	says(t, e.near, "held")
	_ = e.near.Close()
	if got, err := io.ReadAll(e.far); len(got) > 0 || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestRelayHolds(t *testing.T) {
	r, e := throughRelay(t, RelayOptions{})
	r.Hold(true)
	says(t, e.near, "late")
	hangsUp(e.near)
	_ = e.far.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
	if n, err := e.far.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("%d bytes came through, %v", n, err)
	}
	_ = e.far.SetReadDeadline(time.Now().Add(10 * time.Second))
	r.Hold(false)
	hears(t, e.far, "late", nil)
}

func TestRelayRefuses(t *testing.T) {
	r, e := throughRelay(t, RelayOptions{})
	if err := r.Refuse(true); err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("tcp", r.Addr); err == nil {
		_ = c.Close()
		t.Error("it lets somebody in")
	}
	says(t, e.near, "there ")
	r.Reset()
	if _, err := io.ReadAll(e.near); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("near: %v", err)
	}
	if err := r.Refuse(false); err != nil {
		t.Fatal(err)
	}
	c, err := r.Dial()
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

// Nobody is told that the other side is there when it is not.
func TestRelayToNobody(t *testing.T) {
	addr, err := FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	r, err := StartRelay(addr, RelayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := Client{Addr: addr, H: NewHistory(), Dial: r.Dial}
	if got := c.Do(Write{ID: 1, Key: "k", Token: 1}); !errors.Is(got.Err, ErrNotSent) {
		t.Errorf("%+v", got)
	}
	if events := c.H.Events(); len(events) > 0 {
		t.Errorf("it is in the history: %+v", events)
	}
}

// A write through a relay arrives as it was sent.
func TestWriteThroughRelay(t *testing.T) {
	h := NewHistory()
	b, err := StartBackend(h, BackendOptions{Settle: time.Second, Patience: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	r, err := StartRelay(strings.TrimPrefix(b.URL(), "http://"), RelayOptions{Drops: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := Client{Addr: r.Addr, H: h, Keep: true}
	defer c.Close()
	for id := range uint32(3) {
		if got := c.Do(Write{ID: id, Key: "k", Token: 1, Body: 100_000, Plan: Plan{Size: 100_000}}); got.Status != 200 || got.Body != 100_000 {
			t.Fatalf("write %d: %+v", id, got)
		}
	}
}
