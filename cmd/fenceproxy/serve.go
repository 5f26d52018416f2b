package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/config"
)

func newServe() *cobra.Command {
	var file string
	flags := config.DefaultFlags()
	cmd := &cobra.Command{
		Use:   "serve (--config FILE | --upstream URL)",
		Short: "Run the proxy",
		Long: `Run the proxy, from a configuration file or, with --upstream, without one:
then every write is fenced and its resource key is its path (or --key). A file
says it all: the other flags are refused beside it, and their variables, which may
be there for other commands, are passed over with a warning.

SIGHUP, and a change of the file, reload it, all of it or nothing. SIGTERM stops:
nothing is admitted any more, and what is in flight, unsettled or quarantined is
waited for until shutdown_timeout; a second signal ends the wait.

Each flag has a variable: --config is FENCEPROXY_CONFIG. A flag wins.`,
		Args: noArguments,
	}
	f := cmd.Flags()
	f.StringVar(&file, "config", "", "the configuration file (every setting: config/reference.yaml)")
	f.StringVar(&flags.Upstream, "upstream", "", "where the service is, like http://127.0.0.1:9000")
	f.StringVar(&flags.Listen, "listen", flags.Listen, "where clients come in")
	f.StringVar(&flags.Data, "data", flags.Data, "the directory of the token store, made where it is missing")
	f.StringVar(&flags.Admin, "admin", flags.Admin, "the admin listener; empty turns it off")
	f.StringVar(&flags.Key, "key", flags.Key, "the template of the resource key")

	cmd.ValidArgsFunction = words()
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		src := source{file: file, seen: look(file)} // before it is read: a change behind it is seen
		cfg, report, err := configuration(cmd, file, flags)
		if err != nil {
			return err
		}
		p := plan(cfg, &report)
		for _, w := range report.Warnings {
			fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+w.Error())
		}
		if err := report.Err(); err != nil {
			return &exitError{exitUsage, err}
		}
		hangUp := make(chan os.Signal, 1)
		signal.Notify(hangUp, syscall.SIGHUP)
		defer signal.Stop(hangUp)
		signals := make(chan os.Signal, 2)
		signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
		defer signal.Stop(signals)
		// A file that reaches the file size limit, and a log that nobody reads any
		// more, are errors of the write, not the end of the process.
		signal.Ignore(syscall.SIGXFSZ, syscall.SIGPIPE)
		src.hangUp = hangUp
		return run(src, cfg, p, signals)
	}
	return cmd
}

// fileless are the flags that a file leaves nothing to say.
var fileless = []string{"upstream", "listen", "data", "admin", "key"}

// configuration is what the file or the flags say. Both together are refused. A
// variable beside the file is passed over: it may be there for another command, as
// FENCEPROXY_ADMIN is for keys.
func configuration(cmd *cobra.Command, file string, flags config.Flags) (*config.Config, config.Report, error) {
	if file == "" && flags.Upstream == "" {
		return nil, config.Report{}, errors.New("serve needs --config FILE, or --upstream URL for a proxy without a file")
	}
	if file == "" {
		var err error
		if flags.Admin, err = adminAddress(flags.Admin); err != nil {
			return nil, config.Report{}, err
		}
		cfg, report := config.FromFlags(flags)
		return cfg, report, nil
	}
	var passed []string
	for _, name := range fileless {
		switch f := cmd.Flags().Lookup(name); {
		case !f.Changed:
		case variableOf(f) == "":
			return nil, config.Report{}, fmt.Errorf("--%s and --config (or FENCEPROXY_CONFIG) exclude each other: the file says it all", name)
		default:
			passed = append(passed, variableOf(f))
		}
	}
	cfg, report := config.LoadFile(file, os.LookupEnv)
	if len(passed) > 0 {
		report.Warn(config.Problem{Path: strings.Join(passed, ", "), Message: "passed over beside --config", Remedy: "the file says it all"})
	}
	return cfg, report, nil
}

// adminAddress reads --admin, whose variable is that of keys, too, where it may be
// a URL. One that names no more than host:port means that.
func adminAddress(s string) (string, error) {
	if !strings.Contains(s, "://") {
		return s, nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" || u.Port() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("--admin (or FENCEPROXY_ADMIN) is a URL other than http://HOST:PORT, and serve listens there: host:port; for an admin listener with TLS, a file with admin.tls")
	}
	return u.Host, nil
}
