package session_test

import (
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// What an operator of several proxies has to see is told once, by the proxy that
// knows it: a session that is lost, a wait for another proxy, and linger, from its
// beginning to its end.
func TestLogLines(t *testing.T) {
	inTime(t, func(r *rig) {
		into := func(logs **observer.ObservedLogs) func(*session.Options) {
			return func(o *session.Options) {
				var core zapcore.Core
				core, *logs = observer.New(zapcore.InfoLevel)
				o.Logger = zap.New(core)
			}
		}
		var atA, atB *observer.ObservedLogs
		a, b := r.proxy("RA", into(&atA)), r.proxy("RB", into(&atB))
		w1 := a.ask("w1", 1).mustBeAdmitted(0)
		w1.send()
		a.port.Cut(true)
		b.ask("w2", 2).mustBeAdmitted(ttl + settle + margin).send()
		once := func(logs *observer.ObservedLogs, message string, fields ...string) {
			t.Helper()
			lines := logs.FilterMessage(message).All()
			if len(lines) != 1 {
				t.Errorf("%d lines say %q: %v", len(lines), message, logs.All())
				return
			}
			for _, name := range fields {
				if lines[0].ContextMap()[name] == nil {
					t.Errorf("%q has no %s: %v", message, name, lines[0].ContextMap())
				}
			}
		}
		once(atA, "session begun", "session")
		once(atA, "session lost: what is in flight is cut, and nothing fenced is sent until there is a new one", "session")
		once(atB, "waiting for older writes at other proxies", "key", "token", "sessions")
		once(atB, "the session of another proxy is gone; its entries are removed when linger is over", "session", "linger")
		once(atB, "linger is over: the entries of a session that is gone are removed", "session", "entries")
	})
}
