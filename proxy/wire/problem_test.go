package wire

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// The status and the retry advice of every problem, as the contract has them.
func TestKinds(t *testing.T) {
	const invalid, precondition, denied, unavailable = 3, 9, 7, 14
	want := map[Name]struct {
		status    int
		retryable bool
		grpc      grpcStatus
	}{
		PathNotCanonical: {400, false, invalid}, PathAlias: {400, false, invalid}, HeaderAlias: {400, false, invalid}, ConnectionOption: {400, false, invalid},
		MethodNotAllowed: {405, false, invalid}, UpgradeNotAllowed: {400, false, invalid}, WriteNotCovered: {403, false, denied},
		TokenRequired: {428, false, precondition}, TokenMalformed: {400, false, invalid}, TokenAmbiguous: {400, false, invalid}, KeyUnresolvable: {400, false, invalid},
		StaleToken: {409, false, precondition}, TokenCollision: {409, false, precondition},
		Overloaded: {503, true, unavailable}, TooManyKeys: {503, true, unavailable}, DrainTimeout: {503, true, unavailable}, StoreUnavailable: {503, true, unavailable}, ShuttingDown: {503, true, unavailable},
		BodyTooLarge: {413, false, 8}, TokenImplausible: {403, false, denied},
		UpstreamUnreachable: {502, true, unavailable}, OutcomeUnknown: {502, false, 2},
		Unauthorized: {401, false, 16}, LeaseMalformed: {400, false, invalid}, KeyNotCovered: {400, false, invalid},
		LeaseHeld: {409, true, precondition}, LeaseLost: {409, false, precondition}, LeaseFree: {404, false, 5}, TokensUsedUp: {409, false, precondition},
	}
	if len(want) != len(kinds) {
		t.Errorf("%d problems here, %d there", len(want), len(kinds))
	}
	for name, w := range want {
		p := NewProblem(name, "do this")
		if p.Status != w.status || p.Retryable != w.retryable || p.Name() != name || kinds[name].grpc != w.grpc || p.Forwarded != ForwardedNo || p.Title == "" {
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

// Retry-After is at least a second, and is not sent where it says nothing. A
// lease that is held tells when it would run out.
func TestRetryAfter(t *testing.T) {
	for name, want := range map[Name]string{StoreUnavailable: "1", StaleToken: "", UpstreamUnreachable: ""} {
		w := httptest.NewRecorder()
		NewProblem(name, "x").Write(w)
		if got := w.Header().Get("Retry-After"); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	held, w := NewProblem(LeaseHeld, "x"), httptest.NewRecorder()
	held.RetryAfter = 1100 * time.Millisecond
	held.Write(w)
	if got := w.Header().Get("Retry-After"); got != "2" {
		t.Errorf("%s: %q", LeaseHeld, got)
	}
}

func TestGRPC(t *testing.T) {
	w := httptest.NewRecorder()
	NewProblem(StaleToken, "100 % over\n\u00e9").WriteGRPC(w)
	h := w.Header()
	if w.Code != 200 || h.Get("Content-Type") != "application/grpc" || h.Get("Grpc-Status") != "9" || w.Body.Len() != 0 ||
		h.Get("Grpc-Message") != "The fencing token is stale: 100 %25 over%0A%C3%A9" {
		t.Errorf("%d %v %s", w.Code, h, w.Body)
	}
	for ct, want := range map[string]bool{"application/grpc": true, "application/grpc+proto": true, "Application/gRPC; x=1": true,
		"application/grpc-web": false, "application/json": false, "": false} {
		if got := IsGRPC(http.Header{"Content-Type": {ct}}); got != want {
			t.Errorf("%q: %v", ct, got)
		}
	}
}
