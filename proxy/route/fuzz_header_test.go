package route

import (
	"errors"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// foldPlainly is what CGI makes of a header's name.
func foldPlainly(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789", r) {
			return r
		}
		return '-'
	}, strings.ToLower(name))
}

// FuzzHeaders: whatever name a header has, it is an alias, an override, a rewrite
// header or one to be dropped from trailers exactly when its folded name is that.
func FuzzHeaders(f *testing.F) {
	for _, seed := range []string{
		"X-Fencing-Token", "X_Fencing_Token", "x.fencing-token", "X-To", "X_TO", "X-HTTP-Method-Override", "X_Http_Method", "x-method.override", "X-Original-URL",
		"X_Rewrite_Url", "Http2-Settings", "HTTP2_SETTINGS", "Upgrade", "Up_grade", "Connection", "X!Fencing#Token", "X-Fencing-Toke\u0130",
	} {
		f.Add(seed)
	}
	table := mustNew(f, accounts()...)
	overrides := []string{"x-http-method-override", "x-http-method", "x-method-override"}
	dropped := []string{"x-original-url", "x-rewrite-url", "http2-settings"}
	protected := []string{"x-fencing-token", "x-to"}
	f.Fuzz(func(t *testing.T, name string) {
		if !isToken(name) {
			return // net/http refuses it
		}
		folded, spelt := foldPlainly(name), http.CanonicalHeaderKey(name)
		r := byHand("PUT", "/accounts/42", spelt+": 9")
		m, err := table.Match(r)
		var refusal *Refusal
		errors.As(err, &refusal)
		alias := slices.Contains(protected, folded) && strings.ToLower(spelt) != folded
		if (refusal != nil && refusal.Kind == HeaderAlias) != alias {
			t.Errorf("the header %q is an alias: %v, and the answer is %v", spelt, alias, err)
		}
		if refusal == nil && m.Override != slices.Contains(overrides, folded) {
			t.Errorf("the header %q is an override: %v", spelt, m.Override)
		}
		h := http.Header{spelt: {"9"}, "Other": {"1"}}
		Clean(h)
		if gone := slices.Contains(dropped, folded); len(h[spelt]) > 0 == gone || h["Other"] == nil && spelt != "Other" {
			t.Errorf("with the header %q there is left: %v", spelt, slices.Collect(maps.Keys(h)))
		}
		known := slices.Contains(slices.Concat(overrides, dropped, protected, []string{"upgrade"}), folded)
		if table.DropTrailer(name) != known {
			t.Errorf("the trailer %q is dropped: %v", name, !known)
		}
		// As a name in Connection it is refused in every letter case.
		named := byHand("PUT", "/accounts/42", "Connection: close, "+name)
		_, err = table.Match(named)
		errors.As(err, &refusal)
		hop := slices.Contains(protected, folded) || folded == "host" || strings.HasPrefix(folded, "content-") && len(folded) > len("content-")
		if hop != (err != nil) {
			t.Errorf("Connection: %q: %v", name, err)
		}
	})
}

// FuzzQuery: a field has a value only where every parser finds the same one, and
// a method in any spelling is seen.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{"id=1", "id=1&id=2", "ID=1&id=2", "id[]=1", "id=%31", "id=a+b", "id=a;b=c", "id=%zz", "i%64=x", "_method=PUT", "%5Fmethod=x", "%255fmethod=x", "a=1;_method=x", "?_method", "id", "&&id=&", "id%00=1&id=2", " id=1", ".id=1", "id=1" + strings.Repeat("&", 10_000)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		fields, err := parseFields(query)
		if value, why := queryValue(query, "id", nil); why == "" {
			if err != nil || len(fields["id"]) != 1 || fields["id"][0] != value {
				t.Errorf("%q has the id %q, and %q to ParseQuery (%v)", query, value, fields["id"], err)
			}
			for name := range fields {
				if name != "id" && strings.Trim(strings.ToLower(name), " []\t") == "id" {
					t.Errorf("%q has an id and %q", query, name)
				}
			}
		}
		for name := range fields {
			if strings.EqualFold(strings.TrimSpace(name), "_method") && !hasMethodField(query) {
				t.Errorf("the method in %q is not seen", query)
			}
		}
	})
}

// parseFields is url.ParseQuery for more than the 10,000 fields that it takes.
func parseFields(query string) (url.Values, error) {
	all, errs := url.Values{}, []error(nil)
	for pair := range strings.SplitSeq(query, "&") {
		fields, err := url.ParseQuery(pair)
		errs = append(errs, err)
		for name, values := range fields {
			all[name] = append(all[name], values...)
		}
	}
	return all, errors.Join(errs...)
}

// FuzzHost: a host has one spelling, whatever its letter case, port or last dot.
func FuzzHost(f *testing.F) {
	for _, seed := range []string{"Example.com", "example.com.:80", "[::1]:443", "[0:0::1]", "a:080", "a..b", ".a", "a_b", "\u0130", "a%41", "a:", "[::ffff:1.2.3.4]", "[fe80::1%25en0]", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, host string) {
		value, why := hostValue(&http.Request{Host: host})
		if why != "" {
			return
		}
		if strings.ToLower(value) != value || strings.HasSuffix(value, ".") || strings.Contains(strings.Trim(value, "[]"), ":") != strings.HasPrefix(value, "[") {
			t.Fatalf("%q is the host %q", host, value)
		}
		if ip, err := netip.ParseAddr(strings.Trim(value, "[]")); err == nil && value[0] == '[' && "["+ip.String()+"]" != value {
			t.Fatalf("%q is the host %q", host, value)
		}
		for _, other := range []string{value, strings.ToUpper(value), value + ":80"} {
			if again, why := hostValue(&http.Request{Host: other}); again != value || why != "" {
				t.Fatalf("%q is the host %q, and %q is %q (%s)", host, value, other, again, why)
			}
		}
	})
}
