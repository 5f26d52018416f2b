package wire

import "time"

// KeyStatus is what the admin API tells of a resource key. Tokens are
// strings in the format of the rule that owns the key.
type KeyStatus struct {
	Key              string      `json:"key"`
	Highest          string      `json:"highest,omitempty"` // none while its first raise is on its way
	RaisedAt         *time.Time  `json:"raised_at,omitempty"`
	Holder           string      `json:"holder,omitempty"`
	InFlight         []InFlight  `json:"in_flight"`
	Unsettled        []Unsettled `json:"unsettled"`
	QuarantinedUntil *time.Time  `json:"quarantined_until,omitempty"`
	Waiting          int         `json:"waiting"`
}

// InFlight are the writes of a key with one token that were sent and are not
// over. The token is empty for those that are older than every token: without
// one, or only looked on and not the highest.
type InFlight struct {
	Token string    `json:"token"`
	Count int       `json:"count"`
	Since time.Time `json:"since"` // of the oldest
}

// Unsettled is a write that was lost from sight; it counts as running until
// then. Its token is as in InFlight.
type Unsettled struct {
	Token string    `json:"token"`
	Until time.Time `json:"until"`
	Why   string    `json:"why"`
}
