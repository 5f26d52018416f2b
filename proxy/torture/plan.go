package torture

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// End says how the backend ends a write.
type End uint8

// Ends.
const (
	// Reply answers in full.
	Reply End = iota
	// Break answers, and resets the connection before the last bytes.
	Break
	// Reset resets the connection without an answer.
	Reset
	// Hang never answers, and goes when the proxy does.
	Hang
	// HalfClose ends its own side without an answer, and still listens.
	HalfClose
)

// Plan is what the backend does with one write. It travels in the request
// (header PlanHeader), so that one seed makes one plan.
type Plan struct {
	Hold    bool          `json:"hold,omitempty"`   // first wait for Backend.Release
	Delay   time.Duration `json:"delay,omitempty"`  // then this long
	Skip    bool          `json:"skip,omitempty"`   // never apply it
	Late    time.Duration `json:"late,omitempty"`   // above 0: apply it this long after its end, not before
	Cut     time.Duration `json:"cut,omitempty"`    // above 0: where the body is cut short, apply it all the same this long after that
	End     End           `json:"end,omitempty"`    //
	Status  uint16        `json:"status,omitempty"` // of the answer; 0 is 200
	Size    int           `json:"size,omitempty"`   // of the answer's body, bytes
	Pieces  int           `json:"pieces,omitempty"` // above 1: the answer is chunked, over HTTP/2 without a length, and comes in so many pieces
	Pause   time.Duration `json:"pause,omitempty"`  // between two of them
	Refuse  bool          `json:"refuse,omitempty"` // answer before the body is read, and close
	KeepOff bool          `json:"close,omitempty"`  // close the connection after the answer
}

// Headers of a write.
const (
	tokenHeader = "X-Fencing-Token"

	IDHeader   = "X-Write-Id"
	PlanHeader = "X-Write-Plan"
)

func (p Plan) status() int { return int(cmp.Or(p.Status, http.StatusOK)) }

func (p Plan) encode() string {
	b, err := json.Marshal(p)
	if err != nil { // a struct of numbers and bools
		panic(err)
	}
	return string(b)
}

func decodePlan(s string) (p Plan, err error) {
	if s == "" {
		return p, nil
	}
	if err := json.Unmarshal([]byte(s), &p); err != nil {
		return p, fmt.Errorf("header %s: %w", PlanHeader, err)
	}
	return p, nil
}
