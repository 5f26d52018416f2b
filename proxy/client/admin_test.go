package client

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

func TestAdminAddress(t *testing.T) {
	for address, ok := range map[string]bool{"127.0.0.1:9901": true, "http://h:1": true, "https://h:1/": true, "": false, "ftp://h:1": false, "http://u:p@h:1": false,
		"http://h:1/v1": false, "http://h:1?x": false, "http://h:1#x": false, "http://": false, "h h:1": false} {
		if _, err := NewAdmin(AdminOptions{Address: address}); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// The token goes to the server that was named, and to no other.
func TestAdminRedirect(t *testing.T) {
	asked := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Error("it sends no token")
		}
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	a, err := NewAdmin(AdminOptions{Address: server.URL, Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Raise(t.Context(), "k", RaiseRequest{Token: "1", Reason: "r"}); err == nil || asked > 0 {
		t.Errorf("%v, the other server was asked %d times", err, asked)
	}
}

// A key has any bytes, and arrives as it is; a refusal is told from an answer of
// somebody else.
func TestAdminAnswers(t *testing.T) {
	const key = "a/../b?c#d%2F é;x"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodDelete:
			if got := strings.TrimPrefix(r.URL.Path, wire.KeysPath+"/"); got != key {
				t.Errorf("the key is %q", got)
			}
			wire.NewRefusal(wire.AdminInUse, "it is in use").Write(w)
		case http.MethodPost:
			_, _ = w.Write([]byte(`{"key":`))
		default:
			http.Error(w, "what?", http.StatusNotFound)
		}
	}))
	defer server.Close()
	a, err := NewAdmin(AdminOptions{Address: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	var refusal *Refusal
	if _, err := a.Forget(t.Context(), key, "r"); !errors.As(err, &refusal) || refusal.Name() != wire.AdminInUse || refusal.Status != 409 {
		t.Errorf("Forget = %v", err)
	}
	if _, err := a.Key(t.Context(), "k", ""); err == nil || errors.As(err, &refusal) || !strings.Contains(err.Error(), "what?") {
		t.Errorf("Key = %v", err)
	}
	if _, err := a.Settle(t.Context(), "k", "r"); err == nil || !strings.Contains(err.Error(), "not read whole") {
		t.Errorf("Settle = %v", err)
	}
}
