package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/fenceproxy/fenceproxy/config"
)

// What is in deploy needs engines that are not here. Its form, and that its
// parts fit together, can be looked at.

// deployDir is a folder of deploy.
func deployDir(t *testing.T, parts ...string) string {
	t.Helper()
	return filepath.Join(append([]string{moduleRoot(t), "deploy"}, parts...)...)
}

func readDeploy(t *testing.T, parts ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(deployDir(t, parts...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// checkDeployed checks a configuration as `fenceproxy check` does. What it warns
// of is an error here. Files that are mounted where it will run are not here.
func checkDeployed(t *testing.T, name, text string) *config.Config {
	t.Helper()
	cfg, report := config.Load(name, []byte(text), func(string) (string, bool) { return "192.0.2.1", true })
	plan(cfg, &report)
	for _, p := range slices.Concat(report.Errors, report.Warnings) {
		text := p.Error()
		if !strings.Contains(text, "no such file") {
			t.Error(text)
		}
	}
	return cfg
}

// TestDeployConfigs checks every configuration file in deploy.
func TestDeployConfigs(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(deployDir(t), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), "fenceproxy") && strings.HasSuffix(path, ".yaml") && filepath.Base(filepath.Dir(path)) != "alerts" {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			seen++
			checkDeployed(t, path, string(b))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 3 {
		t.Errorf("only %d configurations were looked at: this has shown nothing", seen)
	}
}

// compose is as much of a compose file as ours have: whatever else stands in
// one is an error.
type compose struct {
	Proxy    map[string]any            `yaml:"x-proxy"`
	Services map[string]composePart    `yaml:"services"`
	Networks map[string]composeNetwork `yaml:"networks"`
	Volumes  map[string]struct{}       `yaml:"volumes"`
}

type composeNetwork struct {
	Internal bool `yaml:"internal"`
}

type composePart struct {
	Build           map[string]string `yaml:"build"`
	Image           string            `yaml:"image"`
	Restart         string            `yaml:"restart"`
	StopGracePeriod string            `yaml:"stop_grace_period"`
	Command         []string          `yaml:"command"`
	Ports           []string          `yaml:"ports"`
	Networks        []string          `yaml:"networks"`
	Volumes         []string          `yaml:"volumes"`
	Environment     map[string]string `yaml:"environment"`
	DependsOn       any               `yaml:"depends_on"`
	ReadOnly        bool              `yaml:"read_only"`
	CapDrop         []string          `yaml:"cap_drop"`
	SecurityOpt     []string          `yaml:"security_opt"`
}

func TestDeployCompose(t *testing.T) {
	for _, c := range []struct {
		file, config string
		proxies      int
	}{
		{"compose.yaml", "compose/fenceproxy.yaml", 1},
		{"shared/compose-etcd.yaml", "shared/fenceproxy-etcd.yaml", 3},
		{"shared/compose-postgres.yaml", "shared/fenceproxy-postgres.yaml", 3},
	} {
		t.Run(c.file, func(t *testing.T) {
			var file compose
			if err := yaml.UnmarshalWithOptions(readDeploy(t, c.file), &file, yaml.Strict()); err != nil {
				t.Fatal(err)
			}
			cfg := checkDeployed(t, c.config, string(readDeploy(t, c.config)))
			proxies := 0
			for name, s := range file.Services {
				file.checkMounts(t, name, filepath.Dir(deployDir(t, c.file)))
				switch {
				case s.Image == "":
					t.Errorf("%s has no image", name)
				case !strings.HasPrefix(name, "proxy"):
					if len(s.Ports) > 0 {
						t.Errorf("%s publishes %v: only a proxy does", name, s.Ports)
					}
				default:
					proxies++
					if grace, err := time.ParseDuration(s.StopGracePeriod); err != nil || grace < cfg.ShutdownTimeout+10*time.Second {
						t.Errorf("%s: stop_grace_period %s (%v) is not well above shutdown_timeout %v", name, s.StopGracePeriod, err, cfg.ShutdownTimeout)
					}
					if len(s.Ports) != 1 || !strings.HasPrefix(s.Ports[0], "127.0.0.1:") {
						t.Errorf("%s publishes %v, want one port on loopback", name, s.Ports)
					}
				}
			}
			if proxies != c.proxies {
				t.Errorf("%d proxies, want %d", proxies, c.proxies)
			}
			for _, e := range endpointsOf(cfg) {
				if _, ok := file.Services[e]; !ok {
					t.Errorf("there is no service %s", e)
				}
			}
		})
	}
}

// checkMounts looks for what a service mounts and which networks it is on.
func (c *compose) checkMounts(t *testing.T, name, dir string) {
	t.Helper()
	for _, v := range c.Services[name].Volumes {
		from, _, _ := strings.Cut(v, ":")
		if _, named := c.Volumes[from]; named {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, from)); err != nil {
			t.Errorf("%s mounts %s: %v", name, from, err)
		}
	}
	for _, n := range c.Services[name].Networks {
		if _, ok := c.Networks[n]; !ok {
			t.Errorf("%s is on a network %s, which there is not", name, n)
		}
	}
}

// TestDeployComposeFence: the API of the first example is reached through the
// proxy alone.
func TestDeployComposeFence(t *testing.T) {
	var file compose
	if err := yaml.UnmarshalWithOptions(readDeploy(t, "compose.yaml"), &file, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	for _, n := range file.Services["api"].Networks {
		if !file.Networks[n].Internal {
			t.Errorf("the network %s of the API is not internal", n)
		}
		for name, s := range file.Services {
			if name != "api" && name != "proxy" && slices.Contains(s.Networks, n) {
				t.Errorf("%s is on the network %s of the API, past the fence", name, n)
			}
		}
	}
	if len(file.Services["api"].Networks) != 1 || !slices.Contains(file.Services["proxy"].Networks, file.Services["api"].Networks[0]) {
		t.Errorf("the API is on %v and the proxy on %v", file.Services["api"].Networks, file.Services["proxy"].Networks)
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
