package proxy

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
)

// tracing makes the spans of one exchange: one for all of it, and within it
// route, wait, store and upstream. A nil one makes none, and a client's
// traceparent passes as it came.
type tracing struct {
	tracer   trace.Tracer
	span     trace.Span // of the exchange
	ctx      context.Context
	upstream trace.Span // while the upstream has its turn

	enter time.Time // into the gate; zero before, and when its spans are made
}

// w3c reads and writes traceparent and tracestate.
var w3c propagation.TraceContext

func beginTrace(x *exchange) *tracing {
	if x.h.Tracer == nil {
		return nil
	}
	t := &tracing{tracer: x.h.Tracer}
	ctx := w3c.Extract(context.Background(), propagation.HeaderCarrier(x.r.Header))
	t.ctx, t.span = t.tracer.Start(ctx, x.r.Method, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(x.start))
	return t
}

// routed ends the time in which the rule is found.
func (t *tracing) routed(x *exchange) {
	if t != nil {
		t.child(t.ctx, "route", x.start, time.Now())
	}
}

// enters begins the time in the gate.
func (t *tracing) enters() {
	if t != nil {
		t.enter = time.Now()
	}
}

// sends begins the upstream's turn, which gets its span as its parent.
func (t *tracing) sends(x *exchange) {
	if t == nil {
		return
	}
	t.waited(x)
	var ctx context.Context
	ctx, t.upstream = t.tracer.Start(t.ctx, "upstream", trace.WithSpanKind(trace.SpanKindClient))
	w3c.Inject(ctx, propagation.HeaderCarrier(x.r.Header))
}

// waited makes the spans of the gate, where it was asked.
func (t *tracing) waited(x *exchange) {
	if t.enter.IsZero() {
		return
	}
	w := x.ticket.Waited()
	wait := t.child(t.ctx, "wait", t.enter, time.Now(), attribute.Bool("fenceproxy.raised", w.Raised), attribute.Float64("fenceproxy.drained_seconds", w.Drain.Seconds()))
	if w.Raise > 0 {
		// The gate tells how long, not when: a raise comes before the drain.
		t.child(wait, "store", t.enter, t.enter.Add(w.Raise))
	}
	t.enter = time.Time{}
}

// answered ends the upstream's turn.
func (t *tracing) answered() {
	if t != nil && t.upstream != nil {
		t.upstream.End()
		t.upstream = nil
	}
}

// end says what became of the exchange.
func (t *tracing) end(x *exchange) {
	if t == nil {
		return
	}
	t.waited(x)
	t.answered()
	t.span.SetName(x.r.Method + " " + x.ruleName())
	t.span.SetAttributes(
		attribute.String("http.request.method", x.r.Method), attribute.Int("http.response.status_code", x.status),
		attribute.String("fenceproxy.rule", x.ruleName()), attribute.String("fenceproxy.decision", x.decision))
	for i, key := range x.keys {
		if i < len(x.tokens) {
			t.span.SetAttributes(attribute.String("fenceproxy.key", string(key)), attribute.String("fenceproxy.token", x.tokens[i].text))
		}
	}
	if x.lost != "" {
		t.span.SetAttributes(attribute.String("fenceproxy.unsettled", x.lost))
		t.span.SetStatus(codes.Error, "unsettled: "+x.lost)
	} else if x.cause != nil && x.status >= 500 {
		t.span.SetStatus(codes.Error, x.cause.Error())
	}
	t.span.End()
}

// child makes a span that is over.
func (t *tracing) child(parent context.Context, name string, start, end time.Time, a ...attribute.KeyValue) context.Context {
	ctx, span := t.tracer.Start(parent, name, trace.WithTimestamp(start), trace.WithAttributes(a...))
	span.End(trace.WithTimestamp(end))
	return ctx
}

// fields let a log line be found from its trace.
func (t *tracing) fields() []zap.Field {
	if t == nil || !t.span.SpanContext().HasTraceID() {
		return nil
	}
	return []zap.Field{zap.String("trace_id", t.span.SpanContext().TraceID().String())}
}
