package wire

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// The problems of the admin API that the data port does not have.
const (
	AdminMalformed        Name = "request-malformed"
	AdminUnauthorized     Name = "unauthorized"
	AdminForbidden        Name = "forbidden"
	AdminMediaType        Name = "unsupported-media-type"
	AdminNotFound         Name = "not-found"
	AdminNoRecord         Name = "no-record"
	AdminInUse            Name = "key-in-use"
	AdminAuditUnavailable Name = "audit-unavailable"
	AdminNotSupported     Name = "not-supported"
)

var adminKinds = map[Name]kind{
	AdminMalformed:        {status: http.StatusBadRequest, title: "The request cannot be read"},
	AdminUnauthorized:     {status: http.StatusUnauthorized, title: "A bearer token is required"},
	AdminForbidden:        {status: http.StatusForbidden, title: "The request is not let in"},
	AdminMediaType:        {status: http.StatusUnsupportedMediaType, title: "The content type is not taken"},
	AdminNotFound:         {status: http.StatusNotFound, title: "There is no such endpoint"},
	AdminNoRecord:         {status: http.StatusNotFound, title: "The key has no record"},
	AdminInUse:            {status: http.StatusConflict, title: "The key is in use"},
	AdminAuditUnavailable: {status: http.StatusServiceUnavailable, retryable: true, title: "The audit line cannot be written"},
	AdminNotSupported:     {status: http.StatusNotImplemented, title: "The store cannot do this"},
}

// Refusal is an error of the admin API, as application/problem+json (RFC 9457).
type Refusal struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"` // one sentence that says what to do
	Rule      string `json:"rule,omitempty"`
	Key       string `json:"key,omitempty"`
	Token     string `json:"token,omitempty"`
	Highest   string `json:"highest,omitempty"`
	Retryable bool   `json:"retryable"`

	// RetryAfter is sent as a header with every 503, at least 1 s.
	RetryAfter time.Duration `json:"-"`
}

// NewRefusal returns a refusal with what its name decides: one of the names
// above, or one that the data port has too.
func NewRefusal(n Name, detail string) *Refusal {
	k, ok := adminKinds[n]
	if !ok {
		if k, ok = kinds[n]; !ok {
			panic("wire: no such problem: " + string(n))
		}
	}
	return &Refusal{Type: n.URN(), Title: k.title, Status: k.status, Detail: detail, Retryable: k.retryable}
}

// Name is the word at the end of the refusal's type.
func (r *Refusal) Name() Name { return Name(r.Type[len(Name("").URN()):]) }

func (r *Refusal) Error() string { return r.Detail }

// Write answers with the refusal. Headers that w has already are kept.
func (r *Refusal) Write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	if r.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", strconv.FormatInt(max(1, int64((r.RetryAfter+time.Second-1)/time.Second)), 10))
	}
	body, err := json.Marshal(r)
	if err != nil { // strings and numbers only: it cannot fail
		panic(err)
	}
	w.WriteHeader(r.Status)
	_, _ = w.Write(append(body, '\n'))
}
