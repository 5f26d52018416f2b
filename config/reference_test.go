package config

import (
	"reflect"
	"regexp"
	"slices"
	"testing"
)

func TestReferenceHasTheDefaults(t *testing.T) {
	c := mustLoad(t, string(Reference()), env())
	for i := range c.Rules {
		r := &c.Rules[i]
		if got, want := c.Policy(r), Default().Policy(&Rule{}); got != want {
			t.Errorf("rule %s: %+v, the defaults are %+v", r.Name, got, want)
		}
	}
	for i := range c.Rules {
		if got := c.Keys(&c.Rules[i]); got[0].Header != Default().Fencing.Header {
			t.Errorf("rule %s: the header of its first key is %s", c.Rules[i].Name, got[0].Header)
		}
	}
	c.Rules, c.Upstream.URL = nil, ""
	want := Default()
	want.Store.Embedded = &Embedded{}
	want.Store.Embedded.setDefaults()
	wantSame(t, c, want)
}

// withStore is the reference with another kind of store, which stands there as
// a comment.
func withStore(t *testing.T, kind string) string {
	t.Helper()
	text := regexp.MustCompile(`(?m)^  embedded:\n(    .*\n)+`).ReplaceAllString(reference, "")
	block := regexp.MustCompile(`(?m)^  # ` + kind + `:.*\n(  #   .*\n)*`)
	if !block.MatchString(text) {
		t.Fatalf("the reference has no store.%s", kind)
	}
	uncomment := func(s string) string { return regexp.MustCompile(`(?m)^  # `).ReplaceAllString(s, "  ") }
	text = block.ReplaceAllStringFunc(text, uncomment)
	if kind != "memory" {
		text = regexp.MustCompile(`(?m)^  # (session_ttl|margin|linger): .*$`).ReplaceAllStringFunc(text, uncomment)
	}
	return text
}

// Every setting stands in the reference, and nothing that is not built. Of the
// stores all but one are comments.
func TestReferenceNamesEverySetting(t *testing.T) {
	var named []string
	texts := []string{reference}
	for _, kind := range []string{"memory", "etcd", "postgres", "redis"} {
		texts = append(texts, withStore(t, kind))
	}
	for _, text := range texts {
		c, r := Load("f.yaml", []byte(text), env())
		if len(r.Errors) > 0 {
			t.Errorf("%v in\n%s", r.Err(), text)
		}
		for path := range c.origin.at {
			named = append(named, generic(path))
		}
	}
	for _, path := range settings("", reflect.TypeFor[Config]()) {
		if !slices.Contains(named, path) {
			t.Errorf("reference.yaml does not name %s", path)
		}
	}
}

func TestReferenceIsACopy(t *testing.T) {
	Reference()[0] = 'x'
	if string(Reference()) != reference {
		t.Error("the caller changed the reference")
	}
}

// Overrides must keep up with Fencing, or a rule could not set a new setting
// that the contract says it may.
func TestRulesOverrideAllOfFencing(t *testing.T) {
	overrides := reflect.TypeFor[Overrides]()
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Fencing]()) {
		o, ok := overrides.FieldByName(f.Name)
		if !ok || o.Tag != f.Tag || o.Type != reflect.PointerTo(f.Type) {
			t.Errorf("%s of Fencing is not the same in Overrides", f.Name)
		}
	}
}
