package guard

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/netip"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// FuzzBody: no body makes a panic, and one that is taken says to encoding/json,
// which is less strict, just what it says here, and so it does when it is written
// again.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"holder":"h","ttl":"30s","wait":"0s","fence":false,"rule":"r"}`, `{"id":"x","ttl":"1h2m3.5s"} `, `{"ID":"x"}`, `{"id":"a","id":"b"}`,
		`{"id":null}`, `{"ttl":10}`, `{"ttl":"-1s"}`, `{"fence":"true"}`, `[]`, `{"id":"\ud800"}`, `{"\u0069d":"x"}`, `{"id":"x"}{}`, "\ufeff{}", `{"ttl":"9999999h"}`, `{"id":"x",}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var got, other, again wire.LeaseRequest
		if err := decode(body, membersOf(&got, nil)); err != nil {
			return
		}
		d := json.NewDecoder(bytes.NewReader(body))
		d.DisallowUnknownFields()
		if err := d.Decode(&other); err != nil || !reflect.DeepEqual(got, other) {
			t.Fatalf("%q is %+v, and to encoding/json %+v (%v)", body, got, other, err)
		}
		text, err := json.Marshal(got)
		if err == nil {
			err = decode(text, membersOf(&again, nil))
		}
		if err != nil || !reflect.DeepEqual(got, again) {
			t.Fatalf("%q is %+v, and written as %s it is %+v (%v)", body, got, text, again, err)
		}
	})
}

// hostPort is a name, or an address in brackets, with or without a port.
var hostPort = regexp.MustCompile(`^(?:\[([^\[\]]*)\]|([^:\[\]]*))(?::[^:\[\]]*)?$`)

// FuzzHost: a Host that is let in is a name of this machine or a configured one,
// with or without a port, and nothing else.
func FuzzHost(f *testing.F) {
	for _, seed := range []string{"localhost", "LOCALHOST:80", "127.0.0.1:9901", "[::1]:1", "::1", "admin.example:443", "localhost.", "127.1", "[::ffff:127.0.0.1]", "localhost:80:90", "[localhost]", "evil.example#localhost", "", "0.0.0.0"} {
		f.Add(seed)
	}
	g := New(Options{Hosts: []string{"Admin.Example"}})
	f.Fuzz(func(t *testing.T, host string) {
		if !g.Trusts(&http.Request{Host: host}) {
			return
		}
		name := host
		if parts := hostPort.FindStringSubmatch(host); parts != nil {
			name = parts[1] + parts[2]
		}
		if strings.IndexFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
			name = strings.ToLower(name)
		}
		ip, err := netip.ParseAddr(name)
		if name != "localhost" && name != "admin.example" && (err != nil || !ip.IsLoopback()) {
			t.Fatalf("the host %q is let in", host)
		}
	})
}
