package proxy

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
)

// The stories of HTTP/1 over TLS, where a client's connection is another type.
func TestOverTLS(t *testing.T) {
	for name, story := range map[string]func(*testing.T){
		"I": TestStoryI, "L1": TestStoryL1, "L2": TestStoryL2,
		"client leaves while it waits": TestClientLeavesWhileItWaits,
		"fast reader":                  TestFastReaderKeepsItsAnswer,
		"long stream":                  TestLongStream,
		"stale upload that stalls":     TestStaleUploadsNothing,
		"stale upload in full":         TestStaleUploadInFullGetsItsAnswer,
	} {
		t.Run(name, story)
	}
}

// Each of the protocols over TLS: a stale write, and the waiting client's
// leaving in the middle of its upload.
func TestOverTLSBoth(t *testing.T) {
	for _, proto := range []string{"http/1.1", "h2"} {
		t.Run(proto, func(t *testing.T) {
			r := newRig(t, nil)
			dial := func() *tls.Conn {
				nc, err := tls.Dial("tcp", r.addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{proto}})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = nc.Close() })
				if got := nc.ConnectionState().NegotiatedProtocol; got != proto {
					t.Fatalf("negotiated %q", got)
				}
				return nc
			}
			upload := func(nc *tls.Conn, token string) {
				if proto == "h2" {
					c := r.speakHTTP2(nc)
					c.data(c.open(false, "x-fencing-token", token, ":scheme", "http"), strings.Repeat("x", 50000), false)
					return
				}
				fmt.Fprintf(nc, "PUT /accounts/42 HTTP/1.1\r\nHost: a\r\nX-Fencing-Token: %s\r\nContent-Length: 100000\r\n\r\n%s", token, strings.Repeat("x", 50000))
			}
			if proto == "h2" { // the client is not believed
				r.speakHTTP2(dial()).open(true, "x-fencing-token", "1", ":scheme", "http", ":path", "/accounts/1")
				a := r.next()
				if p := a.r.Header.Get("X-Forwarded-Proto"); p != "https" {
					t.Errorf("X-Forwarded-Proto: %s", p)
				}
				a.answer()
			}
			older := r.speak(r.clientTLS(proto), "PUT", "1")
			w1 := r.next()
			if p := w1.r.Header.Get("X-Forwarded-Proto"); p != "https" {
				t.Errorf("X-Forwarded-Proto: %s", p)
			}
			b := dial()
			upload(b, "2")
			r.eventually("w2 waits", func() bool { return r.gate.Counts().Waiting == 1 })
			_ = b.Close()
			r.eventually("w2 is forgotten", func() bool { return r.gate.Counts().Waiting == 0 })
			w1.answer()
			if got := <-older; got != "200 admitted" {
				t.Error(got)
			}
			if got := <-r.speak(r.clientTLS(proto), "PUT", "1"); got != "409 rejected;reason=stale-token" {
				t.Error(got)
			}
			r.nothing("w2's client has left")
		})
	}
}
