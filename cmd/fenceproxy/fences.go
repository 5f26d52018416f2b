package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"go.uber.org/zap"
)

// fences stands for which writes are fenced. Where it is not the same for two
// configurations, some write may be fenced under one that is not under the
// other, or on other keys.
func (p *planned) fences() string {
	type fence struct {
		Fenced  bool
		Paths   string
		Methods string
	}
	all := map[string]fence{} // the order of rules does not count
	for i, rr := range p.routes {
		all[rr.Name] = fence{p.rules[i].Fenced, strings.Join(rr.Paths, " "), strings.Join(rr.Methods, " ")}
	}
	b, err := json.Marshal(all)
	if err != nil {
		panic(err) // there is nothing in it that JSON cannot say
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// leavesUnfenced reports whether writes that no fence touches, and that were cut
// or lost from sight, may still be applied behind the stop. What was cut just now
// needs a moment to say how it ended.
func (s *service) leavesUnfenced() bool {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	return s.handler.AwaitUnfenced(ctx) != nil
}

// leaveUnfenced takes leave of them: a start that fences the same writes need
// not know of them, another one has to wait.
func (s *service) leaveUnfenced() {
	settle := zap.Duration("settle", longestSettle(s.reload.cfg))
	if s.store.leaveUnfenced == nil {
		s.log.Warn("stopped, everything fenced is settled; writes that no rule fences may still be applied, and this store does not remember them: start with rules that fence them only when settle is over", settle)
		return
	}
	s.store.leaveUnfenced()
	s.log.Info("stopped, everything fenced is settled; writes that no rule fences may still be applied: a start with rules that fence others waits for them", settle)
}
