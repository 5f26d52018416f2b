package config

import "testing"

// Errors of other packages come back to the file.
func TestErrorf(t *testing.T) {
	c := mustLoad(t, `upstream: {url: http://127.0.0.1:9000}
store: {embedded: {}}
rules:
  - name: a
    path: /a
    key: k
  - name: b
    path:
      - /b
      - /c
    key: k
`, env())
	for _, tt := range []struct{ path, want string }{
		{"rules[0].key", "f.yaml:6:10: rules[0].key: no"},
		{"rules[0].path", "f.yaml:5:11: rules[0].path: no"},
		{"rules[0].path[0]", "f.yaml:5:11: rules[0].path: no"},
		{"rules[1].path[1]", "f.yaml:10:9: rules[1].path[1]: no"},
		{"rules[1].path", "f.yaml:9:7: rules[1].path: no"},
		{"rules[1]", "f.yaml:7:5: rules[1]: no"},
		{"rules[1].header", "f.yaml:7:5: rules[1].header: no"},
		{"store.embedded.path", "f.yaml:2:19: store.embedded.path: no"},
		{"fencing.header", "f.yaml:1:1: fencing.header: no"},
		{"rules[7].key", "f.yaml:4:3: rules[7].key: no"},
	} {
		if got := c.Errorf(tt.path, "no").Error(); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
	r := Report{}
	r.Add(c.Errorf("rules[1].key", "second"), c.Errorf("rules[0].key", "first"))
	r.Warn(c.Errorf("store", "below"), c.Errorf("upstream", "above"))
	wantLines(t, r, "f.yaml:6:10: rules[0].key: first", "f.yaml:11:10: rules[1].key: second",
		"warning: f.yaml:1:11: upstream: above", "warning: f.yaml:2:8: store: below")
	if got, want := r.Err().Error(), "f.yaml:6:10: rules[0].key: first\nf.yaml:11:10: rules[1].key: second"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if !r.Has("rules[0]") || !r.Has("rules") || r.Has("rules[0].name") || r.Has("rules[10]") || r.Has("rule") {
		t.Error("Has looks at letters, not at settings")
	}
	if got := c.At("rules[0].key"); got != (Pos{"f.yaml", 6, 10}) {
		t.Errorf("At: %v", got)
	}
}
