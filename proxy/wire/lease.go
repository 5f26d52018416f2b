package wire

import (
	"fmt"
	"time"
)

// LeasesPath is where the lease API has its keys: LeasesPath and a resource
// key, percent-encoded once.
const LeasesPath = "/v1/leases/"

// LeaseRequest asks for the lease of a key (POST), renews it (PUT) or releases
// it (DELETE, with ID alone).
type LeaseRequest struct {
	// ID of the lease, as it was granted; not in a POST.
	ID string `json:"id,omitempty"`
	// Holder says who asks, for people; in a POST only. At most 256 bytes.
	Holder string `json:"holder,omitempty"`
	// TTL is how long the lease lives without renewal; 0 for the server's
	// default, and in a PUT for what it had.
	TTL Duration `json:"ttl,omitzero"`
	// Wait is how long to wait for another holder; 0 does not wait. POST only.
	Wait Duration `json:"wait,omitzero"`
	// Fence, true where it is left out, makes the grant raise and drain before
	// it is answered: no older write on the key can land any more. POST only.
	Fence *bool `json:"fence,omitempty"`
	// Rule owns the key, where the rules that can make it differ in epoch. POST
	// only.
	Rule string `json:"rule,omitempty"`
}

// Lease is the answer to a POST, a PUT or a GET.
type Lease struct {
	Key    string `json:"key"`
	Holder string `json:"holder"`
	// ID is the holder's secret: a GET does not tell it.
	ID string `json:"id,omitempty"`
	// Token is the fencing token to send with every write, decimal.
	Token string `json:"token"`
	Epoch uint64 `json:"epoch,omitempty"`
	// ExpiresIn counts from when the server decided: a holder counts from
	// before it sent its request.
	ExpiresIn Duration `json:"expires_in"`
	// TTL, GrantedAt and Waiting (for the lease, at this server) are told by GET.
	TTL       Duration   `json:"ttl,omitzero"`
	GrantedAt *time.Time `json:"granted_at,omitempty"`
	Waiting   int        `json:"waiting,omitempty"`
}

// Duration is a time.Duration as users write it: "10s", "1m30s".
type Duration time.Duration

// String is the form that UnmarshalText reads.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText makes it a string in JSON.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText refuses what is no duration, and what is below 0.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil || v < 0 {
		return fmt.Errorf(`%q is not a duration like "10s" or "1m30s"`, text)
	}
	*d = Duration(v)
	return nil
}
