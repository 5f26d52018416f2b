package tokenstore

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestParseDecimal(t *testing.T) {
	good := map[string]uint64{
		"0": 0, "7": 7, "007": 7, "18446744073709551615": math.MaxUint64, "00000000000000000001": 1,
	}
	for text, want := range good {
		if got, err := Decimal.Parse(text); err != nil || got != (Token{Major: want}) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	bad := []string{
		"", " ", "-1", "+1", "1 ", " 1", "1 2", "1,2", "1.0", "1e3", "0x1", "1_000", "\u0661", "１", "1\x00",
		"18446744073709551616", "99999999999999999999", "000000000000000000001",
	}
	for _, text := range bad {
		if got, err := Decimal.Parse(text); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v, %v, want ErrMalformed", text, got, err)
		}
	}
}

// The order of tokens is that of their bytes.
func TestTokenOrder(t *testing.T) {
	tokens := []Token{
		{}, {Minor: 1}, {Minor: math.MaxUint64}, {Major: 1}, {Major: 1, Minor: 1}, {Major: 256}, {Major: math.MaxUint64},
		{Epoch: 1}, {Epoch: 1, Major: 5}, {Epoch: 2}, {Epoch: math.MaxUint64, Major: math.MaxUint64, Minor: math.MaxUint64},
	}
	for i, a := range tokens {
		ab, _ := a.AppendBinary(nil)
		if len(ab) != TokenSize {
			t.Fatalf("%v has %d bytes", a, len(ab))
		}
		var back Token
		if err := back.UnmarshalBinary(ab); err != nil || back != a {
			t.Errorf("%v comes back as %v, %v", a, back, err)
		}
		for j, b := range tokens {
			bb, _ := b.AppendBinary(nil)
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if a.Compare(b) != want || bytes.Compare(ab, bb) != want || a.Less(b) != (want < 0) {
				t.Errorf("%v and %v: %d, %d, want %d", a, b, a.Compare(b), bytes.Compare(ab, bb), want)
			}
		}
	}
	if err := new(Token).UnmarshalBinary(make([]byte, TokenSize-1)); err == nil {
		t.Error("23 bytes are taken for a token")
	}
}

func TestPrint(t *testing.T) {
	for want, tok := range map[string]Token{"0": {}, "120": {Major: 120}, "3/120": {Epoch: 3, Major: 120}, "5.7": {Major: 5, Minor: 7}} {
		if got := Decimal.Print(tok); got != want {
			t.Errorf("%#v prints as %s, want %s", tok, got, want)
		}
	}
}

var tokenSeeds = []string{"0", "007", "18446744073709551615", "18446744073709551616", "", "-1", "1 2", "1\r\n 2", "\u0661", strings.Repeat("9", 20)}

// FuzzDecimal: what is parsed prints in one form, which parses to the same
// token; and nothing but digits parses.
func FuzzDecimal(f *testing.F) {
	for _, s := range tokenSeeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tok, err := Decimal.Parse(text)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if strings.Trim(text, "0123456789") != "" || len(text) == 0 || len(text) > 20 {
			t.Errorf("%q parses to %v", text, tok)
		}
		printed := Decimal.Print(tok)
		back, err := Decimal.Parse(printed)
		if err != nil || back != tok || Decimal.Print(back) != printed {
			t.Errorf("%q parses to %v, prints as %q, which parses to %v, %v", text, tok, printed, back, err)
		}
	})
}

func TestFuzzSeeds(t *testing.T) {
	if len(tokenSeeds) == 0 {
		t.Error("FuzzDecimal has no seeds")
	}
}

func TestChangedRules(t *testing.T) {
	old := Rules{"same": "1", "other": "2", "gone": "3", "another": "4"}
	now := Rules{"same": "1", "other": "x", "new": "5", "another": "y"}
	if got := old.Changed(now); !slices.Equal(got, []string{"another", "other"}) {
		t.Errorf("changed: %v", got)
	}
	if got := (Rules)(nil).Changed(now); len(got) != 0 {
		t.Errorf("changed since nothing: %v", got)
	}
}
