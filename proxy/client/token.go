package client

import (
	"context"
	"fmt"
)

// source is where the token of a request comes from: a token, or a lease.
type source interface {
	take() (token string, lease *Lease)
}

type fixed string

func (f fixed) take() (string, *Lease) { return string(f), nil }

func (l *Lease) take() (string, *Lease) { return l.token, l }

type sourceKey struct{}

func withSource(ctx context.Context, s source) context.Context {
	return context.WithValue(ctx, sourceKey{}, s)
}

// WithToken returns a context whose requests Transport sends with a fencing
// token. Lease.Context is such a context already, and its requests are not sent
// once the lease is lost.
func WithToken(ctx context.Context, token string) context.Context {
	return withSource(ctx, fixed(token))
}

// FromContext returns the fencing token that WithToken or Lease.Context put
// there.
func FromContext(ctx context.Context) (token string, ok bool) {
	s, ok := ctx.Value(sourceKey{}).(source)
	if ok {
		token, _ = s.take()
	}
	return token, ok
}

// StaleTokenError is the proxy's 409: a higher token was admitted on the key,
// and the lease that this one belongs to is over. Stop, and take the lease again
// before writing on; the same request can never succeed.
type StaleTokenError struct {
	Rule, Key string
	Token     string // as it was sent
	Highest   string // empty where the proxy does not disclose it
	Epoch     uint64
	// Forwarded is true where the write was cut while it was uploaded: the
	// upstream may have got it.
	Forwarded bool
	Detail    string // the proxy's own words
}

func (e *StaleTokenError) Error() string {
	s := fmt.Sprintf("the fencing token %s is stale on %s", e.Token, e.Key)
	if e.Highest != "" {
		s += ", where " + e.Highest + " is the highest"
	}
	if e.Forwarded {
		s += " (the write was cut, and may have happened)"
	}
	return s + ": " + e.Detail
}
