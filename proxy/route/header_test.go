package route

import (
	"net/http"
	"slices"
	"testing"
)

func TestOverrides(t *testing.T) {
	table := mustNew(t, accounts()...)
	for _, header := range []string{
		"X-HTTP-Method-Override: PUT", "x-http-method-override: PUT", "X_HTTP_Method_Override: PUT",
		"X.Http.Method: PUT", "X-HTTP-Method: ", "X-Method-Override: GET", "X-METHOD_OVERRIDE: PUT",
	} {
		for _, r := range []*http.Request{byHand("GET", "/accounts/42", header), parsed("GET", "/accounts/42", header)} {
			if m, err := table.Match(r); err != nil || !m.Write || !m.Override || m.Rule != 0 {
				t.Errorf("%s: got %+v, %v", header, m, err)
			}
		}
	}
	for query, want := range map[string]bool{
		"_method=PUT": true, "x=1&_method=PUT": true, "x;_method=PUT": true, "_method": true, "%5Fmethod=PUT": true,
		"%255fmethod=PUT": true, "_METHOD=put": true, "_method[]=put": true, "+_method=put": true, ".method=put": true,
		"%zz&_method=x": true, "?_method=x": true, "_method%00x=put": true,
		"": false, "method=PUT": false, "x=_method": false, "my_method=PUT": false, "_methods=PUT": false,
	} {
		m, err := table.Match(byHand("GET", "/accounts/42?"+query))
		if err != nil || m.Override != want || m.Write != want {
			t.Errorf("query %q: override is %v (%v), want %v", query, m.Override, err, want)
		}
	}
}

func TestHeaderAliases(t *testing.T) {
	table := mustNew(t, append(accounts(), Rule{Name: "own", Paths: []string{"/own"}, Keys: keyed("own"), Headers: []string{"X_Own.Token"}})...)
	for header, want := range map[string]string{
		"X-Fencing-Token: 1": "account:42", "x-fencing-token: 1": "account:42", "X-Own: 1": "account:42",
		"Some_other.header: 1": "account:42", "X-Fencing-Tokens: 1": "account:42", "X_own.token: 1": "account:42",
		"X_Fencing_Token: 1": "header-alias", "x-fencing_token: 1": "header-alias", "X.FENCING-TOKEN: 1": "header-alias",
		"X_To: 1": "header-alias", "X-Own-Token: 1": "header-alias",
	} {
		if got, detail := result(t, table, parsed("PUT", "/accounts/42", header)); got != want {
			t.Errorf("%s: got %s (%s), want %s", header, got, detail, want)
		}
	}
}

func TestConnection(t *testing.T) {
	table := mustNew(t, accounts()...)
	for value, want := range map[string]string{
		"close": "account:42", "keep-alive, te": "account:42", "X-Other": "account:42", "content": "account:42",
		"x-fencing-token": "connection-option", "close,X-Fencing-Token": "connection-option", "close ,\tX_Fencing.Token ,": "connection-option",
		"X-To": "connection-option", "host": "connection-option", "Content-Length": "connection-option",
		"content-type": "connection-option", "Content_Encoding": "connection-option",
	} {
		if got, detail := result(t, table, parsed("PUT", "/accounts/42", "Connection: "+value)); got != want {
			t.Errorf("Connection: %s: got %s (%s), want %s", value, got, detail, want)
		}
		if got, _ := result(t, table, parsed("PUT", "/accounts/42", "Connection: close", "Connection: "+value)); got != want {
			t.Errorf("Connection: %s on the second line: got %s, want %s", value, got, want)
		}
	}
}

func TestClean(t *testing.T) {
	h := http.Header{}
	for _, name := range []string{"X-Original-URL", "X_Rewrite_URL", "X.original-url", "HTTP2-Settings", "X-Kept_One", "X-Http-Method", "X-Fencing-Token"} {
		h.Set(name, "v")
	}
	Clean(h)
	var left []string
	for name := range h {
		left = append(left, name)
	}
	slices.Sort(left)
	if want := []string{"X-Fencing-Token", "X-Http-Method", "X-Kept_one"}; !slices.Equal(left, want) {
		t.Fatalf("left are %q, want %q", left, want)
	}
}

func TestDropTrailer(t *testing.T) {
	table := mustNew(t, accounts()...)
	for name, want := range map[string]bool{
		"X-Fencing-Token": true, "x_fencing.token": true, "X-To": true, "X-Original-URL": true, "X_Rewrite_Url": true,
		"X-HTTP-Method-Override": true, "Grpc-Status": false, "X-Checksum": false, "": false,
	} {
		if got := table.DropTrailer(name); got != want {
			t.Errorf("DropTrailer(%q) = %v, want %v", name, got, want)
		}
	}
}

// A key is made only of what reaches the upstream as the client sent it.
func TestNoKeyOfWhatIsWrittenAnew(t *testing.T) {
	for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded", "Expect", "Content-Length", "Proxy-Thing", "Upgrade", "TE"} {
		_, err := New([]Rule{{Name: "a", Paths: []string{"/a"}, Keys: []KeySpec{{Key: "k:{header." + name + "}", Header: "X-Fencing-Token"}}}}, Options{})
		if err == nil {
			t.Errorf("{header.%s} is taken for a key", name)
		}
	}
}
