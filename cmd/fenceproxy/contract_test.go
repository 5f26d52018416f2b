package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/fenceproxy/fenceproxy/config"
)

// Each flag of each command has a variable; a flag wins over it; and a value
// that the flag does not take is told under the variable's name.
func TestVariableOfEachFlag(t *testing.T) {
	values := map[string]string{"string": "value", "bool": "true", "int": "7", "duration": "7s", "stringArray": "a: b", "stringSlice": "a"}
	flags := 0
	for i := range commandsOf(newRoot()) {
		flagsOf := func() *pflag.FlagSet { // a fresh one
			cmd := commandsOf(newRoot())[i]
			cmd.InheritedFlags() // merges those of the commands above
			return cmd.Flags()
		}
		flagsOf().VisitAll(func(f *pflag.Flag) {
			if f.Name == "help" || f.Name == "version" {
				return
			}
			flags++
			value, known := values[f.Value.Type()]
			if !known {
				t.Fatalf("--%s is a %s", f.Name, f.Value.Type())
			}
			t.Run(commandsOf(newRoot())[i].CommandPath()+" --"+f.Name, func(t *testing.T) {
				t.Setenv("FENCEPROXY_"+strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_")), value)
				set := flagsOf()
				if err := fromEnvironment(set); err != nil || !set.Changed(f.Name) || strings.Trim(set.Lookup(f.Name).Value.String(), "[]") != value {
					t.Errorf("the variable makes it %q: %v", set.Lookup(f.Name).Value, err)
				}
				set = flagsOf()
				if err := set.Set(f.Name, f.DefValue); err != nil && f.Value.Type() != "stringArray" {
					t.Fatal(err)
				}
				was := set.Lookup(f.Name).Value.String()
				if err := fromEnvironment(set); err != nil || set.Lookup(f.Name).Value.String() != was {
					t.Errorf("the flag does not win: %q, %v", set.Lookup(f.Name).Value, err)
				}
				if f.Value.Type() == "duration" || f.Value.Type() == "bool" || f.Value.Type() == "int" {
					t.Setenv(variables(f)[0], "nonsense")
					if err := fromEnvironment(flagsOf()); err == nil || !strings.Contains(err.Error(), variables(f)[0]+": ") {
						t.Errorf("nonsense: %v", err)
					}
				}
			})
		})
	}
	if flags < 40 {
		t.Errorf("%d flags", flags)
	}
}

// Every setting of serve that has a flag is refused beside --config, by name. Its
// variable, which may be there for another command, changes nothing and is named
// in a warning.
func TestFlagsBesideConfig(t *testing.T) {
	file := configured(t, "memory: {}")
	for _, name := range fileless {
		flagged := newServe()
		if err := flagged.ParseFlags([]string{"--" + name, "x"}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := configuration(flagged, file, config.DefaultFlags()); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("--%s and --config (or FENCEPROXY_CONFIG) exclude each other", name)) {
			t.Errorf("--%s: %v", name, err)
		}
		t.Run(name, func(t *testing.T) {
			plain, clean, err := configuration(newServe(), file, config.DefaultFlags())
			if err != nil {
				t.Fatal(err)
			}
			variable := "FENCEPROXY_" + strings.ToUpper(name)
			t.Setenv(variable, "x")
			cmd := newServe()
			if err := fromEnvironment(cmd.Flags()); err != nil {
				t.Fatal(err)
			}
			cfg, report, err := configuration(cmd, file, config.DefaultFlags())
			if err != nil || report.Err() != nil || len(report.Warnings) != len(clean.Warnings)+1 || !strings.HasPrefix(report.Warnings[0].Error(), variable+": passed over beside --config") {
				t.Errorf("%s: %v, %v", variable, err, report)
			}
			if changed := config.Diff(plain, cfg); len(changed) > 0 {
				t.Errorf("%s changes %q", variable, changed)
			}
		})
	}
	// None is forgotten: serve has these and --config.
	newServe().Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(append(slices.Clone(fileless), "config", "help"), f.Name) {
			t.Errorf("--%s is new: is it refused beside --config?", f.Name)
		}
	})
}

// The metrics that dashboards rely on are there with the labels that they are
// to have, and none has a label whose values clients choose.
func TestMetrics(t *testing.T) {
	got := metricsOf(t, fmt.Sprintf("{embedded: {path: %q}}", filepath.Join(t.TempDir(), "store")))
	for name, labels := range map[string][]string{
		"fenceproxy_requests_total":           {"decision", "rule"},
		"fenceproxy_raises_total":             {"rule"},
		"fenceproxy_raise_seconds_count":      {""},
		"fenceproxy_drain_wait_seconds_count": {""},
		"fenceproxy_writes_in_flight":         {""},
		"fenceproxy_writes_unsettled":         {""},
		"fenceproxy_waiting":                  {""},
		"fenceproxy_upstream_seconds_count":   {""},
		"fenceproxy_keys_cached":              {""},
		"fenceproxy_keys_stored":              {""},
		"fenceproxy_store_up":                 {""},
		"fenceproxy_config_reload_success":    {""},
		"fenceproxy_token_collisions_total":   {""},
		"fenceproxy_log_lines_dropped_total":  {""},
		"go_goroutines":                       {""},
	} {
		have := slices.Clone(got[name])
		slices.Sort(have)
		if have = slices.Compact(have); !slices.Equal(have, labels) {
			t.Errorf("%s has the labels %q, want %q", name, have, labels)
		}
	}
	for name, labels := range got {
		for _, l := range labels {
			if strings.HasPrefix(name, "fenceproxy_") && !slices.Contains([]string{"", "rule", "decision", "le", "result"}, l) {
				t.Errorf("%s has a label %s: are its values few, and none of a client's?", name, l)
			}
		}
	}
}

// What a reload can change, and what needs a restart.
func TestReloadable(t *testing.T) {
	for setting, want := range map[string]bool{
		"listen.address": false, "listen.tls.cert_file": false, "listen": false, "admin.token_file": false, "admin": false, "store.embedded.path": false,
		"store.session_ttl": false, "upstream.url": false, "leases.address": false, "audit": false, "tracing.otlp_endpoint": false, "log.format": false,
		"rules": true, "fencing.drain_timeout": true, "upstream.settle": true, "upstream.response_timeout": true, "limits.max_waiting": true,
		"unmatched_writes": true, "log.level": true, "log.access": true, "shutdown_timeout": true, "store.accept_changed_rules": true,
	} {
		if got := reloadable(setting); got != want {
			t.Errorf("%s can be changed by a reload: %v", setting, got)
		}
	}
}
