package main

import (
	"context"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/config"
)

// tracesPath is where a collector takes traces, unless its URL says otherwise.
const tracesPath = "/v1/traces"

// flushTimeout is how long a stop waits for the last spans.
const flushTimeout = 2 * time.Second

// startTracing begins to send spans where the configuration asks for it; the
// tracer is nil otherwise. A collector that does not answer costs spans, and
// never a request. stop sends what is left.
func startTracing(cfg config.Tracing, log *zap.Logger) (_ trace.Tracer, stop func(), err error) {
	if cfg.OTLPEndpoint == "" {
		return nil, func() {}, nil
	}
	at, err := url.Parse(cfg.OTLPEndpoint)
	if err != nil { // config has looked at it
		return nil, nil, err
	}
	if strings.Trim(at.Path, "/") == "" {
		at.Path = tracesPath
	}
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(at.String()))
	if err != nil {
		return nil, nil, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces cannot be sent", zap.Error(err)) }))
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(float64(cfg.SamplePercent)/100))),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "fenceproxy"), attribute.String("service.version", version()))),
	)
	return provider.Tracer("github.com/fenceproxy/fenceproxy/proxy"), func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.Warn("the last traces were not sent", zap.Error(err))
		}
	}, nil
}
