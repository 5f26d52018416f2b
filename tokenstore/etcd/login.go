package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/credentials"
)

// login is who this proxy is to etcd, where etcd asks. The client has a login
// of its own, which is not used: it sends a token that has run out along with
// the request for a new one, etcd 3.4 refuses that for the token, and it asks
// again and again until the call is over.
type login struct {
	username, password string

	token atomic.Pointer[string]
	turn  chan struct{} // capacity 1; held by who asks for a new token
}

var _ credentials.PerRPCCredentials = (*login)(nil)

func newLogin(username, password string) *login {
	l := &login{username: username, password: password, turn: make(chan struct{}, 1)}
	l.token.Store(new(string))
	return l
}

// GetRequestMetadata adds the token to a call.
func (l *login) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	call, _ := credentials.RequestInfoFromContext(ctx)
	if token := *l.token.Load(); token != "" && !strings.HasSuffix(call.Method, "/Authenticate") {
		return map[string]string{rpctypes.TokenFieldNameGRPC: token}, nil
	}
	return nil, nil
}

// RequireTransportSecurity leaves it to the operator.
func (l *login) RequireTransportSecurity() bool { return false }

// refused reports whether etcd has refused a call for its token: before it
// has done anything.
func (l *login) refused(err error) bool {
	return l.username != "" && (errors.Is(err, rpctypes.ErrInvalidAuthToken) || errors.Is(err, rpctypes.ErrUserEmpty) || errors.Is(err, rpctypes.ErrAuthOldRevision))
}

// renew gets a new token, unless somebody has since old was in use.
func (l *login) renew(ctx context.Context, client *clientv3.Client, old *string) error {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if l.username == "" || l.token.Load() != old {
		return nil
	}
	resp, err := client.Authenticate(ctx, l.username, l.password)
	switch {
	case errors.Is(err, rpctypes.ErrAuthNotEnabled):
		l.token.Store(new(string))
	case err != nil:
		return fmt.Errorf("etcd does not let %q in: %w", l.username, err)
	default:
		l.token.Store(&resp.Token)
	}
	return nil
}

// loggedIn makes a call, and makes it once more with a new token where that
// was all that was wrong.
func loggedIn[T any](ctx context.Context, b *Backend, call func() (T, error)) (T, error) {
	token := b.login.token.Load()
	result, err := call()
	if !b.login.refused(err) {
		return result, err
	}
	if err := b.login.renew(ctx, b.client, token); err != nil {
		return result, err
	}
	return call()
}
