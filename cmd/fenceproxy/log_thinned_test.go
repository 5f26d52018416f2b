package main

import (
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// A flood of one line is thinned out and leaves the others alone, for as long as
// the level is not debug, which a reload may change.
func TestThinned(t *testing.T) {
	level := zap.NewAtomicLevelAt(zapcore.InfoLevel)
	core, logs := observer.New(level)
	log := zap.New(newThinned(core)).With(zap.String("why", "test"))
	const flood = 250 // also where a second ends in the midst of it
	write := func() (access, request int) {
		for range flood {
			log.Info("access")
		}
		log.Info("request")
		defer logs.TakeAll()
		return logs.FilterMessage("access").Len(), logs.FilterMessage("request").Len()
	}
	if access, request := write(); access < 100 || access >= flood || request != 1 {
		t.Errorf("of %d lines %d were written, and %d of another", flood, access, request)
	}
	level.SetLevel(zapcore.DebugLevel)
	if access, request := write(); access != flood || request != 1 {
		t.Errorf("at level debug: of %d lines %d were written, and %d of another", flood, access, request)
	}
	level.SetLevel(zapcore.InfoLevel)
	if access, _ := write(); access >= flood {
		t.Error("at level info again: all lines were written")
	}
}
