package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/config"
)

// Spans arrive at a collector, over OTLP and HTTP, when the proxy stops at the
// latest.
func TestTracesArrive(t *testing.T) {
	for _, path := range []string{"", "/", "/other/traces"} {
		got := make(chan string, 1)
		collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if r.Header.Get("Content-Type") == "application/x-protobuf" && len(body) > 0 {
				got <- r.URL.Path
			}
		}))
		defer collector.Close()
		tracer, stop, err := startTracing(config.Tracing{OTLPEndpoint: collector.URL + path, SamplePercent: 100}, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		_, span := tracer.Start(t.Context(), "PUT accounts")
		span.End()
		stop()
		want := path
		if len(path) < 2 {
			want = "/v1/traces"
		}
		select {
		case at := <-got:
			if at != want {
				t.Errorf("%q: the spans went to %s, want %s", path, at, want)
			}
		default:
			t.Errorf("%q: no span arrived", path)
		}
	}
}

func TestNoTracesWithoutEndpoint(t *testing.T) {
	tracer, stop, err := startTracing(config.Tracing{SamplePercent: 100}, zap.NewNop())
	if tracer != nil || err != nil {
		t.Errorf("%v, %v", tracer, err)
	}
	stop()
}
