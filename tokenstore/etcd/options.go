package etcd

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// DefaultPrefix is where a store is when Options name no other place.
const DefaultPrefix = "/fenceproxy/"

// Options say where a store is.
type Options struct {
	// Endpoints of the cluster, as URLs: http://host:2379 or https://host:2379.
	Endpoints []string
	// Prefix of all keys of the store. It ends with a slash, or gets one.
	Prefix string
	// Username and Password, where etcd asks for them. The user needs read and
	// write access to all keys with Prefix, and to nothing else.
	Username, Password string
	// TLS is needed for https endpoints, and refused for others.
	TLS *tls.Config
	// Logger; nil drops the lines.
	Logger *zap.Logger
}

const (
	// statusTimeout is how long an endpoint may take to tell its version.
	statusTimeout = 5 * time.Second
	// A connection that says nothing for pingAfter is asked, and given up when
	// it does not answer within pingTimeout. gRPC allows no less than 10s.
	pingAfter   = 10 * time.Second
	pingTimeout = 3 * time.Second
	// reconnect is the longest pause between two tries to connect. gRPC's own is
	// two minutes, for which the proxy would be down after the store is back.
	reconnect = time.Second
)

// fill sets the defaults, and refuses what cannot work or is not meant.
func (o *Options) fill() error {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if !strings.HasSuffix(o.Prefix, "/") {
		o.Prefix += "/"
	}
	if len(o.Endpoints) == 0 {
		return errors.New("no endpoint of etcd is named")
	}
	for _, ep := range o.Endpoints {
		// The client would take http as it is said, whatever TLS is configured,
		// and send the password in the clear.
		switch scheme, _, _ := strings.Cut(ep, "://"); {
		case scheme == "https" && o.TLS != nil, scheme == "http" && o.TLS == nil:
		case scheme == "http":
			return fmt.Errorf("endpoint %s is http, and tls is configured: write https://, or leave tls out", ep)
		case scheme == "https":
			return fmt.Errorf("endpoint %s is https, and no tls is configured", ep)
		default:
			return fmt.Errorf("endpoint %s is no URL: write http://host:2379 or https://host:2379", ep)
		}
	}
	return nil
}

func (o *Options) dial(login *login) (*clientv3.Client, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            o.Endpoints,
		TLS:                  o.TLS,
		DialKeepAliveTime:    pingAfter,
		DialKeepAliveTimeout: pingTimeout,
		// One try a call. The client's own repetition takes a transaction that
		// was cancelled on its way for one that was not made.
		MaxUnaryRetries: 1,
		Logger:          zap.NewNop(), // every error comes back to us
		DialOptions: []grpc.DialOption{grpc.WithPerRPCCredentials(login), grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: reconnect / 10, Multiplier: 1.6, Jitter: 0.2, MaxDelay: reconnect},
			MinConnectTimeout: pingTimeout,
		})},
	})
	if err != nil {
		return nil, fmt.Errorf("etcd at %s: %w", strings.Join(o.Endpoints, ", "), err)
	}
	return client, nil
}
