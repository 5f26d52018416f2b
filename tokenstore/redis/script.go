package redis

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

//go:embed lua
var lua embed.FS

// The scripts. Those that are needed to get out of it run where Redis is out
// of memory too. All are scripts that write, by their first line, also where
// they only read: Redis refuses those as a whole, before they begin, on a
// replica and where it cannot persist or replicate as it is told to.
var (
	beginScript      = script("begin", "")
	keepAliveScript  = script("keepalive", " flags=allow-oom")
	endScript        = script("end", " flags=allow-oom")
	sessionsScript   = script("sessions", " flags=allow-oom")
	acquireScript    = script("acquire", "")
	deleteScript     = script("delete", " flags=allow-oom")
	lookScript       = script("look", " flags=allow-oom")
	entriesScript    = script("entries", " flags=allow-oom")
	rememberedScript = script("remembered", " flags=allow-oom")
	rememberScript   = script("remember", "")
	keysScript       = script("keys", " flags=allow-oom")
	importScript     = script("import", "")
	forgetScript     = script("forget", " flags=allow-oom")
)

func script(name, flags string) *redis.Script {
	read := func(name string) string {
		b, err := lua.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // it is part of the binary
		}
		return string(b)
	}
	return redis.NewScript("#!lua" + flags + "\n" + read("prelude") + read(name))
}

var (
	errLost = fmt.Errorf("%w: Redis has lost acquires of it that were acknowledged (a failover, or a crash of a Redis that does not sync each write)",
		session.ErrSessionOver)
	errForeign = errors.New("this Redis does not hold the store that was opened: it came back empty, or it is another one; " +
		"restore its data, or, if all proxies are stopped and no old write is in flight, make a new store with fenceproxy store init")
	errShape = errors.New("an answer of Redis cannot be read")
)

// answer is what a script returned: a word, and what belongs to it.
type answer struct {
	word string
	rest []any
}

// run calls a script. go-redis sends it once, or, where the server answered
// that it does not know the script and so did nothing, once more in full. It
// looks at the deadline of ctx alone, so the call goes on behind the caller
// where ctx ends before that; its result is then not known.
func (b *Backend) run(ctx context.Context, c *redis.Client, s *redis.Script, args ...any) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, context.Cause(ctx)
	}
	type result struct {
		val any
		err error
	}
	done := make(chan result, 1)
	args = append([]any{b.marker}, args...)
	b.calls.Go(func() {
		val, err := s.Run(ctx, c, []string{b.prefix}, args...).Result()
		done <- result{val, err}
	})
	var r result
	select {
	case r = <-done:
	case <-ctx.Done():
		return answer{}, context.Cause(ctx)
	}
	if r.err != nil {
		return answer{}, r.err
	}
	list, ok := r.val.([]any)
	if !ok || len(list) == 0 {
		return answer{}, errShape
	}
	a := answer{rest: list[1:]}
	a.word, _ = list[0].(string)
	switch a.word {
	case "over":
		return a, session.ErrSessionOver
	case "lost":
		b.log.Error("Redis has lost acquires that were acknowledged: writes with lower tokens may have passed since; the session ends, and what it has in flight is cut")
		return a, errLost
	case "foreign":
		return a, errForeign
	}
	return a, nil
}

// ok runs a script that has nothing to tell but its result.
func (b *Backend) ok(ctx context.Context, c *redis.Client, s *redis.Script, args ...any) (answer, error) {
	a, err := b.run(ctx, c, s, args...)
	if err == nil && a.word != "ok" {
		err = fmt.Errorf("%w: %q", errShape, a.word)
	}
	return a, err
}

// text, number and list read one part of an answer.
func (a answer) text(i int) (string, error) { return part[string](a.rest, i) }

func (a answer) number(i int) (int64, error) { return part[int64](a.rest, i) }

func (a answer) list(i int) ([]any, error) { return part[[]any](a.rest, i) }

func part[T any](from []any, i int) (v T, err error) {
	if i < len(from) {
		if v, ok := from[i].(T); ok {
			return v, nil
		}
	}
	return v, errShape
}

// texts reads a list of strings, in groups of n.
func (a answer) texts(i, n int) ([]string, error) {
	list, err := a.list(i)
	if err != nil || len(list)%n != 0 {
		return nil, errShape
	}
	texts := make([]string, len(list))
	for j := range list {
		if texts[j], err = part[string](list, j); err != nil {
			return nil, err
		}
	}
	return texts, nil
}
