package torture

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Kind says what an Event tells of.
type Kind uint8

// Kinds of events, named by who sees them.
const (
	// Send: a client is about to write the first byte of a request.
	Send Kind = iota
	// Answer: a client has an answer's head, and its body as far as it came.
	Answer
	// Gone: a client has no answer; Event.Name says why (see Client.Do).
	Gone
	// Arrive: the backend has read a request's head.
	Arrive
	// Apply: the backend has applied a write. Their order in the history is
	// the order in which they took effect.
	Apply
	// Respond: the backend is about to write the last bytes of an answer.
	Respond
	// Drop: the backend is about to break the connection.
	Drop
	// Lost: the backend saw the proxy leave before the answer was over.
	Lost
	// Start: the proxy's process is about to be started.
	Start
	// Kill: the proxy's process is about to be ended.
	Kill
	// Fault: something is about to be done to a proxy, its store or the ways
	// between them; Event.Name says what, and Event.Result how.
	Fault
	// Ask: a request for a lease passes on its way to the server. This and the
	// next four are seen between the holders and the lease servers; Event.Name is
	// the holder.
	Ask
	// Grant: a lease passes on its way to its holder, who may believe in it until
	// Event.Until. Bare ones did not wait for older writes.
	Grant
	// Renewed: the same of a renewal.
	Renewed
	// Release: the holder gives its lease up, and the server is about to hear it.
	Release
	// Refused: any other answer of a lease server; Event.Result is the problem.
	Refused
	// Command: the command under a lease tells of itself; Event.Result says what.
	Command
	// Exit: a fenceproxy lock is over; Event.Status is its exit code, or
	// Event.Result the signal.
	Exit
	// Stored: the store of a proxy that has ended has Event.Token as the highest.
	Stored
)

var kinds = [...]string{"send", "answer", "gone", "arrive", "apply", "respond", "drop", "lost", "start", "kill", "fault",
	"ask", "grant", "renewed", "release", "refused", "command", "exit", "stored"}

// String is the kind's name in a saved history.
func (k Kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// MarshalText writes the kind's name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads the kind's name.
func (k *Kind) UnmarshalText(b []byte) error {
	i := slices.Index(kinds[:], string(b))
	if i < 0 {
		return fmt.Errorf("no event has the kind %q (one of %v)", b, kinds)
	}
	*k = Kind(i)
	return nil
}

// Event is one thing that happened. A write is one request of one client: a
// retry is another write, so an ID that is applied twice was sent twice by
// someone behind the client.
type Event struct {
	At        time.Duration `json:"at"`              // since the history began
	Until     time.Duration `json:"until,omitempty"` // the same, for a lease
	Since     time.Duration `json:"since,omitempty"` // the same: so early it may have been, of what was seen late
	Token     uint64        `json:"token,omitempty"`
	Highest   uint64        `json:"highest,omitempty"` // named in a problem, 0 if none
	Key       string        `json:"key,omitempty"`
	Name      string        `json:"name,omitempty"` // problem's name, or why a client has no answer
	Forwarded string        `json:"forwarded,omitempty"`
	Result    string        `json:"result,omitempty"`
	ID        uint32        `json:"id,omitempty"`
	Status    uint16        `json:"status,omitempty"`
	Kind      Kind          `json:"kind"`
	Bare      bool          `json:"bare,omitempty"`  // the write has no token
	Whole     bool          `json:"whole,omitempty"` // the answer's body came to its end
}

// History collects events in one order. It is safe for concurrent use.
type History struct {
	start time.Time

	mu     sync.Mutex // guards chunks; the order of what is added is the order of truth
	chunks [][]Event  // each but the last is full

	saved sync.Once
}

// chunk is how many events are kept together. A single slice of millions takes a
// second to grow, during which the whole test would stand still.
const chunk = 1 << 14

// NewHistory begins an empty history; its clock starts now.
func NewHistory() *History { return &History{start: time.Now()} }

// Add appends e, stamped with the present time, and returns that time.
func (h *History) Add(e Event) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.add(e)
}

// AddIf appends e if ok says so of the present time. Both happen in one step:
// nothing is added between the question and e.
func (h *History) AddIf(e Event, ok func(now time.Duration) bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !ok(h.Now()) {
		return false
	}
	h.add(e)
	return true
}

func (h *History) add(e Event) time.Duration {
	e.At = h.Now()
	last := len(h.chunks) - 1
	if last < 0 || len(h.chunks[last]) == chunk {
		h.chunks = append(h.chunks, make([]Event, 0, chunk))
		last++
	}
	h.chunks[last] = append(h.chunks[last], e)
	return e.At
}

// Now is the time since the history began.
func (h *History) Now() time.Duration { return time.Since(h.start) }

// turn is the present time when it is the caller's turn to add something.
func (h *History) turn() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.Now()
}

// Events returns a copy of what was added so far.
func (h *History) Events() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Concat(h.chunks...)
}

// Find returns the first event of that kind and write, and whether there is
// one.
func (h *History) Find(kind Kind, id uint32) (Event, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.chunks {
		if i := slices.IndexFunc(c, func(e Event) bool { return e.Kind == kind && e.ID == id }); i >= 0 {
			return c[i], true
		}
	}
	return Event{}, false
}

// Keep saves it, once, where it outlives the test: in the directory that
// FENCEPROXY_TORTURE_OUT names, or else in that for temporary files.
func (h *History) Keep(t testing.TB) {
	h.saved.Do(func() {
		name := fmt.Sprintf("history-%s-%d.ndjson", strings.ReplaceAll(t.Name(), "/", "-"), time.Now().UnixNano())
		path := filepath.Join(cmp.Or(os.Getenv("FENCEPROXY_TORTURE_OUT"), os.TempDir()), name)
		if err := Save(path, h.Events()); err != nil {
			t.Error(err)
			return
		}
		t.Logf("the history is in %s", path)
	})
}

// Save writes events to the file at path, one JSON object a line.
func Save(path string, events []Event) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("saving the history: %w", err)
	}
	w := bufio.NewWriter(f)
	enc := json.NewEncoder(w)
	for _, e := range events {
		if err = enc.Encode(e); err != nil {
			break
		}
	}
	if ferr := w.Flush(); err == nil {
		err = ferr
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("saving the history to %s: %w", path, err)
	}
	return nil
}

// Load reads what Save wrote.
func Load(path string) ([]Event, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading a history: %w", err)
	}
	defer f.Close()
	var events []Event
	dec := json.NewDecoder(bufio.NewReader(f))
	for dec.More() {
		var e Event
		if err := dec.Decode(&e); err != nil {
			return nil, fmt.Errorf("reading event %d of %s: %w", len(events)+1, path, err)
		}
		events = append(events, e)
	}
	return events, nil
}
