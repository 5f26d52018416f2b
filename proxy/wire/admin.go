package wire

import "time"

// The paths of the admin API. A resource key stands in a path percent-encoded
// once, with its slashes as %2F.
const (
	KeysPath   = "/v1/keys"
	ForgetPath = "/v1/forget"
	CheckPath  = "/v1/check"
	ExportPath = "/v1/export"
	ImportPath = "/v1/import"
)

// KeyStatus is what the admin API tells of a resource key. Tokens are
// strings in the format of the rule that owns the key.
type KeyStatus struct {
	Key              string      `json:"key"`
	Rule             string      `json:"rule,omitempty"`    // the rule that can make the key; the first of several, or the one that was asked for
	Rules            []string    `json:"rules,omitempty"`   // all of them, where there are several
	Highest          string      `json:"highest,omitempty"` // none while its first raise is on its way
	RaisedAt         *time.Time  `json:"raised_at,omitempty"`
	Holder           string      `json:"holder,omitempty"`
	InFlight         []InFlight  `json:"in_flight"`
	Unsettled        []Unsettled `json:"unsettled"`
	QuarantinedUntil *time.Time  `json:"quarantined_until,omitempty"`
	Waiting          int         `json:"waiting"`
	Lease            *KeyLease   `json:"lease,omitempty"` // none where nobody holds it
}

// KeyLease is who holds the lease of a key. It may have a token that is lower
// than the highest, since others may raise the key.
type KeyLease struct {
	Holder    string   `json:"holder"`
	Token     string   `json:"token"`
	ExpiresIn Duration `json:"expires_in"` // unless it is renewed
	Waiting   int      `json:"waiting"`    // for the lease, at this proxy
	// Stale: a higher token is on record, so that its holder's writes are refused
	// for good, while nobody else gets the lease before it is released or runs out.
	Stale bool `json:"stale,omitempty"`
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

// KeyList is a page of the keys that have a record, or of the busy ones: on
// which writes are in flight, unsettled or waiting at this proxy.
type KeyList struct {
	Keys []ListedKey `json:"keys"`
	Next string      `json:"next,omitempty"` // the after of the next page; none at the end

	// Of the busy ones: the writes whose key nobody knows, on the first page of
	// all keys; and when the quarantine after a crash ends, which holds keys of
	// before, busy or not.
	WithoutKey       *ListedKey `json:"without_key,omitempty"`
	QuarantinedUntil *time.Time `json:"quarantined_until,omitempty"`
}

// ListedKey is one key of a list. Of a damaged record only Damaged tells. What
// goes on is told of busy keys alone, and of those not when they were raised.
type ListedKey struct {
	Key      string     `json:"key"`
	Rule     string     `json:"rule,omitempty"`
	Highest  string     `json:"highest,omitempty"`
	RaisedAt *time.Time `json:"raised_at,omitempty"`
	Holder   string     `json:"holder,omitempty"`
	Damaged  string     `json:"damaged,omitempty"`

	InFlight  *BusyInFlight  `json:"in_flight,omitempty"`
	Unsettled *BusyUnsettled `json:"unsettled,omitempty"`
	Waiting   int            `json:"waiting,omitempty"`
}

// BusyInFlight are all writes of a key that were sent and are not over.
type BusyInFlight struct {
	Count int       `json:"count"`
	Since time.Time `json:"since"` // of the oldest
}

// BusyUnsettled are all unsettled writes of a key.
type BusyUnsettled struct {
	Count int       `json:"count"`
	Until time.Time `json:"until"` // of the one that counts as running for longest
	Why   string    `json:"why"`   // that one was lost from sight
}

// RaiseRequest announces a new holder of a key.
type RaiseRequest struct {
	Token  string `json:"token"`
	Reason string `json:"reason"`
	// Holder of the token; writes with it then have to come from this one.
	Holder string `json:"holder,omitempty"`
	// Rule owns the key, where the rules that can make it differ in format or
	// epoch.
	Rule string `json:"rule,omitempty"`
}

// ChangeRequest is every other change of one key.
type ChangeRequest struct {
	Reason string `json:"reason"`
}

// SettleReport says what an operator's word has ended.
type SettleReport struct {
	Key         string      `json:"key"`
	Unsettled   []Unsettled `json:"unsettled"`           // writes that count as over from now on
	AlsoOn      []string    `json:"also_on,omitempty"`   // other keys of the same writes
	Quarantined bool        `json:"quarantined"`         // its quarantine is over
	InFlight    []InFlight  `json:"in_flight,omitempty"` // is still waited for
}

// ForgetRequest forgets keys in bulk: at least one of Prefix and RaisedBefore.
type ForgetRequest struct {
	Prefix string `json:"prefix,omitempty"`
	// RaisedBefore is a duration ago, as in 90d or 36h, or a time (RFC 3339).
	RaisedBefore string `json:"raised_before,omitempty"`
	Reason       string `json:"reason"`
	DryRun       bool   `json:"dry_run,omitempty"`
}

// ForgetReport says what was forgotten, or would have been.
type ForgetReport struct {
	DryRun    bool      `json:"dry_run,omitempty"`
	Forgotten int       `json:"forgotten"`
	Kept      int       `json:"kept"`                // in use
	KeptKeys  []KeptKey `json:"kept_keys,omitempty"` // some of them
	Sample    []string  `json:"sample,omitempty"`    // some of those that were forgotten
}

// KeptKey is a key that was not forgotten, and why.
type KeptKey struct {
	Key string `json:"key"`
	Why string `json:"why"`
}

// CheckReport answers for a token that would not be refused.
type CheckReport struct {
	Key     string `json:"key"`
	Rule    string `json:"rule,omitempty"`
	Token   string `json:"token"`
	Highest string `json:"highest,omitempty"`
}

// ImportReport says what an import has done.
type ImportReport struct {
	Keys   int `json:"keys"`   // of the dump
	Raised int `json:"raised"` // that had no record, or a lower one
	Kept   int `json:"kept"`   // that had the same or a higher one
}
