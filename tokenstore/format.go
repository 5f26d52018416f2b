package tokenstore

import (
	"errors"
	"fmt"
	"strconv"
)

// Format says how a token is spelt. It is declared for a rule, never guessed
// from the text: 100000001 is both decimal and hex.
type Format uint8

// Decimal tokens have 1 to 20 ASCII digits and are at most 2^64-1. Leading
// zeros are allowed.
const Decimal Format = iota

// ErrMalformed is wrapped by every error of Format.Parse.
var ErrMalformed = errors.New("not a fencing token")

// String is the format's name in the configuration.
func (f Format) String() string {
	if f == Decimal {
		return "decimal"
	}
	return fmt.Sprintf("format(%d)", uint8(f))
}

// Parse reads one token, byte for byte: no sign, no space, no digit outside
// ASCII, never rounded. Its errors wrap ErrMalformed and say what would be
// right.
func (f Format) Parse(s string) (Token, error) {
	n, err := parseDecimal(s)
	if err != nil {
		return Token{}, fmt.Errorf("%w: %w (a decimal token is 1 to 20 digits, at most 18446744073709551615)", ErrMalformed, err)
	}
	return Token{Major: n}, nil
}

// Print writes t in its one canonical form, which Parse reads back; an epoch
// above 0 stands in front, as in 3/120.
func (f Format) Print(t Token) string { return t.String() }

func parseDecimal(s string) (uint64, error) {
	switch {
	case s == "":
		return 0, errors.New("it is empty")
	case len(s) > 20:
		return 0, fmt.Errorf("it has %d characters", len(s))
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, fmt.Errorf("character %d is not a digit", i+1)
		}
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, errors.New("it is too large")
	}
	return n, nil
}
