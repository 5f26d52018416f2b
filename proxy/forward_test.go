package proxy

import (
	"crypto/tls"
	"net/http"
	"testing"
)

func TestScheme(t *testing.T) {
	if got := scheme(&http.Request{}); got != "http" {
		t.Errorf("in clear text: %s", got)
	}
	if got := scheme(&http.Request{TLS: &tls.ConnectionState{}}); got != "https" {
		t.Errorf("over TLS: %s", got)
	}
}
