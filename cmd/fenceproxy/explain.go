package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/config"
	"github.com/fenceproxy/fenceproxy/proxy"
	"github.com/fenceproxy/fenceproxy/proxy/route"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

func newExplain() *cobra.Command {
	var file, body string
	var headers []string
	cmd := &cobra.Command{
		Use:   "explain --config FILE METHOD URL [-H 'Name: value']... [-d BODY]",
		Short: "Tell how a request would be read: target, rule, keys, policy, and what it would get",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errors.New("explain needs METHOD and URL, as in explain --config FILE PUT /accounts/42")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return errors.New("explain needs --config FILE")
			}
			cfg, report := config.LoadFile(file, os.LookupEnv)
			p := plan(cfg, &report)
			if err := report.Err(); err != nil {
				return &exitError{exitUsage, err}
			}
			r, err := imagine(args[0], args[1], headers, body)
			if err != nil {
				return err
			}
			e := p.table.Explain(r, []byte(body))
			h := proxy.NewHandler(proxy.Options{Rulebook: rulebook(cfg, p), BodyTimeout: cfg.Listen.HeaderTimeout})
			return explain(cmd.OutOrStdout(), args[0]+" "+args[1], cfg, e, h.Foresee(r))
		},
	}
	f := cmd.Flags()
	f.StringVar(&file, "config", "", "the configuration file")
	f.StringArrayVarP(&headers, "header", "H", nil, "a header of the request, as in 'X-Fencing-Token: 7'")
	f.StringVarP(&body, "body", "d", "", "the body of the request") // --data, and its variable, is a directory
	cmd.ValidArgsFunction = completeMethod
	return cmd
}

func completeMethod(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return []cobra.Completion{"PUT", "POST", "PATCH", "DELETE", "GET"}, cobra.ShellCompDirectiveNoFileComp
}

// imagine makes the request as the proxy would get it. The target is kept as
// it was written: a URL's parser would make another one of it.
func imagine(method, url string, headers []string, body string) (*http.Request, error) {
	host, target := "localhost", url
	rest, ok := strings.CutPrefix(url, "http://")
	if !ok {
		rest, ok = strings.CutPrefix(url, "https://")
	}
	if ok {
		at := strings.IndexAny(rest, "/?")
		if at < 0 {
			at = len(rest)
		}
		host, target = rest[:at], rest[at:]
		if !strings.HasPrefix(target, "/") {
			target = "/" + target
		}
	}
	if !strings.HasPrefix(target, "/") && target != "*" && method != http.MethodConnect {
		return nil, fmt.Errorf("%q is no target of a request; write its path from the root, as in /accounts/42, or a whole http:// URL", url)
	}
	if _, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n"))); err != nil {
		return nil, fmt.Errorf("such a request is answered 400 by the HTTP parser: %w", err)
	}
	r := &http.Request{Method: method, RequestURI: target, Host: host, Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
	for _, line := range headers {
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" {
			return nil, fmt.Errorf("-H %q is no header; write it as in 'X-Fencing-Token: 7'", line)
		}
		if value = strings.TrimSpace(value); strings.EqualFold(name, "Host") {
			r.Host = value
			continue
		}
		r.Header.Add(name, value)
	}
	return r, nil
}

// explain prints what is known of a request.
func explain(out io.Writer, request string, cfg *config.Config, e route.Explanation, f proxy.Foresight) error {
	fmt.Fprintln(out, request)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	if e.Target != "" {
		row("forwarded as", "%s", e.Target)
		row("seen as", "%s", e.Path)
	}
	if e.Problem != "" {
		row("departs by", "%s", e.Problem)
	}
	if e.Folded != "" && e.Folded != e.Path {
		row("could be taken for", "%s", e.Folded)
	}
	for _, r := range e.Rules {
		name := "not rule"
		if r.Chosen {
			name = "rule"
		}
		row(name, "%s: %s", r.Name, r.Why)
	}
	for _, k := range e.Keys {
		row("key", "%s  (%s, token in %s)", orNone(string(k.Key)), k.Template, k.Header)
		for _, part := range k.Parts {
			if part.Problem != "" {
				row("", "%s: %s", part.Placeholder, part.Problem)
			} else {
				row("", "%s is %q", part.Placeholder, part.Value)
			}
		}
	}
	if at := ruleAt(cfg, f.Rule); at != nil {
		p := cfg.Policy(at)
		if p.Epoch > 0 || p.HolderHeader != "" || p.MaxToken != "" || p.MaxJump != "" {
			row("and", "epoch %d, holder_header %q, max_token %q, max_jump %q", p.Epoch, p.HolderHeader, p.MaxToken, p.MaxJump)
		}
		row("policy", "token %s, mode %s, reads %s, format %s, drain_timeout %v, response_timeout %v, settle %v", p.Token, p.Mode, p.Reads, p.Format, p.DrainTimeout, p.ResponseTimeout, p.Settle)
	}
	for i, r := range e.Rules {
		if !f.Fenced && f.Problem == nil && r.Pattern != "" && cfg.Policy(&cfg.Rules[i]).Reads == config.ReadsFence {
			row("note", "rule %s has reads: fence, but this request carries no token, so that nothing is checked", r.Name)
		}
	}
	if method, _, _ := strings.Cut(request, " "); hasDestination(method) && f.Rule != nil && f.Rule.Fenced {
		row("note", "a %s is fenced by its path alone: the resource that its Destination names has no key here", method)
	}
	row("would get", "%s", outcome(f))
	return w.Flush()
}

// outcome is what the request would get, in one line.
func outcome(f proxy.Foresight) string {
	switch {
	case f.Problem != nil && f.Observed:
		return fmt.Sprintf("the upstream's answer, with Fencing-Result: %s, since the rule observes; enforced: %d %s: %s",
			wire.ResultWouldReject(f.Problem.Name()), f.Problem.Status, f.Problem.Name(), f.Problem.Detail)
	case f.Problem != nil:
		return fmt.Sprintf("%d %s: %s", f.Problem.Status, f.Problem.Name(), f.Problem.Detail)
	case !f.Fenced:
		return "the upstream's answer: no fence touches it"
	case f.Tokenless:
		return "the upstream's answer: without a token it counts as older than every token, so that writes with one wait for it"
	case f.Observed:
		return "the upstream's answer at once, since the rule observes: Fencing-Result says would-reject;reason=stale-token if a higher token is on record, would-wait if older writes are not over, else admitted"
	case f.Read:
		return "409 stale-token if a higher token is on record, else the upstream's answer once older writes are over; it holds nothing itself"
	}
	return "409 stale-token if a higher token is on record, else the upstream's answer once older writes are over"
}

func ruleAt(cfg *config.Config, r *proxy.Rule) *config.Rule {
	if r == nil {
		return nil
	}
	for i := range cfg.Rules {
		if cfg.Rules[i].Name == r.Name {
			return &cfg.Rules[i]
		}
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
