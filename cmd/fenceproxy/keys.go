package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/proxy/client"
	"github.com/fenceproxy/fenceproxy/proxy/guard"
)

// keysFlags say where the admin listener is, and how to print.
type keysFlags struct {
	admin, token, ca, cert, key string
	output                      string
}

// keysCall is one call of a command on keys.
type keysCall struct {
	ctx    context.Context
	in     io.Reader
	out    io.Writer
	errors io.Writer
	args   []string
	json   bool
	admin  *client.Admin
}

// newKeys is the operator's tool on a running proxy.
func newKeys() *cobra.Command {
	flags := &keysFlags{}
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Look at the keys of a running proxy, and raise, settle or forget them",
		Long: `Look at the keys of a running proxy, and raise, settle or forget them, over its
admin listener. KEY is a resource key as it stands in answers and logs. Every
change needs a reason, which goes to the audit.`,
		RunE: needsCommand("list, get, raise, settle, forget, check, export or import"),
	}
	f := cmd.PersistentFlags()
	f.StringVar(&flags.admin, "admin", "127.0.0.1:9901", "the admin listener: host:port, or a URL as in https://host:port")
	f.StringVar(&flags.token, "token-file", "", "the file of the proxy's admin.token_file")
	tokenVariable(f, "FENCEPROXY_ADMIN_TOKEN_FILE")
	f.StringVar(&flags.ca, "ca-file", "", "the certificates that the server's is signed by (PEM; default: the system's)")
	f.StringVar(&flags.cert, "cert-file", "", "the client certificate to show to it (PEM)")
	f.StringVar(&flags.key, "key-file", "", "the key of the client certificate (PEM)")
	f.StringVar(&flags.output, "output", "table", "table, for people, or json, for scripts")
	cmd.AddCommand(flags.list(), flags.get(), flags.raise(), flags.settle(), flags.forget(), flags.check(), flags.export(), flags.importDump())
	return cmd
}

// command is one that calls the admin API.
func (f *keysFlags) command(use, short string, args cobra.PositionalArgs, do func(c keysCall) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: args, RunE: func(cmd *cobra.Command, args []string) error {
		if f.output != "table" && f.output != "json" {
			return fmt.Errorf("--output is %q: table or json", f.output)
		}
		admin, err := f.client()
		if err != nil {
			return err
		}
		err = do(keysCall{cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args, f.output == "json", admin})
		if exit := (*exitError)(nil); err != nil && !errors.As(err, &exit) {
			err = &exitError{exitFailed, f.explain(err)}
		}
		return err
	}}
}

// usageOf is an error of how a command was called.
func usageOf(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

func (f *keysFlags) client() (*client.Admin, error) {
	o := client.AdminOptions{Address: f.admin}
	if f.token != "" {
		text, err := guard.ReadSecret(f.token)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		o.Token = text
	}
	o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		text, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("--ca-file: %w", err)
		}
		if o.TLS.RootCAs = x509.NewCertPool(); !o.TLS.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--ca-file: %s holds no certificate in PEM form", f.ca)
		}
	}
	if f.cert != "" || f.key != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fmt.Errorf("--cert-file and --key-file: %w", err)
		}
		o.TLS.Certificates = []tls.Certificate{pair}
	}
	admin, err := client.NewAdmin(o)
	if err != nil {
		return nil, fmt.Errorf("--admin: %w", err)
	}
	return admin, nil
}

// explain adds what to look at.
func (f *keysFlags) explain(err error) error {
	if refusal := (*client.Refusal)(nil); errors.As(err, &refusal) {
		text := fmt.Sprintf("%d %s: %s", refusal.Status, refusal.Name(), refusal.Detail)
		if refusal.Highest != "" {
			text += fmt.Sprintf(" (the highest is %s)", refusal.Highest)
		}
		return errors.New(text)
	}
	return fmt.Errorf("%w; --admin is %s, which must be admin.address of a running proxy", err, f.admin)
}

func (f *keysFlags) list() *cobra.Command {
	var l listing
	cmd := f.command("list", "The keys that have a record, or that are busy, in their order", cobra.NoArgs, func(c keysCall) error {
		if l.limit < 0 {
			return usageOf("--limit is below 0")
		}
		return l.list(c)
	})
	cmd.ValidArgsFunction = words()
	cmd.Flags().StringVar(&l.prefix, "prefix", "", "only those that begin with this")
	cmd.Flags().IntVar(&l.limit, "limit", 0, "at most so many; 0 for all")
	cmd.Flags().BoolVar(&l.busy, "busy", false, "only those with writes in flight, unsettled or waiting at this proxy, and how many")
	return cmd
}

func (f *keysFlags) get() *cobra.Command {
	var rule string
	cmd := f.command("get KEY", "What goes on at a key: its highest token, writes in flight, unsettled and waiting", takes(1, 1), func(c keysCall) error {
		st, err := c.admin.Key(c.ctx, c.args[0], rule)
		if err != nil {
			return err
		}
		return c.print(st, statusTable(st))
	})
	f.ruleFlag(cmd, &rule)
	cmd.ValidArgsFunction = f.completeKey
	return cmd
}

func (f *keysFlags) ruleFlag(cmd *cobra.Command, rule *string) {
	cmd.Flags().StringVar(rule, "rule", "", "the rule that owns the key, where several with other formats or epochs can")
	_ = cmd.RegisterFlagCompletionFunc("rule", f.completeRule) // fails for a flag that is not there
}

func reasonFlag(cmd *cobra.Command, reason *string) {
	cmd.Flags().StringVar(reason, "reason", "", "why, for the audit (required)")
}

func (f *keysFlags) raise() *cobra.Command {
	var r client.RaiseRequest
	cmd := f.command("raise KEY TOKEN", "Announce a new holder: record a higher token, and wait until every older write is over", takes(2, 2), func(c keysCall) error {
		if r.Reason == "" {
			return usageOf("raise needs --reason")
		}
		r.Token = c.args[1]
		st, err := c.admin.Raise(c.ctx, c.args[0], r)
		if err != nil {
			return err
		}
		return c.print(st, statusTable(st))
	})
	reasonFlag(cmd, &r.Reason)
	f.ruleFlag(cmd, &r.Rule)
	cmd.Flags().StringVar(&r.Holder, "holder", "", "who holds the token, where a rule has a holder_header")
	cmd.ValidArgsFunction = f.completeKey
	return cmd
}

func (f *keysFlags) settle() *cobra.Command {
	var reason string
	cmd := f.command("settle KEY", "Vouch that the writes of a key that the proxy lost sight of are over, those of before the last crash too", takes(1, 1), func(c keysCall) error {
		if reason == "" {
			return usageOf("settle needs --reason")
		}
		r, err := c.admin.Settle(c.ctx, c.args[0], reason)
		if err != nil {
			return err
		}
		return c.print(r, settleTable(r))
	})
	reasonFlag(cmd, &reason)
	cmd.ValidArgsFunction = f.completeKey
	return cmd
}

func (f *keysFlags) forget() *cobra.Command {
	var r client.ForgetRequest
	cmd := f.command("forget [KEY]", "Forget a key, or those of a prefix or an age: the next write begins anew, whatever its token", takes(0, 1), func(c keysCall) error {
		many := r.Prefix != "" || r.RaisedBefore != ""
		switch {
		case many == (len(c.args) == 1):
			return usageOf("forget needs a KEY, or --prefix or --raised-before, and not both")
		case r.DryRun && !many:
			return usageOf("--dry-run goes with --prefix or --raised-before")
		case r.Reason == "" && !r.DryRun:
			return usageOf("forget needs --reason")
		}
		var report client.ForgetReport
		var err error
		if many {
			report, err = c.admin.ForgetMany(c.ctx, r)
		} else {
			report, err = c.admin.Forget(c.ctx, c.args[0], r.Reason)
		}
		if err != nil {
			return err
		}
		return c.print(report, forgetTable(report))
	})
	reasonFlag(cmd, &r.Reason)
	cmd.Flags().StringVar(&r.Prefix, "prefix", "", "all keys that begin with this")
	cmd.Flags().StringVar(&r.RaisedBefore, "raised-before", "", `all keys whose token is older: 90d, 36h, or a time as in 2026-01-31T00:00:00Z`)
	cmd.Flags().BoolVar(&r.DryRun, "dry-run", false, "only say which they are")
	cmd.ValidArgsFunction = f.completeKey
	return cmd
}

func (f *keysFlags) check() *cobra.Command {
	var holder, rule string
	cmd := f.command("check KEY TOKEN", "Whether a token would be refused now; changes nothing", takes(2, 2), func(c keysCall) error {
		r, err := c.admin.Check(c.ctx, c.args[0], c.args[1], holder, rule)
		if err != nil {
			return err
		}
		return c.print(r, checkTable(r))
	})
	cmd.Flags().StringVar(&holder, "holder", "", "who holds the token, where a rule has a holder_header")
	f.ruleFlag(cmd, &rule)
	cmd.ValidArgsFunction = f.completeKey
	return cmd
}
