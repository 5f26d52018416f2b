package main

import (
	"slices"
	"testing"

	"github.com/fenceproxy/fenceproxy/config"
)

func TestAdminHosts(t *testing.T) {
	for address, want := range map[string][]string{
		"10.0.0.5:9901": {"a", "10.0.0.5"}, "fence.internal:9901": {"a", "fence.internal"}, "[2001:db8::1]:1": {"a", "2001:db8::1"},
		":9901": {"a"}, "0.0.0.0:9901": {"a"}, "[::]:9901": {"a"}, "127.0.0.1:1": {"a", "127.0.0.1"},
	} {
		if got := adminHosts(config.Admin{Address: address, Hosts: []string{"a"}}); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}
