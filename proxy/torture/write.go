package torture

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Write is one request of a client, and how the client behaves.
type Write struct {
	ID     uint32
	Key    string
	Token  uint64
	Bare   bool // without a token
	Plan   Plan
	Method string // "" is PUT
	Body   int    // declared and sent, bytes
	Expect bool   // send Expect: 100-continue, and the body only after the 100

	StallAfter int             // above 0: pause after so many bytes of the body
	Stall      time.Duration   // for so long; below 0 for ever
	Rest       <-chan struct{} // not nil: the pause ends when it is closed
	Leave      time.Duration   // above 0: leave this long after the first byte
	LeaveOn    <-chan struct{} // not nil: leave when it is closed
	Softly     bool            // leave by closing; else by a reset
	HalfClose  bool            // end its own side behind the last byte of the body
	ReadStall  time.Duration   // above 0: pause once between the answer's head and body
	ReadPause  time.Duration   // above 0: pause before every 16 KiB of the answer's body
	Patience   time.Duration   // how long to wait for the answer's end; 0 is 15 s
}

// Event is a history's event about w.
func (w Write) Event(kind Kind) Event {
	return Event{Kind: kind, ID: w.ID, Key: w.Key, Token: w.Token, Bare: w.Bare}
}

func (w Write) method() string { return cmp.Or(w.Method, http.MethodPut) }

func (w Write) patience() time.Duration { return cmp.Or(w.Patience, 15*time.Second) }

func (w Write) head() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s /things/%s HTTP/1.1\r\nHost: fence.test\r\n%s: %d\r\n%s: %s\r\nContent-Length: %d\r\n",
		w.method(), w.Key, IDHeader, w.ID, PlanHeader, w.Plan.encode(), w.Body)
	if !w.Bare {
		fmt.Fprintf(&s, "%s: %d\r\n", tokenHeader, w.Token)
	}
	if w.Expect {
		s.WriteString("Expect: 100-continue\r\n")
	}
	s.WriteString("\r\n")
	return s.String()
}

// Reaction to a write, as far as the client has it.
type Reaction struct {
	Status    int // 0: no answer, Err says why
	Header    http.Header
	Body      int  // bytes of the body
	Whole     bool // it came to its end
	Continued bool // a 100 came before
	Problem   Problem
	Err       error
	At        time.Duration // when the head was here

	last bool // the proxy closes the connection after it
}

// Problem is the body of an answer that the proxy makes.
type Problem struct {
	Type      string `json:"type"`
	Detail    string `json:"detail"`
	Key       string `json:"key"`
	Token     string `json:"token"`
	Highest   string `json:"highest"`
	Retryable bool   `json:"retryable"`
	Forwarded string `json:"forwarded"`
}

// Name is the problem's name in the contract's answer table, "" for none.
func (p Problem) Name() string { return strings.TrimPrefix(p.Type, "urn:fenceproxy:problem:") }

// problem reads a problem document; what is none is the zero Problem.
func problem(header http.Header, body []byte) (p Problem) {
	if strings.HasPrefix(header.Get("Content-Type"), "application/problem+json") {
		if json.Unmarshal(body, &p) != nil {
			return Problem{}
		}
	}
	return p
}

// event is the reaction as an event of the history.
func (r Reaction) event(w Write) Event {
	e := w.Event(Answer)
	e.Status = uint16(r.Status)
	e.Name = r.Problem.Name()
	e.Highest, _ = strconv.ParseUint(r.Problem.Highest, 10, 64)
	e.Forwarded = r.Header.Get("Fencing-Forwarded")
	e.Result = r.Header.Get("Fencing-Result")
	e.Whole = r.Whole
	return e
}
