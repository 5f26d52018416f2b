package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/config"
	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
	"github.com/fenceproxy/fenceproxy/tokenstore/embedded"
	"github.com/fenceproxy/fenceproxy/tokenstore/etcd/etcdtest"
	"github.com/fenceproxy/fenceproxy/tokenstore/postgres/postgrestest"
	"github.com/fenceproxy/fenceproxy/tokenstore/redis/redistest"
	"github.com/fenceproxy/fenceproxy/tokenstore/servertest"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// The dump goes from an embedded store to a real engine and back; the engines'
// place is new for each test.
func movedOver(t *testing.T) map[string]func() string {
	return map[string]func() string{
		"etcd": func() string {
			s, err := etcdtest.New()
			if err != nil {
				t.Fatal(err)
			}
			s.CloseAfter(t)
			return s.Setting(s.Address())
		},
		"postgres": func() string {
			s, err := postgrestest.New()
			if err != nil {
				t.Fatal(err)
			}
			s.CloseAfter(t)
			return s.Setting(s.Address())
		},
		"redis": func() string { return startRedis(t) },
	}
}

// startRedis starts one that is reached over a socket.
func startRedis(t *testing.T) string {
	t.Helper()
	socket := filepath.Join(servertest.SocketDir(t), "s")
	s, err := redistest.New("--unixsocket", socket)
	if err != nil {
		t.Fatal(err)
	}
	s.CloseAfter(t)
	return fmt.Sprintf("redis: {url: %q, accept_lost_writes: true}", "unix://"+socket)
}

// configured writes a configuration with this store.
func configured(t *testing.T, store string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "f.yaml")
	text := fmt.Sprintf("upstream: {url: http://127.0.0.1:9, settle: 30s}\nlisten: {address: 127.0.0.1:0}\nadmin: {address: \"\"}\nstore: {%s}\nrules: [{name: all, path: /*, key: \"{path}\"}]\n", store)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// storeCommand runs one command on a store.
func storeCommand(in []byte, args ...string) (out []byte, err error) {
	var stdout bytes.Buffer
	root := newRoot()
	root.SetArgs(append([]string{"store"}, args...))
	root.SetIn(bytes.NewReader(in))
	root.SetOut(&stdout)
	root.SetErr(io.Discard)
	err = root.Execute()
	return stdout.Bytes(), err
}

func mustStore(t *testing.T, in []byte, args ...string) []byte {
	t.Helper()
	out, err := storeCommand(in, args...)
	if err != nil {
		t.Fatalf("store %v: %v\n%s", args, err, out)
	}
	return out
}

// filled makes an embedded store with 1,200 keys.
func filled(t *testing.T, clean bool) (file string) {
	t.Helper()
	dir := t.TempDir()
	s, err := embedded.Open(embedded.Options{Path: dir, Create: true, Rules: tokenstore.Rules{"gone": "1"}, Epochs: map[string]uint64{"gone": 4}})
	if err != nil {
		t.Fatal(err)
	}
	marks := []tokenstore.Mark{{Key: "\xff\xfe", Token: tokenstore.Token{Epoch: 2, Major: 1<<64 - 1, Minor: 9}, Holder: "me"}, {Key: "zero"}}
	for i := range 1198 {
		marks = append(marks, tokenstore.Mark{Key: tokenstore.Key(fmt.Sprintf("/k/%d", i)), Token: tokenstore.Token{Major: uint64(i)}, Clear: true})
	}
	for len(marks) > 0 {
		n := min(len(marks), 100)
		if _, err := s.Acquire(t.Context(), marks[:n]); err != nil {
			t.Fatal(err)
		}
		marks = marks[n:]
	}
	if err := s.Close(clean); err != nil {
		t.Fatal(err)
	}
	return configured(t, fmt.Sprintf("embedded: {path: %q}", dir))
}

// marksOf are the keys of a dump with their tokens and holders.
func marksOf(t *testing.T, text []byte) (h dump.Header, all string) {
	t.Helper()
	r, err := dump.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return r.Header, b.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%q %v %q\n", rec.Key, rec.Highest, rec.Holder)
	}
}

func TestMoveClean(t *testing.T) {
	for name, start := range movedOver(t) {
		t.Run(name, func(t *testing.T) {
			there := configured(t, start()+", session_ttl: 6s")
			back := configured(t, fmt.Sprintf("embedded: {path: %q}", t.TempDir()))
			first := mustStore(t, nil, "export", "--config", filled(t, true))
			_, want := marksOf(t, first)

			mustStore(t, nil, "init", "--config", there)
			mustStore(t, first, "import", "--config", there)
			mustStore(t, first, "import", "--config", there) // again, as after an error
			if out := mustStore(t, nil, "verify", "--config", there); !bytes.Contains(out, []byte(": sound, 1200 keys\n")) {
				t.Errorf("verify: %s", out)
			}
			second := mustStore(t, nil, "export", "--config", there)
			h, got := marksOf(t, second)
			if got != want || !h.Clean || h.Rules["gone"] != "1" || h.Epochs["gone"] != 4 {
				t.Errorf("header %+v; the marks are the same: %v", h, got == want)
			}
			mustStore(t, second, "import", "--config", back)
			if h, got := marksOf(t, mustStore(t, nil, "export", "--config", back)); got != want || !h.Clean || h.Epochs["gone"] != 4 {
				t.Errorf("back: header %+v; the marks are the same: %v", h, got == want)
			}
		})
	}
}

// TestMoveUnclean: what may be on its way from the old store holds writes of
// every token back in the new one, and no proxy's words are needed for that.
func TestMoveUnclean(t *testing.T) {
	for name, start := range movedOver(t) {
		t.Run(name, func(t *testing.T) {
			there := configured(t, start()+", session_ttl: 6s")
			first := mustStore(t, nil, "export", "--config", filled(t, false))
			_, want := marksOf(t, first)
			mustStore(t, nil, "init", "--config", there)
			mustStore(t, first, "import", "--config", there)
			// It is in use until the quarantine is over; first of all, since its
			// sessions may be gone soon.
			if _, err := storeCommand(nil, "export", "--config", there); err == nil || !strings.Contains(err.Error(), " this store and must be stopped first") {
				t.Errorf("export: %v", err)
			}
			if _, err := storeCommand(first, "import", "--config", there); err == nil {
				t.Error("a second import was taken")
			}

			b := backendOf(t, there)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			sessions, err := b.Sessions(ctx)
			if err != nil || len(sessions) == 0 {
				t.Fatalf("%d sessions, %v", len(sessions), err)
			}
			lowest := 0
			for id := range sessions {
				entries, err := b.Entries(ctx, id)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range entries {
					if e.Token == (tokenstore.Token{}) {
						lowest++
					}
				}
			}
			if lowest < 1200 {
				t.Errorf("%d entries below every token, of 1,200 keys", lowest)
			}
			rec, ok, err := b.Load(ctx, "\xff\xfe")
			if err != nil || !ok || rec.Highest != (tokenstore.Token{Epoch: 2, Major: 1<<64 - 1, Minor: 9}) || rec.Holder != "me" {
				t.Errorf("record %+v, %v, %v", rec, ok, err)
			}
			for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
				out, err := storeCommand(nil, "export", "--config", there)
				if err != nil && time.Now().Before(end) {
					continue // the sessions are still alive
				}
				if h, got := marksOf(t, out); err != nil || h.Clean || h.Settle != 30*time.Second || got != want {
					t.Errorf("%v: header %+v; the marks are the same: %v", err, h, got == want)
				}
				return
			}
		})
	}
}

// TestUnfitDump: a shared store does not take the dump of an unclean stop that
// it cannot keep in quarantine, nor any while it is not clean itself.
func TestUnfitDump(t *testing.T) {
	s, err := etcdtest.New()
	if err != nil {
		t.Fatal(err)
	}
	s.CloseAfter(t)
	there := configured(t, s.Setting(s.Address()))
	mustStore(t, nil, "init", "--config", there)
	dumped := func(h dump.Header) []byte {
		var b bytes.Buffer
		w := dump.NewWriter(&b)
		h.ExportedAt = time.Now()
		if err := errors.Join(w.Begin(h), w.Add(dump.Record{Key: "k", Record: tokenstore.Record{Highest: tokenstore.Token{Major: 5}}}), w.End()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	refused := func(h dump.Header, why string) {
		t.Helper()
		if out, err := storeCommand(dumped(h), "import", "--config", there); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%+v: %s, %v; want %s", h, out, err, why)
		}
	}
	refused(dump.Header{Unordered: true, Settle: time.Second}, "keys of which it has no record")
	refused(dump.Header{Settle: 31 * time.Second}, "set store.linger to 31s at least")
	mustStore(t, dumped(dump.Header{Clean: true, Rules: tokenstore.Rules{"x": "1"}}), "import", "--config", there)
	refused(dump.Header{Clean: true, Rules: tokenstore.Rules{"x": "2"}}, "used with other rules than the store of the dump ([x])")
	refused(dump.Header{Settle: time.Second}, "key k has a record in this store already")

	// What is registered now stays so: nobody's proxy ends it.
	refused(dump.Header{Clean: true}, "1 proxy uses this store and must be stopped first")
	b := backendOf(t, there)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for alive := 1; alive > 0; time.Sleep(200 * time.Millisecond) {
		if _, alive, err = session.ReadHeader(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
	refused(dump.Header{Clean: true}, "have left writes behind in this store")

	client, err := s.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if _, err := client.Put(ctx, "/fenceproxy/mark/k", "x"); err != nil {
		t.Fatal(err)
	}
	if out, err := storeCommand(nil, "verify", "--config", there); err == nil || !strings.Contains(err.Error(), "1 of 1 records are damaged") || !bytes.Contains(out, []byte("the record of key k is damaged")) {
		t.Errorf("verify: %s, %v", out, err)
	}
	if _, err := storeCommand(nil, "export", "--config", there); err == nil || !strings.Contains(err.Error(), "the record of key k is damaged") {
		t.Errorf("export: %v", err)
	}
}

// backendOf opens the engine that a configuration names.
func backendOf(t *testing.T, file string) session.Movable {
	t.Helper()
	cfg, report := config.LoadFile(file, os.LookupEnv)
	p := plan(cfg, &report)
	if err := report.Err(); err != nil {
		t.Fatal(err)
	}
	b, err := engineOf(cfg, p, zap.NewNop()).open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}
