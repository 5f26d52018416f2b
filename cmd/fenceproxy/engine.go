package main

import (
	"context"
	"crypto/tls"
	"strings"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/config"
	"github.com/fenceproxy/fenceproxy/tokenstore/etcd"
	"github.com/fenceproxy/fenceproxy/tokenstore/postgres"
	"github.com/fenceproxy/fenceproxy/tokenstore/redis"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// engine is a shared store's: how it is made, and opened.
type engine struct {
	setting string // its place in the configuration
	init    func(context.Context) error
	open    func(context.Context) (session.Movable, error)
}

// engineOf is the engine of a configuration with a shared store.
func engineOf(cfg *config.Config, p planned, log *zap.Logger) engine {
	switch s := &cfg.Store; {
	case s.Etcd != nil:
		o := p.etcd
		o.Logger = log
		return engine{"store.etcd",
			func(ctx context.Context) error { return etcd.Init(ctx, o) },
			func(ctx context.Context) (session.Movable, error) { return opened(etcd.Open(ctx, o)) }}
	case s.Postgres != nil:
		o := postgres.Options{URL: s.Postgres.URL, TablePrefix: s.Postgres.TablePrefix, Logger: log}
		return engine{"store.postgres",
			func(ctx context.Context) error { return postgres.Init(ctx, o) },
			func(ctx context.Context) (session.Movable, error) { return opened(postgres.Open(ctx, o)) }}
	default:
		o := redis.Options{URL: s.Redis.URL, Prefix: s.Redis.Prefix, Logger: log}
		return engine{"store.redis",
			func(ctx context.Context) error { return redis.Init(ctx, o) },
			func(ctx context.Context) (session.Movable, error) { return opened(redis.Open(ctx, o)) }}
	}
}

// opened keeps a nil pointer from becoming an interface that is not nil.
func opened[B session.Movable](b B, err error) (session.Movable, error) {
	if err != nil {
		return nil, err
	}
	return b, nil
}

// planEtcd reads the files that store.etcd names.
func planEtcd(cfg *config.Config, report *config.Report) etcd.Options {
	e := cfg.Store.Etcd
	if e == nil || report.Has("store.etcd") {
		return etcd.Options{}
	}
	o := etcd.Options{Endpoints: e.Endpoints, Prefix: e.Prefix, Username: e.Username}
	if e.PasswordFile != "" {
		b, err := readWhole(e.PasswordFile)
		if err != nil {
			report.Add(cfg.Errorf("store.etcd.password_file", "%s cannot be read: %v; give a file that holds the password", e.PasswordFile, err))
		}
		o.Password = strings.TrimRight(string(b), "\r\n")
	}
	if strings.HasPrefix(e.Endpoints[0], "https:") {
		t := planClientTLS(cfg, report, "store.etcd.tls", e.TLS)
		o.TLS = &tls.Config{RootCAs: t.Roots, ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
		if t.Certificate != nil {
			o.TLS.Certificates = []tls.Certificate{*t.Certificate}
		}
	}
	return o
}
