package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	for _, tt := range []struct {
		in                      string
		ok, loopback, everywher bool
	}{
		{"127.0.0.1:8080", true, true, false},
		{"127.8.9.1:1", true, true, false},
		{"[::1]:0", true, true, false},
		{"[::ffff:127.0.0.1]:1", true, true, false},
		{"LocalHost:1", true, true, false},
		{":80", true, false, true},
		{"0.0.0.0:80", true, false, true},
		{"[::]:80", true, false, true},
		{"[fe80::1%eth0]:80", true, false, false},
		{in: "[fe80::1%eth0 a]:80"},
		{"svc.example.:80", true, false, false},
		{"localhost.example:80", true, false, false},
		{"127.0.0.1.example:80", true, false, false},
		{in: "::1:80"},
		{in: "127.0.0.1"},
		{in: "127.0.0.1:"},
		{in: "127.0.0.1:http"},
		{in: "127.0.0.1:080"},
		{in: "127.0.0.1:+80"},
		{in: "127.0.0.1:65536"},
		{in: "127.0.0.01:80"},
		{in: "0x7f.1:80"},
		{in: "2130706433:80"},
		{in: "a b:80"},
		{in: "a/b:80"},
		{in: "http://a:80"},
		{in: "-a:80"},
		{"unix:/x", true, false, false},
		{in: "unix:x"},
		{in: "unix:"},
		{in: "unix:/"},
		{in: "unix:/x/"},
		{in: "unix:@x"},
		{in: "unix:/" + strings.Repeat("x", 100)},
		{in: ""},
	} {
		a, err := parseAddress(tt.in)
		if (err == nil) != tt.ok || a.loopback() != tt.loopback || tt.ok && a.everywhere() != tt.everywher {
			t.Errorf("%q: ok %t, loopback %t, everywhere %t", tt.in, err == nil, a.loopback(), a.everywhere())
		}
	}
}

func TestURLs(t *testing.T) {
	long := strings.Repeat("x", longestSocket)
	for in, want := range map[string]string{
		"http://127.0.0.1:9000":   "",
		"http://a":                "",
		"HTTP://a/":               "",
		"http://[::1]:9000/api/1": "",
		"http://a/api/":           `the path of "http://a/api/" is not canonical`,
		"http://a//b":             `the path of "http://a//b" is not canonical`,
		"http://a/../b":           `the path of "http://a/../b" is not canonical`,
		"http://a/%2e%2e":         `the path of "http://a/%2e%2e" is not canonical`,
		"http://a/b%2Fc":          `the path of "http://a/b%2Fc" is not canonical`,
		"http://a/b;c":            `the path of "http://a/b;c" is not canonical`,
		"http://a/b\\c":           `the path of "http://a/b\\c" is not canonical`,
		"http://a?x":              `"http://a?x" has a query or a fragment`,
		"http://a?":               `"http://a?" has a query or a fragment`,
		"http://a#":               `"http://a#" has a query or a fragment`,
		"http://u:secret@a":       "holds a user name or a password",
		"http://u:sec%ret@a":      "holds a user name or a password",
		"http://":                 `"http://" has no host`,
		"http://:80":              `"http://:80" has no host`,
		"http:a":                  `"http:a" is not a URL`,
		"http://a:0":              `the port of "http://a:0" is not a number from 1 to 65535`,
		"http://a:":               `the port of "http://a:" is not a number from 1 to 65535`,
		"http://a:x":              `"http://a:x" is not a URL`,
		"http://a b":              `"http://a b" is not a URL`,
		"http://1.2":              `the host of "http://1.2" is neither a name nor an IP address`,
		"127.0.0.1:9000":          `"127.0.0.1:9000" is not a URL`,
		"localhost:9000":          `"localhost:9000" is not an http, https or h2c URL`,
		"ftp://a":                 `"ftp://a" is not an http, https or h2c URL`,
		"https://a":               "",
		"https://a:0":             `the port of "https://a:0" is not a number from 1 to 65535`,
		"https:a":                 `"https:a" is not a URL`,
		"h2c://a":                 "",
		"H2C://a:9000/api":        "",
		"h2c:a":                   `"h2c:a" is not a URL`,
		"h2c://a?x":               `"h2c://a?x" has a query or a fragment`,
		"unix:/run/x":             "",
		"unix:/run/a%20b":         "",
		"unix:":                   `"unix:" does not name a socket`,
		"unix:/":                  `"unix:/" does not name a socket`,
		"unix:run/x":              `"unix:run/x" does not name a socket`,
		"unix:@x":                 `"unix:@x" does not name a socket`,
		"unix:///run/x":           `"unix:///run/x" is a roundabout path`,
		"unix:/a/../x":            `"unix:/a/../x" is a roundabout path`,
		"unix:/" + long:           fmt.Sprintf("the path has %d bytes, and a unix socket's at most %d", len(long)+1, longestSocket),
	} {
		message := ""
		if _, err := parseURL(in); err != nil {
			message = err.message
		}
		if message != want {
			t.Errorf("%q: %s, want %s", in, message, want)
		}
	}
}

func TestSizes(t *testing.T) {
	for in, want := range map[string]string{
		"0": "0", "1": "1", "1024": "1KiB", "1KiB": "1KiB", "1000B": "1000", "1536KiB": "1536KiB", "3MiB": "3MiB", "1024GiB": "1TiB",
		"9223372036854775807": "9223372036854775807",
		"":                    "", "KiB": "", "1kib": "", "1KB": "", "1K": "", "1 KiB": "", "01": "", "-1": "", "+1": "", "1.5MiB": "", "1KiBKiB": "", "8388608TiB": "",
	} {
		got := ""
		if s, err := parseSize(in); err == nil {
			got = s.String()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"header", "header_timeout", "idle_timeout", "key", "path"}
	for in, want := range map[string]string{
		"heder": "header", "headre": "header", "Header": "header", "headers": "header", "headerTimeout": "header_timeout",
		"idel_timeout": "idle_timeout", "keys": "key", "kye": "key", "pth": "path", "a": "", "timeout": "", "kyep": "", "": "",
	} {
		if got := nearest(in, names); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
