package route

import "fmt"

// Kind says why a request is refused here. Its words are the problem names of
// the contract where the contract has one.
type Kind uint8

const (
	// BadRequest: the request target has no form that a sidecar can forward
	// (`*`, PRI, an unknown scheme). Status 400.
	BadRequest Kind = iota
	// MethodNotAllowed: CONNECT. Status 405.
	MethodNotAllowed
	// UpgradeRefused: the request asks to leave HTTP, and with it the fence.
	UpgradeRefused
	// PathNotCanonical: the target is not spelt in the one canonical way.
	PathNotCanonical
	// PathAlias: the target is canonical, but a careless upstream would take
	// it for another resource, which has another rule or another key.
	PathAlias
	// HeaderAlias: a header folds to a fencing or key header and is spelt
	// otherwise.
	HeaderAlias
	// ConnectionOption: Connection names a header that must reach the upstream.
	ConnectionOption
	// KeyUnresolvable: a part of the resource key is missing, empty, given
	// twice or not readable in one way only.
	KeyUnresolvable
)

var kindNames = [...]string{
	BadRequest:       "bad-request",
	MethodNotAllowed: "method-not-allowed",
	UpgradeRefused:   "upgrade-refused",
	PathNotCanonical: "path-not-canonical",
	PathAlias:        "path-alias",
	HeaderAlias:      "header-alias",
	ConnectionOption: "connection-option",
	KeyUnresolvable:  "key-unresolvable",
}

// String is the kind's name as it stands in answers, logs and metrics.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Refusal is the error of a request that must not be forwarded. Nothing has
// been raised for it.
type Refusal struct {
	Kind Kind
	// Rule is the index of the rule whose path the request met, or -1.
	Rule int
	// Detail is one sentence: what is wrong, and what to do.
	Detail string
}

func (r *Refusal) Error() string { return r.Kind.String() + ": " + r.Detail }

func refuse(kind Kind, rule int, format string, args ...any) *Refusal {
	return &Refusal{Kind: kind, Rule: rule, Detail: fmt.Sprintf(format, args...)}
}
