package proxy

import (
	"errors"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/fenceproxy/fenceproxy/proxy/upstream"
)

// maxRequestID is how much of a client's X-Request-Id is logged, in bytes.
const maxRequestID = 128

// aWait is from where on a wait for older writes is worth a line of its own: in a
// shared store even the look whether there are any takes some microseconds.
const aWait = time.Millisecond

// log writes the exchange's line: at info where it was refused, waited for
// older writes, or would have been; at warn where it is unsettled; the rest at
// debug, or at info with the access log. Those of the access log alone have a
// word of their own, so that they can be thinned out without the others.
func (x *exchange) log() {
	level, what := x.logLevel(), "request"
	if level == zapcore.DebugLevel && x.book.AccessLog {
		level, what = zapcore.InfoLevel, "access"
	}
	entry := x.h.Log.Check(level, what)
	if entry == nil {
		return
	}
	fields := []zap.Field{
		zap.String("method", x.r.Method), zap.String("target", x.r.RequestURI), zap.String("peer", x.r.RemoteAddr),
		zap.String("rule", x.ruleName()), zap.String("decision", x.decision),
		zap.Int("status", x.status), zap.Duration("duration", time.Since(x.start)),
	}
	fields = append(fields, x.logKeys()...)
	if x.highest != "" {
		fields = append(fields, zap.String("highest", x.highest))
	}
	if x.cause != nil || x.lost != "" {
		fields = append(fields, zap.String("phase", x.phase()))
	}
	if w := x.ticket.Waited(); w.Total > 0 {
		fields = append(fields, zap.Duration("waited", w.Total))
		if w.Drain > 0 {
			fields = append(fields, zap.Duration("drained", w.Drain))
		}
	}
	if x.lost != "" {
		fields = append(fields, zap.String("unsettled", x.lost))
	}
	if x.seen.cause != nil {
		fields = append(fields, zap.NamedError("would_reject", x.seen.cause))
	}
	if x.cause != nil {
		fields = append(fields, zap.Error(x.cause))
	}
	if id := x.r.Header.Get("X-Request-Id"); id != "" {
		fields = append(fields, zap.String("request_id", id[:min(len(id), maxRequestID)]))
	}
	entry.Write(append(fields, x.trace.fields()...)...)
}

func (x *exchange) logLevel() zapcore.Level {
	switch {
	case x.lost == string(upstream.ReasonEnded): // no websocket ends better
		return zapcore.InfoLevel
	case x.lost != "":
		return zapcore.WarnLevel // its key is held up until the settle time is over
	case x.decision == decisionLeft:
		return zapcore.DebugLevel
	case x.cause != nil || x.seen.refusal != nil || x.seen.waits || x.ticket.Waited().Drain >= aWait:
		return zapcore.InfoLevel
	}
	return zapcore.DebugLevel
}

// phase is how far the request came: the checks, the wait in the gate, the
// upload, the upstream.
func (x *exchange) phase() string {
	switch {
	case errors.Is(x.cause, upstream.ErrCut) || x.lost == string(upstream.ReasonClientUpload):
		return "upload"
	case x.holds || x.away:
		return "upstream"
	case x.ticket.Waited().Total > 0:
		return "wait"
	}
	return "check"
}

// logKeys is what the log says of keys and tokens: a pair, or a list of each.
func (x *exchange) logKeys() []zap.Field {
	switch len(x.keys) {
	case 0:
		return nil
	case 1:
		return []zap.Field{zap.String("key", string(x.keys[0])), zap.String("token", x.tokens[0].text)}
	}
	keys, tokens := make([]string, len(x.keys)), make([]string, len(x.keys))
	for i, key := range x.keys {
		keys[i], tokens[i] = string(key), x.tokens[i].text
	}
	return []zap.Field{zap.Strings("keys", keys), zap.Strings("tokens", tokens)}
}
