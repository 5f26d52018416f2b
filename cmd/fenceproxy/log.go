package main

import (
	"bytes"
	"os"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"

	"github.com/fenceproxy/fenceproxy/config"
	"github.com/fenceproxy/fenceproxy/proxy/admin"
)

// standardError is where the log goes, and the audit where it has no file: by
// one writer, so that neither goes on in a line of the other's that was cut.
var standardError = &logQueue{out: admin.NewLines(os.Stderr), notice: func(int) []byte { return nil }}

// newLog writes to standard error: for people on a terminal, as JSON
// elsewhere. The level may be changed later.
func newLog(c config.Log) (*zap.Logger, zap.AtomicLevel) {
	level := zap.NewAtomicLevelAt(logLevel(c))
	enc := zap.NewProductionEncoderConfig()
	enc.TimeKey, enc.EncodeTime, enc.EncodeDuration = "time", zapcore.RFC3339NanoTimeEncoder, zapcore.StringDurationEncoder
	var encoder zapcore.Encoder
	if c.Format == config.LogConsole || c.Format == config.LogAuto && term.IsTerminal(int(os.Stderr.Fd())) {
		enc.EncodeTime, enc.EncodeLevel = zapcore.TimeEncoderOfLayout("15:04:05.000"), zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(enc)
	} else {
		encoder = zapcore.NewJSONEncoder(enc)
	}
	standardError.tellBy(func(dropped int) []byte { return noticeOf(encoder, dropped) })
	return zap.New(newThinned(zapcore.NewCore(encoder, zapcore.AddSync(standardError), level))), level
}

// thinned writes the same line at most 100 times a second, and of more every
// hundredth: a client that floods the proxy with stale writes does not flood the
// log. Lines of the access log are another line than those of refusals, which
// they would crowd out. At level debug, which a reload may set, all are written.
type thinned struct {
	zapcore.Core
	thin zapcore.Core
}

func newThinned(core zapcore.Core) zapcore.Core {
	return thinned{core, zapcore.NewSamplerWithOptions(core, time.Second, 100, 100)}
}

func (t thinned) With(fields []zapcore.Field) zapcore.Core {
	return thinned{t.Core.With(fields), t.thin.With(fields)}
}

func (t thinned) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if t.Enabled(zapcore.DebugLevel) {
		return t.Core.Check(e, to)
	}
	return t.thin.Check(e, to)
}

// noticeOf is the line that tells of lines that were dropped.
func noticeOf(encoder zapcore.Encoder, dropped int) []byte {
	line, err := encoder.EncodeEntry(zapcore.Entry{Level: zapcore.WarnLevel, Time: time.Now(),
		Message: "lines of the log were dropped, since nobody reads them, or not fast enough; the proxy does not wait for that"}, []zap.Field{zap.Int("dropped", dropped)})
	if err != nil {
		return nil
	}
	defer line.Free()
	return bytes.Clone(line.Bytes())
}

func logLevel(c config.Log) zapcore.Level {
	level, err := zapcore.ParseLevel(string(c.Level))
	if err != nil { // config lets only levels through that zap has
		return zapcore.InfoLevel
	}
	return level
}
