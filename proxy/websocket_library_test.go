package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// echo is a real websocket server: it says everything twice.
func echo(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") == "" {
		return
	}
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"echo"}})
	if err != nil {
		return
	}
	defer func() { _ = c.CloseNow() }()
	c.SetReadLimit(-1)
	for {
		kind, message, err := c.Read(context.Background())
		if err != nil {
			return
		}
		if err := c.Write(context.Background(), kind, append(message, message...)); err != nil {
			return
		}
	}
}

// websocket opens a websocket with the client's library.
func (r *rig) websocket(target string, token int) (*websocket.Conn, *http.Response) {
	r.Helper()
	h := http.Header{"X-Fencing-Token": {fmt.Sprint(token)}}
	c, res, err := websocket.Dial(r.Context(), "ws://"+r.addr+target, &websocket.DialOptions{HTTPHeader: h, Subprotocols: []string{"echo"}})
	if err != nil {
		r.Fatal(err)
	}
	c.SetReadLimit(-1)
	r.Cleanup(func() { _ = c.CloseNow() })
	return c, res
}

// A real client and a real server talk as if nobody stood between them, to an
// orderly close.
func TestWebSocketLibrary(t *testing.T) {
	core, logs := observer.New(zapcore.DebugLevel)
	r := newRig(t, func(o *Options, _ []Rule) { o.Log = zap.New(core) })
	r.api.serve = echo
	c, res := r.websocket("/feed/1", 7)
	if res.Header.Get("Fencing-Result") != "admitted" || c.Subprotocol() != "echo" {
		t.Errorf("%v, subprotocol %q", res.Header, c.Subprotocol())
	}
	for _, size := range []int{0, 1, 125, 126, 64 << 10, 1 << 20} {
		message := bytes.Repeat([]byte("x"), size)
		go func() {
			if err := c.Write(t.Context(), websocket.MessageBinary, message); err != nil {
				t.Errorf("%d bytes: %v", size, err)
			}
		}()
		if _, got, err := c.Read(t.Context()); err != nil || len(got) != 2*size {
			t.Errorf("%d bytes: got %d, %v", size, len(got), err)
		}
	}
	if err := c.Close(websocket.StatusNormalClosure, "done"); err != nil {
		t.Error(err)
	}
	r.eventually("its end is logged", func() bool { return logs.FilterField(zap.String("unsettled", "ended")).Len() == 1 })
	line := logs.FilterField(zap.String("unsettled", "ended")).All()[0]
	if m := line.ContextMap(); line.Level != zapcore.InfoLevel || m["status"] != int64(101) || m["decision"] != "admitted" || m["key"] != "feed:1" || m["duration"] == nil || m["error"] != nil {
		t.Errorf("%v %v", line.Level, m)
	}
}

// Many websockets, cut by a raise, broken off by their clients or stopped with
// the proxy, leave no goroutine, no descriptor and no stuck key behind.
func TestWebSocketsLeaveNothing(t *testing.T) {
	const many = 100
	r := newRig(t, nil)
	r.api.serve = echo
	r.warm()
	goroutines, descriptors := runtime.NumGoroutine(), openFiles(t)
	var clients []*websocket.Conn
	for i := range many {
		c, _ := r.websocket(fmt.Sprintf("/feed/%d", i%4), 1)
		if err := c.Write(t.Context(), websocket.MessageText, []byte("a")); err != nil {
			t.Fatal(err)
		}
		if _, got, err := c.Read(t.Context()); err != nil || string(got) != "aa" {
			t.Fatalf("%q, %v", got, err)
		}
		if clients = append(clients, c); i%4 == 3 {
			_ = c.CloseNow()
		}
	}
	for i := range 2 { // the key of 2 is left to the stop
		if res := r.raise(fmt.Sprintf("/feed/%d", i), 2).receive(); res.StatusCode != 200 {
			t.Errorf("%s %s", res.Status, res.body)
		}
	}
	r.eventually("one key's websockets are left to the stop", func() bool { return r.gate.Counts().InFlight == many/4 })
	r.gate.Stop()
	r.handler.WaitTunnels()
	for _, c := range clients {
		if _, _, err := c.Read(t.Context()); err == nil {
			t.Error("a client was not told of the end")
		}
		_ = c.CloseNow()
	}
	r.eventually("goroutines and descriptors are back", func() bool {
		http.DefaultClient.CloseIdleConnections()
		return runtime.NumGoroutine() <= goroutines+5 && openFiles(t) <= descriptors+5
	})
	buf := make([]byte, 1<<20)
	r.eventually("no tunnel's goroutine is left", func() bool {
		return !strings.Contains(string(buf[:runtime.Stack(buf, true)]), "proxy.(*tunnel)")
	})
}

// warm makes what the first request of all leaves open.
func (r *rig) warm() {
	r.Helper()
	c, _ := r.websocket("/chat", 1)
	_ = c.CloseNow()
	r.handler.WaitTunnels()
}

// openFiles counts the descriptors of the process; 0 where that cannot be
// told.
func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}
