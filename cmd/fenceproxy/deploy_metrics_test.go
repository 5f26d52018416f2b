package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore/etcd/etcdtest"
	"github.com/fenceproxy/fenceproxy/tokenstore/servertest"
)

// promExprs are the expressions of the dashboard and of the alerts, each with
// where it stands.
func promExprs(t *testing.T) map[string]string {
	t.Helper()
	exprs := map[string]string{}
	var dashboard any
	if err := json.Unmarshal(readDeploy(t, "grafana", "fenceproxy.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	labels := regexp.MustCompile(`^label_values\((.*), \w+\)$`)
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case []any:
			for i, e := range v {
				walk(fmt.Sprintf("%s[%d]", at, i), e)
			}
		case map[string]any:
			for name, e := range v {
				if text, ok := e.(string); ok && name == "expr" {
					exprs[at] = text
				} else if m := labels.FindStringSubmatch(text); m != nil {
					exprs[at] = m[1]
				}
				walk(at+"."+name, e)
			}
		}
	}
	walk("dashboard", dashboard)
	panels := len(exprs)
	for _, a := range alerts(t) {
		exprs["alert "+a.Alert] = a.Expr
	}
	if panels < 20 || len(exprs) < panels+10 {
		t.Fatalf("found %d expressions, %d of them in the dashboard: this shows nothing", len(exprs), panels)
	}
	return exprs
}

type promAlert struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func alerts(t *testing.T) []promAlert {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string      `yaml:"name"`
			Rules []promAlert `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.UnmarshalWithOptions(readDeploy(t, "alerts", "fenceproxy.yaml"), &file, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	return file.Groups[0].Rules
}

// metricsOf are the metrics of a proxy that has admitted a write and refused a
// stale one, each with its labels.
func metricsOf(t *testing.T, store string) map[string][]string {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer api.Close()
	fenceproxy := davProgram(t, "fenceproxy", "") // TestMain puts it there
	addrs := servertest.Run(t, 3, func(addrs []string) *exec.Cmd {
		file := filepath.Join(t.TempDir(), "fenceproxy.yaml")
		davWrite(t, file, fmt.Sprintf("{listen: {address: %q}, admin: {address: %q}, upstream: {url: %q}, store: %s, leases: {address: %q}, rules: [{name: all, path: /*, key: \"{path}\"}]}", addrs[0], addrs[1], api.URL, store, addrs[2]))
		if out, err := exec.Command(fenceproxy, "store", "init", "--config", file).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return exec.Command(fenceproxy, "serve", "--config", file)
	})
	addr, admin := addrs[0], addrs[1]
	untilReady(t, admin)
	for _, w := range []struct {
		token string
		want  int
	}{{"2", http.StatusNoContent}, {"1", http.StatusConflict}} {
		if status, _, body := put(t, addr, "/a", w.token); status != w.want {
			t.Fatalf("token %s: %d %s", w.token, status, body)
		}
	}
	resp, err := http.Get("http://" + admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	metrics := map[string][]string{}
	label := regexp.MustCompile(`(\w+)="`)
	for _, m := range regexp.MustCompile(`(?m)^([a-z_0-9]+)(?:\{(.*)\})? `).FindAllStringSubmatch(string(text), -1) {
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			metrics[m[1]] = append(metrics[m[1]], l[1])
		}
		if m[2] == "" {
			metrics[m[1]] = append(metrics[m[1]], "")
		}
	}
	return metrics
}

var (
	promMetric  = regexp.MustCompile(`\b((?:fenceproxy|process|go)_[a-z_]+)(?:\{([^}]*)\})?`)
	promLabel   = regexp.MustCompile(`(\w+)(?:=~|!~|!=|=)"([^"]*)"`)
	promBy      = regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`)
	everyTarget = []string{"job", "instance"} // which Prometheus adds
	noDecision  = []string{"passed", "admitted", "admitted-without-token", "would-wait", "client-left", "failed"}
	wouldReject = "(would-reject-)?"
)

// TestDeployMetrics: the dashboard and the alerts name metrics, labels and
// decisions that the real binary has.
func TestDeployMetrics(t *testing.T) {
	etcd, err := etcdtest.New()
	if err != nil {
		t.Fatal(err)
	}
	etcd.CloseAfter(t)
	known := metricsOf(t, fmt.Sprintf("{embedded: {path: %q}}", filepath.Join(t.TempDir(), "store")))
	for name, labels := range metricsOf(t, fmt.Sprintf("{etcd: {endpoints: [%q]}}", etcd.Endpoint)) {
		known[name] = append(known[name], labels...)
	}
	for at, expr := range promExprs(t) {
		for _, m := range promMetric.FindAllStringSubmatch(expr, -1) {
			name := m[1]
			labels, ok := known[name]
			if !ok {
				t.Errorf("%s names %s, which the proxy does not have", at, name)
			}
			labels = slices.Concat(labels, everyTarget)
			for _, l := range promLabel.FindAllStringSubmatch(m[2], -1) {
				if !slices.Contains(labels, l[1]) {
					t.Errorf("%s: %s has no label %s", at, name, l[1])
				}
				if l[1] == "decision" {
					checkDecisions(t, at, l[2])
				}
			}
			for _, by := range promBy.FindAllStringSubmatch(expr, -1) {
				for l := range strings.SplitSeq(by[1], ", ") {
					if !slices.Contains(labels, l) {
						t.Errorf("%s: by %s, which %s does not have", at, l, name)
					}
				}
			}
		}
	}
}

// checkDecisions looks for each alternative of a pattern among what the proxy
// counts.
func checkDecisions(t *testing.T, at, pattern string) {
	t.Helper()
	decisions := slices.Clone(noDecision)
	for _, n := range wire.Names() {
		decisions = append(decisions, string(n), decisionWouldReject+string(n))
	}
	for one := range strings.SplitSeq(strings.ReplaceAll(pattern, wouldReject, ""), "|") {
		re, err := regexp.Compile("^(?:" + one + ")$")
		if err != nil {
			t.Errorf("%s: %v", at, err)
		} else if !slices.ContainsFunc(decisions, re.MatchString) {
			t.Errorf("%s: no decision is %q", at, one)
		}
	}
}

const decisionWouldReject = "would-reject-"

// TestDeployAlerts has promtool check the alerts, run their tests, and parse
// the expressions of the dashboard.
func TestDeployAlerts(t *testing.T) {
	promtool := davProgram(t, "promtool", "prometheus")
	panels := filepath.Join(t.TempDir(), "panels.yaml")
	var text strings.Builder
	text.WriteString("groups: [{name: panels, rules: [\n")
	variables := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$instance", ".*", "$rule", ".*")
	for at, expr := range promExprs(t) {
		name := regexp.MustCompile(`\W`).ReplaceAllString(at, "_")
		fmt.Fprintf(&text, "{record: %s, expr: %q},\n", name, variables.Replace(expr))
	}
	text.WriteString("]}]\n")
	if strings.Contains(text.String(), "$") {
		t.Errorf("the dashboard uses a variable that is not known here:\n%s", text.String())
	}
	davWrite(t, panels, text.String())
	for _, args := range [][]string{
		{"check", "rules", deployDir(t, "alerts", "fenceproxy.yaml")},
		{"test", "rules", deployDir(t, "alerts", "fenceproxy_test.yaml")},
		{"check", "rules", panels},
	} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
	tests := string(readDeploy(t, "alerts", "fenceproxy_test.yaml"))
	var headings []string
	for line := range strings.Lines(string(readDeploy(t, "README.md"))) {
		if strings.HasPrefix(line, "#") {
			headings = append(headings, strings.ToLower(line))
		}
	}
	for _, a := range alerts(t) {
		if !strings.Contains(tests, "alertname: "+a.Alert+"\n") {
			t.Errorf("no test shows that %s fires", a.Alert)
		}
		place := strings.TrimPrefix(a.Annotations["runbook"], "deploy/README.md: ")
		places := []string{place}
		if strings.Contains(place, "{{ $labels.decision }}") {
			places = strings.Split(regexp.MustCompile(`decision=~"([^"]*)"`).FindStringSubmatch(a.Expr)[1], "|")
		}
		for _, p := range places {
			if p == "" || !slices.ContainsFunc(headings, func(h string) bool { return strings.Contains(h, strings.ToLower(p)) }) {
				t.Errorf("%s leads to %q, and deploy/README.md has no such heading", a.Alert, p)
			}
		}
	}
}
