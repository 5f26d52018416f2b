package config

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// FuzzValue holds what is true of every value of a setting: nothing panics, what
// is read prints in one form, which reads the same, and nothing has a second
// meaning to a less careful reader.
func FuzzValue(f *testing.F) {
	for _, seed := range []string{
		"0", "64KiB", "1TiB", "9223372036854775807", "8796093022208MiB", "017", "0x1F", "1_000", "1 KiB", "KiB", "0660", "0o660",
		"127.0.0.1:8080", ":80", "[::1]:443", "localhost:0", "unix:/run/a.sock", "unix:/a/../b", "127.1:80", "a:http", "a:65536", "10.0.0.0/8", "10.0.0.1/8", "::ffff:10.0.0.0/104", "fe80::1%eth0",
		"http://127.0.0.1:9000", "https://a/b", "h2c://a:1", "http://u:p@a", "http://a?x", "http://a/%2e", "http://a:", "http:a", "unix:/x", "http://[::1]",
		"${A}", "${A:-x}", "$${A}", "${", "${A:-{x}}", "${B}${EMPTY:-y}", "X-Fencing-Token", "x_fencing_token", "Host", "Content-Length", "18446744073709551615", "18446744073709551616",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := parseSize(text); err == nil {
			if again, err := parseSize(s.String()); err != nil || again != s || s < 0 {
				t.Errorf("the size %q is %d and prints as %s, which is %d (%v)", text, s, s, again, err)
			}
		}
		if n, err := parseDigits(text); err == nil && strconv.FormatUint(n, 10) != text {
			t.Errorf("the number %q is %d", text, n)
		}
		if m, err := parseFileMode(text); err == nil && m.String() != text {
			t.Errorf("the mode %q is %v", text, m)
		}
		if p, err := parseNetwork(text); err == nil {
			again, err := parseNetwork(p.String())
			ip, _ := netip.ParseAddr(text)
			if err != nil || again != p || p.Masked() != p || p.Addr().Is4In6() || ip.IsValid() && !p.Contains(ip.Unmap()) {
				t.Errorf("the network %q is %v, which is %v", text, p, again)
			}
		}
		if a, err := parseAddress(text); err == nil {
			if a.port < 0 || a.port > 65535 || a.unix == "" && !isHost(a.host) || strings.ContainsAny(a.host, " /@\x00") || !a.overlaps(a) && a.port != 0 {
				t.Errorf("the address %q is %+v", text, a)
			}
		}
		if a, err := parseURL(text); err == nil && !strings.HasPrefix(text, "unix:") {
			// Escapes are in the zone of an address alone, and what begins with dots is no dots.
			path := text[strings.LastIndexByte(text, ']')+1:]
			dots := slices.ContainsFunc(strings.Split(path, "/"), func(s string) bool { return s == "." || s == ".." })
			if a.port < 1 || a.host == "" || !isHost(a.host) || strings.ContainsAny(text, "@?# \\") || dots || strings.Contains(path, "%") {
				t.Errorf("the URL %q is %+v", text, a)
			}
		}
		// What a variable holds is never expanded again, and a text without ${ is
		// itself.
		held := env("A", "${B}", "B", "b", "EMPTY", "")
		if got, err := expand(text, held); err == nil {
			if !strings.Contains(text, "${") && got != text {
				t.Errorf("%q expands to %q", text, got)
			}
			if escaped, err := expand(strings.ReplaceAll(text, "${", "$${"), held); err != nil || escaped != text {
				t.Errorf("%q, escaped, expands to %q (%v)", text, escaped, err)
			}
		}
		if message, _ := checkHeader(text, tokenHeader); message == "" && (strings.Trim(strings.ToLower(text), "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || text == "") {
			t.Errorf("%q is taken for the name of a header", text)
		}
	})
}
