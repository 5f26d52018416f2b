package tokenstore

import (
	"bytes"
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	type row map[string]Token
	for format, good := range map[Format]row{
		Decimal: {"0": {}, "7": {Major: 7}, "007": {Major: 7}, "18446744073709551615": {Major: math.MaxUint64}, "00000000000000000001": {Major: 1}, "100000001": {Major: 100000001}},
		Hex:     {"0": {}, "0x0": {}, "1f": {Major: 31}, "0x1F": {Major: 31}, "ffffffffffffffff": {Major: math.MaxUint64}, "0x00000000000000ab": {Major: 171}, "100000001": {Major: 0x100000001}},
		Composite: {"1.2": {Major: 1, Minor: 2}, "1:2": {Major: 1, Minor: 2}, "1-2": {Major: 1, Minor: 2}, "007.0": {Major: 7},
			"18446744073709551615.18446744073709551615": {Major: math.MaxUint64, Minor: math.MaxUint64}},
	} {
		for text, want := range good {
			if got, err := format.Parse(text); err != nil || got != want {
				t.Errorf("%v %q: %v, %v", format, text, got, err)
			}
		}
	}
	for format, bad := range map[Format][]string{
		Decimal: {"", " ", "-1", "+1", "1 ", " 1", "1 2", "1,2", "1.0", "1e3", "0x1", "1_000", "\u0661", "１", "1\x00",
			"18446744073709551616", "99999999999999999999", "000000000000000000001", "1/2"},
		Hex:       {"", "0x", "x1", "0X1", "0x0x1", "-1", "1 ", "1g", "10000000000000000", "0x00000000000000000", "1.2", "1/2"},
		Composite: {"", "1", ".", "1.", ".2", "1.2.3", "1.-2", "1..2", "1,2", "1. 2", "0x1.2", "18446744073709551616.1", "1.18446744073709551616", "1/2.3"},
	} {
		for _, text := range bad {
			if got, err := format.Parse(text); !errors.Is(err, ErrMalformed) {
				t.Errorf("%v %q: %v, %v, want ErrMalformed", format, text, got, err)
			}
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
	for _, tt := range []struct {
		format Format
		token  Token
		want   string
	}{
		{Decimal, Token{}, "0"}, {Decimal, Token{Major: 120}, "120"}, {Decimal, Token{Epoch: 3, Major: 120}, "3/120"},
		{Hex, Token{Major: 31}, "0x1f"}, {Hex, Token{Epoch: 1}, "1/0x0"},
		{Composite, Token{Major: 5}, "5.0"}, {Composite, Token{Epoch: 2, Major: 5, Minor: 7}, "2/5.7"},
	} {
		if got := tt.format.Print(tt.token); got != tt.want {
			t.Errorf("%v %#v prints as %s, want %s", tt.format, tt.token, got, tt.want)
		}
		if back, err := tt.format.ParseMark(tt.want); err != nil || back != tt.token {
			t.Errorf("%v %s reads as %v, %v", tt.format, tt.want, back, err)
		}
	}
	for _, bad := range []string{"/1", "1/", "-1/1", "1/2/3", "18446744073709551616/1", "x/1"} {
		if got, err := Decimal.ParseMark(bad); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v, %v", bad, got, err)
		}
	}
}

var tokenSeeds = []string{"0", "007", "18446744073709551615", "18446744073709551616", "", "-1", "1 2", "1\r\n 2", "\u0661", strings.Repeat("9", 20),
	"0x1F", "1.2", "3:4", "5-6", "1/2", "1/0xab", "9/1.2", "0x", strings.Repeat("0", 21) + "/7", strings.Repeat("0", 20) + "7", "0x0" + strings.Repeat("f", 16), "1/2/3", "+7", "0X7"}

// tokenTexts are all that may be a token, with an epoch in front or without.
var tokenTexts = map[Format]*regexp.Regexp{
	Decimal:   regexp.MustCompile(`^([0-9]{1,20}/)?[0-9]{1,20}$`),
	Hex:       regexp.MustCompile(`^([0-9]{1,20}/)?(0x)?[0-9a-fA-F]{1,16}$`),
	Composite: regexp.MustCompile(`^([0-9]{1,20}/)?[0-9]{1,20}[.:-][0-9]{1,20}$`),
}

// FuzzToken: what is parsed prints in one form, which parses to the same
// token, a fixed point; and nothing parses but digits and separators, no more than
// there may be.
func FuzzToken(f *testing.F) {
	for _, s := range tokenSeeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, format := range Formats {
			for _, parse := range []func(string) (Token, error){format.Parse, format.ParseMark} {
				tok, err := parse(text)
				if err != nil {
					if !errors.Is(err, ErrMalformed) {
						t.Errorf("%v %q: %v", format, text, err)
					}
					continue
				}
				if !tokenTexts[format].MatchString(text) {
					t.Errorf("%v %q parses to %v", format, text, tok)
				}
				printed := format.Print(tok)
				back, err := format.ParseMark(printed)
				if err != nil || back != tok || format.Print(back) != printed {
					t.Errorf("%v %q parses to %v, prints as %q, which parses to %v, %v", format, text, tok, printed, back, err)
				}
			}
		}
	})
}

func TestFuzzSeeds(t *testing.T) {
	if len(tokenSeeds) == 0 {
		t.Error("FuzzToken has no seeds")
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
