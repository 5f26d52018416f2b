package proxy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

const clientTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// A traced write has a span, with route, wait, store and upstream in it, under
// the client's; the upstream gets the upstream span as its parent.
func TestSpans(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	r := newRig(t, func(o *Options, _ []Rule) {
		o.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("")
	})
	first := r.dial().put("1", "")
	older := r.next()
	c := r.dial().send("PUT /accounts/42 HTTP/1.1\nHost: a\nX-Fencing-Token: 2\nTraceparent: " + clientTrace + "\nContent-Length: 0\n\n")
	r.eventually("it waits", func() bool { return r.gate.Counts().Waiting == 1 })
	r.nothing("it waits")
	older.answer()
	first.receive()
	at := r.next()
	at.answer()
	if res := c.receive(); res.StatusCode != 200 {
		t.Fatal(res.Status)
	}
	named := map[string]sdktrace.ReadOnlySpan{}
	r.eventually("the spans have ended", func() bool {
		for _, s := range spans.Ended() {
			if s.SpanContext().TraceID().String() == strings.Split(clientTrace, "-")[1] {
				named[s.Name()] = s
			}
		}
		return len(named) == 5
	})
	whole := named["PUT accounts"]
	if whole.Parent().SpanID().String() != strings.Split(clientTrace, "-")[2] {
		t.Errorf("the parent is %v, want the client's span", whole.Parent().SpanID())
	}
	for name, parent := range map[string]string{"route": "PUT accounts", "wait": "PUT accounts", "store": "wait", "upstream": "PUT accounts"} {
		s := named[name]
		if s == nil || s.Parent().SpanID() != named[parent].SpanContext().SpanID() {
			t.Fatalf("span %s: %v", name, s)
		}
		if s.StartTime().Before(whole.StartTime()) || s.EndTime().After(whole.EndTime()) {
			t.Errorf("span %s is not within the whole", name)
		}
	}
	if d := named["wait"].EndTime().Sub(named["wait"].StartTime()); d < 90*time.Millisecond {
		t.Errorf("it waited for %v", d)
	}
	if got, want := at.r.Header.Get("Traceparent"), "00-0af7651916cd43dd8448eb211c80319c-"+named["upstream"].SpanContext().SpanID().String()+"-01"; got != want {
		t.Errorf("the upstream got %s, want %s", got, want)
	}
	for _, want := range []attribute.KeyValue{attribute.String("fenceproxy.key", "account:42"), attribute.String("fenceproxy.token", "2"),
		attribute.String("fenceproxy.decision", "admitted"), attribute.Int("http.response.status_code", 200)} {
		if !slices.Contains(whole.Attributes(), want) {
			t.Errorf("no %v in %v", want, whole.Attributes())
		}
	}
}

// Refusals have a span, without a turn of the upstream's.
func TestSpanOfARefusal(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	r := newRig(t, func(o *Options, _ []Rule) {
		o.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("")
	})
	r.raised("account:42", 7)
	r.dial().put("6", "").receive()
	r.eventually("the spans have ended", func() bool { return len(spans.Ended()) == 2 })
	for _, s := range spans.Ended() {
		if s.Name() != "route" && !slices.Contains(s.Attributes(), attribute.String("fenceproxy.decision", "stale-token")) {
			t.Errorf("%s: %v", s.Name(), s.Attributes())
		}
	}
}

// Without a tracer a client's trace passes as it came.
func TestNoSpans(t *testing.T) {
	r := newRig(t, nil)
	c := r.dial().send("PUT /accounts/42 HTTP/1.1\nHost: a\nX-Fencing-Token: 2\nTraceparent: " + clientTrace + "\nContent-Length: 0\n\n")
	at := r.next()
	if got := at.r.Header.Get("Traceparent"); got != clientTrace {
		t.Errorf("the upstream got %q", got)
	}
	at.answer()
	c.receive()
}
