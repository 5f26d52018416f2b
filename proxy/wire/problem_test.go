package wire

import (
	"encoding/json"
	"net/http/httptest"
	"testing"
	"time"
)

// The status and the retry advice of every problem, as the contract has them.
func TestKinds(t *testing.T) {
	want := map[Name]struct {
		status    int
		retryable bool
	}{
		PathNotCanonical: {400, false}, PathAlias: {400, false}, HeaderAlias: {400, false}, ConnectionOption: {400, false},
		MethodNotAllowed: {405, false}, UpgradeNotAllowed: {400, false}, WriteNotCovered: {403, false},
		TokenRequired: {428, false}, TokenMalformed: {400, false}, TokenAmbiguous: {400, false}, KeyUnresolvable: {400, false},
		StaleToken: {409, false}, TokenCollision: {409, false},
		Overloaded: {503, true}, DrainTimeout: {503, true}, StoreUnavailable: {503, true}, ShuttingDown: {503, true},
		UpstreamUnreachable: {502, true}, OutcomeUnknown: {502, false},
	}
	if len(want) != len(kinds) {
		t.Errorf("%d problems here, %d there", len(want), len(kinds))
	}
	for name, w := range want {
		p := NewProblem(name, "do this")
		if p.Status != w.status || p.Retryable != w.retryable || p.Name() != name || p.Forwarded != ForwardedNo || p.Title == "" {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func TestWrite(t *testing.T) {
	p := NewProblem(DrainTimeout, "wait")
	p.Key, p.Token, p.Highest, p.RetryAfter = "k", "007", "18446744073709551615", 1500*time.Millisecond
	w := httptest.NewRecorder()
	p.Write(w)
	if w.Code != 503 || w.Header().Get("Retry-After") != "2" || w.Header().Get("Content-Type") != "application/problem+json" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for member, want := range map[string]any{"type": "urn:fenceproxy:problem:drain-timeout", "status": 503.0, "detail": "wait", "key": "k",
		"token": "007", "highest": "18446744073709551615", "retryable": true, "forwarded": "no"} {
		if got[member] != want {
			t.Errorf("%s is %v, want %v", member, got[member], want)
		}
	}
	if _, ok := got["rule"]; ok {
		t.Error("an empty rule is told")
	}
}

// Retry-After is at least a second, and is not sent where it says nothing.
func TestRetryAfter(t *testing.T) {
	for name, want := range map[Name]string{StoreUnavailable: "1", StaleToken: "", UpstreamUnreachable: ""} {
		w := httptest.NewRecorder()
		NewProblem(name, "x").Write(w)
		if got := w.Header().Get("Retry-After"); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
