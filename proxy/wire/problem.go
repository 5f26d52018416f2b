package wire

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// Name is a problem: why the proxy answers by itself. The same word stands
// in the problem's type, in Fencing-Result, in logs and in metrics.
type Name string

// The problems of the contract, in the order in which the checks come.
const (
	PathNotCanonical    Name = "path-not-canonical"
	PathAlias           Name = "path-alias"
	HeaderAlias         Name = "header-alias"
	ConnectionOption    Name = "connection-option"
	MethodNotAllowed    Name = "method-not-allowed"
	UpgradeNotAllowed   Name = "upgrade-not-allowed"
	WriteNotCovered     Name = "write-not-covered"
	TokenRequired       Name = "token-required"
	TokenMalformed      Name = "token-malformed"
	TokenAmbiguous      Name = "token-ambiguous"
	BodyTooLarge        Name = "body-too-large"
	KeyUnresolvable     Name = "key-unresolvable"
	TokenImplausible    Name = "token-implausible"
	StaleToken          Name = "stale-token"
	TokenCollision      Name = "token-collision"
	Overloaded          Name = "overloaded"
	TooManyKeys         Name = "too-many-keys"
	DrainTimeout        Name = "drain-timeout"
	StoreUnavailable    Name = "store-unavailable"
	ShuttingDown        Name = "shutting-down"
	UpstreamUnreachable Name = "upstream-unreachable"
	OutcomeUnknown      Name = "outcome-unknown"
)

// The problems of the lease API alone.
const (
	Unauthorized   Name = "unauthorized"
	LeaseMalformed Name = "lease-malformed"
	KeyNotCovered  Name = "key-not-covered"
	LeaseHeld      Name = "lease-held"
	LeaseLost      Name = "lease-lost"
	LeaseFree      Name = "lease-free"
	TokensUsedUp   Name = "tokens-used-up"
)

// kind is what every problem of a name has in common.
type kind struct {
	status    int
	retryable bool
	grpc      grpcStatus
	title     string
}

var kinds = map[Name]kind{
	PathNotCanonical:    {http.StatusBadRequest, false, grpcInvalidArgument, "The request target is not in canonical form"},
	PathAlias:           {http.StatusBadRequest, false, grpcInvalidArgument, "The request target is another spelling of a fenced resource"},
	HeaderAlias:         {http.StatusBadRequest, false, grpcInvalidArgument, "A header is another spelling of a fencing header"},
	ConnectionOption:    {http.StatusBadRequest, false, grpcInvalidArgument, "The Connection header names a header that must not be dropped"},
	MethodNotAllowed:    {http.StatusMethodNotAllowed, false, grpcInvalidArgument, "The method is not forwarded"},
	UpgradeNotAllowed:   {http.StatusBadRequest, false, grpcInvalidArgument, "Upgrades are not forwarded"},
	WriteNotCovered:     {http.StatusForbidden, false, grpcPermissionDenied, "No rule covers this write"},
	TokenRequired:       {http.StatusPreconditionRequired, false, grpcFailedPrecondition, "A fencing token, or its holder, is required"},
	TokenMalformed:      {http.StatusBadRequest, false, grpcInvalidArgument, "The fencing token is malformed"},
	TokenAmbiguous:      {http.StatusBadRequest, false, grpcInvalidArgument, "There is more than one fencing token"},
	BodyTooLarge:        {http.StatusRequestEntityTooLarge, false, grpcResourceExhausted, "The body that names the resource is too large"},
	KeyUnresolvable:     {http.StatusBadRequest, false, grpcInvalidArgument, "The request does not name its resource"},
	TokenImplausible:    {http.StatusForbidden, false, grpcPermissionDenied, "The fencing token is implausibly high"},
	StaleToken:          {http.StatusConflict, false, grpcFailedPrecondition, "The fencing token is stale"},
	TokenCollision:      {http.StatusConflict, false, grpcFailedPrecondition, "The fencing token belongs to another holder"},
	Overloaded:          {http.StatusServiceUnavailable, true, grpcUnavailable, "Too many writes are waiting"},
	TooManyKeys:         {http.StatusServiceUnavailable, true, grpcUnavailable, "The token store has no room for another key"},
	DrainTimeout:        {http.StatusServiceUnavailable, true, grpcUnavailable, "Older writes are not over yet"},
	StoreUnavailable:    {http.StatusServiceUnavailable, true, grpcUnavailable, "The token store does not answer"},
	ShuttingDown:        {http.StatusServiceUnavailable, true, grpcUnavailable, "The proxy is stopping"},
	UpstreamUnreachable: {http.StatusBadGateway, true, grpcUnavailable, "The upstream cannot be reached"},
	OutcomeUnknown:      {http.StatusBadGateway, false, grpcUnknown, "The write may have happened"},

	Unauthorized:   {http.StatusUnauthorized, false, grpcUnauthenticated, "The request does not show that it may ask"},
	LeaseMalformed: {http.StatusBadRequest, false, grpcInvalidArgument, "The request for a lease is malformed"},
	KeyNotCovered:  {http.StatusBadRequest, false, grpcInvalidArgument, "No lease can be granted on this key"},
	LeaseHeld:      {http.StatusConflict, true, grpcFailedPrecondition, "Another holder has the lease"},
	LeaseLost:      {http.StatusConflict, false, grpcFailedPrecondition, "The lease is not held any more"},
	LeaseFree:      {http.StatusNotFound, false, grpcNotFound, "Nobody holds the lease"},
	TokensUsedUp:   {http.StatusConflict, false, grpcFailedPrecondition, "No higher token can be granted"},
}

// Names returns every problem name. The order is not defined.
func Names() []Name {
	names := make([]Name, 0, len(kinds))
	for n := range kinds {
		names = append(names, n)
	}
	return names
}

// LeaseNames returns the names of the problems that only the lease API has. The
// order is not defined.
func LeaseNames() []Name {
	return []Name{Unauthorized, LeaseMalformed, KeyNotCovered, LeaseHeld, LeaseLost, LeaseFree, TokensUsedUp}
}

// Problem is an answer of the proxy's own, as application/problem+json
// (RFC 9457). Token and Highest are strings: 64-bit numbers do not survive
// JSON everywhere.
type Problem struct {
	Type      string    `json:"type"`
	Title     string    `json:"title"`
	Status    int       `json:"status"`
	Detail    string    `json:"detail"` // one sentence that says what to do
	Rule      string    `json:"rule,omitempty"`
	Key       string    `json:"key,omitempty"`
	Token     string    `json:"token,omitempty"`   // as the client wrote it
	Highest   string    `json:"highest,omitempty"` // canonical form
	Epoch     uint64    `json:"epoch,omitempty"`
	Holder    string    `json:"holder,omitempty"` // of the lease, where another holds it
	Retryable bool      `json:"retryable"`
	Forwarded Forwarded `json:"forwarded"`

	// RetryAfter is sent as a header with every 503, at least 1 s, and with
	// whatever else has one.
	RetryAfter time.Duration `json:"-"`
}

// URN is the type of the problems of a name.
func (n Name) URN() string { return "urn:fenceproxy:problem:" + string(n) }

// NewProblem returns a problem with what its name decides, not forwarded.
func NewProblem(n Name, detail string) *Problem {
	k, ok := kinds[n]
	if !ok {
		panic("wire: no such problem: " + string(n))
	}
	return &Problem{Type: n.URN(), Title: k.title, Status: k.status, Detail: detail, Retryable: k.retryable, Forwarded: ForwardedNo}
}

// Name is the word at the end of the problem's type.
func (p *Problem) Name() Name { return Name(p.Type[len(Name("").URN()):]) }

// Write answers with the problem. Headers that w has already are kept.
func (p *Problem) Write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	if p.Status == http.StatusServiceUnavailable || p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(max(1, int64((p.RetryAfter+time.Second-1)/time.Second)), 10))
	}
	body, err := json.Marshal(p)
	if err != nil { // strings and numbers only: it cannot fail
		panic(err)
	}
	body = append(body, '\n')
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}
