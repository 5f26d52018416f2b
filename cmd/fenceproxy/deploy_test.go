package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/fenceproxy/fenceproxy/config"
)

// compose is as much of a compose file as ours have: whatever else stands in
// one is an error.
type compose struct {
	Proxy    map[string]any         `yaml:"x-proxy"`
	Services map[string]composePart `yaml:"services"`
	Volumes  map[string]struct{}    `yaml:"volumes"`
}

type composePart struct {
	Build           map[string]string `yaml:"build"`
	Image           string            `yaml:"image"`
	Restart         string            `yaml:"restart"`
	StopGracePeriod string            `yaml:"stop_grace_period"`
	Command         []string          `yaml:"command"`
	Ports           []string          `yaml:"ports"`
	Volumes         []string          `yaml:"volumes"`
	Environment     map[string]string `yaml:"environment"`
	DependsOn       any               `yaml:"depends_on"`
}

// What is in deploy cannot be run here; its form, and that its parts fit
// together, can be looked at.
func TestDeployShared(t *testing.T) {
	dir := filepath.Join(moduleRoot(t), "deploy", "shared")
	for _, kind := range []string{"etcd", "postgres"} {
		b, err := os.ReadFile(filepath.Join(dir, "compose-"+kind+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var c compose
		if err := yaml.UnmarshalWithOptions(b, &c, yaml.Strict()); err != nil {
			t.Fatalf("compose-%s.yaml: %v", kind, err)
		}
		proxies := 0
		for name, s := range c.Services {
			if s.Image == "" {
				t.Errorf("%s: %s has no image", kind, name)
			}
			for _, v := range s.Volumes {
				from, _, _ := strings.Cut(v, ":")
				if _, named := c.Volumes[from]; named {
					continue
				}
				if _, err := os.Stat(filepath.Join(dir, from)); err != nil {
					t.Errorf("%s: %s mounts %s: %v", kind, name, from, err)
				}
			}
			if strings.HasPrefix(name, "proxy") {
				proxies++
				if s.StopGracePeriod == "" || len(s.Ports) != 1 || !strings.HasPrefix(s.Ports[0], "127.0.0.1:") {
					t.Errorf("%s: %s %+v", kind, name, s)
				}
			}
		}
		if proxies != 3 {
			t.Errorf("%s: %d proxies", kind, proxies)
		}
		cfg, report := config.LoadFile(filepath.Join(dir, "fenceproxy-"+kind+".yaml"), func(string) (string, bool) { return "secret", true })
		plan(cfg, &report)
		if err := report.Err(); err != nil {
			t.Error(err)
		}
		for _, e := range endpointsOf(cfg) {
			if _, ok := c.Services[e]; !ok {
				t.Errorf("%s: there is no service %s", kind, e)
			}
		}
	}
}

// endpointsOf are the hosts that the configuration's store and upstream name.
func endpointsOf(cfg *config.Config) []string {
	urls := []string{cfg.Upstream.URL}
	if e := cfg.Store.Etcd; e != nil {
		urls = append(urls, e.Endpoints...)
	}
	if p := cfg.Store.Postgres; p != nil {
		urls = append(urls, p.URL)
	}
	var hosts []string
	for _, u := range urls {
		_, rest, _ := strings.Cut(u, "//")
		if _, behind, ok := strings.Cut(rest, "@"); ok {
			rest = behind
		}
		host, _, _ := strings.Cut(rest, ":")
		hosts = append(hosts, host)
	}
	return hosts
}
