package sessiontest

import (
	"sync"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// noticeChecks are the promises on what a proxy hears of the others.
var noticeChecks = []check{
	{"a keepalive comes with the raises before it (R7)", testProof},
	{"a raise and a delete are heard of", testHeard},
}

// heard collects what a sink is told.
type heard struct {
	mu      sync.Mutex
	raised  map[tokenstore.Key]tokenstore.Token
	gone    map[session.Entry]bool
	changed map[tokenstore.Key]bool
}

func newHeard() *heard {
	return &heard{raised: map[tokenstore.Key]tokenstore.Token{}, gone: map[session.Entry]bool{}, changed: map[tokenstore.Key]bool{}}
}

func (h *heard) Raised(m tokenstore.Mark) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.raised[m.Key].Less(m.Token) {
		h.raised[m.Key] = m.Token
	}
}

func (h *heard) Gone(e session.Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone[e] = true
}

func (h *heard) Changed(key tokenstore.Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed[key] = true
}

func (h *heard) saw(f func() bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return f()
}

// testProof: at once, without waiting for anything, each time.
func testProof(t *testing.T, open func() *proxy) {
	a, b := open(), open().begin(long)
	h := newHeard()
	a.watch(h)
	a.begin(long)
	for n := range uint64(20) {
		mine, _, err := a.acquire(mark("k", 2*n+1), mark("equal", 1), mark("mine", 2*n+1))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.acquire(mark("k", 2*n+2), mark("equal", 1)); err != nil {
			t.Fatal(err)
		}
		overtaken, err := a.KeepAlive(a.ctx(), a.id, long)
		if err != nil {
			t.Fatalf("KeepAlive: %v", err)
		}
		told := tokenstore.Token{}
		h.saw(func() bool { told = h.raised["k"]; return true })
		for _, m := range overtaken {
			switch m.Key {
			case "k":
				told = m.Token
			case "equal":
				t.Error("an equal token overtakes nothing")
			}
		}
		if told.Less(token(2*n + 2)) {
			t.Fatalf("round %d: the keepalive is confirmed, and the raise to %d was not told (%v)", n, 2*n+2, told)
		}
		a.mustDelete(mine...)
	}
}

// testHeard: late is allowed, never is not for an engine that works.
func testHeard(t *testing.T, open func() *proxy) {
	a, b := open(), open().begin(long)
	ha := newHeard()
	a.watch(ha)
	a.begin(long)
	one := a.mustAcquire([]tokenstore.Mark{mark("k", 1), mark("other", 1)})
	// Whoever listens may not do so yet: a raise may be missed, a later one not.
	n := uint64(1)
	eventually(t, "the holder hears of a raise", func() bool {
		n++
		if _, _, err := b.acquire(mark("k", n)); err != nil {
			t.Fatal(err)
		}
		return ha.saw(func() bool { return token(1).Less(ha.raised["k"]) || ha.changed["k"] })
	})
	if got := ha.saw(func() bool {
		return token(n).Less(ha.raised["k"]) || ha.raised["other"] != (tokenstore.Token{}) && token(1).Less(ha.raised["other"])
	}); got {
		t.Errorf("it was told what is not true: %v", ha.raised)
	}
	two, _, err := b.acquire(mark("other", 2))
	if err != nil {
		t.Fatal(err)
	}
	hb := newHeard()
	b.stop()
	b.watch(hb)
	eventually(t, "who waits hears of a delete", func() bool {
		a.mustDelete(one...)
		if one, _, err = a.acquire(mark("other", 2)); err != nil {
			t.Fatal(err)
		}
		return hb.saw(func() bool {
			for e := range hb.gone {
				if e.Key == "other" && e.Session == a.id {
					return true
				}
			}
			return hb.changed["other"]
		})
	})
	if hb.saw(func() bool { return hb.gone[two[0]] }) {
		t.Error("an entry that is there was told to be gone")
	}
}
