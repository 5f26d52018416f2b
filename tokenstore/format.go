package tokenstore

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Format says how a token is spelt. It is declared for a rule, never guessed
// from the text: 100000001 is both decimal and hex.
type Format uint8

const (
	// Decimal tokens have 1 to 20 ASCII digits and are at most 2^64-1. Leading
	// zeros are allowed.
	Decimal Format = iota
	// Hex tokens have 1 to 16 hex digits of either case, with or without 0x in
	// front, like a zxid of ZooKeeper.
	Hex
	// Composite tokens are two decimals joined by one of . : - and compared
	// from left to right, like term.index.
	Composite
)

// Formats are all formats, in the order of their numbers.
var Formats = [...]Format{Decimal, Hex, Composite}

var formats = [...]struct{ name, right string }{
	Decimal:   {"decimal", "a decimal token is 1 to 20 digits, at most 18446744073709551615"},
	Hex:       {"hex", "a hex token is 1 to 16 hex digits, with or without 0x in front"},
	Composite: {"composite", "a composite token is two decimals joined by one of . : - and each at most 18446744073709551615"},
}

// ErrMalformed is wrapped by every error of Format.Parse and ParseMark.
var ErrMalformed = errors.New("not a fencing token")

// String is the format's name in the configuration.
func (f Format) String() string {
	if int(f) < len(formats) {
		return formats[f].name
	}
	return fmt.Sprintf("format(%d)", uint8(f))
}

// Parse reads one token as a client writes it, byte for byte: no sign, no
// space, no digit outside ASCII, never rounded. Its epoch is 0. Its errors
// wrap ErrMalformed and say what would be right.
func (f Format) Parse(s string) (Token, error) {
	t, err := f.parse(s)
	if err != nil {
		return Token{}, fmt.Errorf("%w: %w (%s)", ErrMalformed, err, formats[f].right)
	}
	return t, nil
}

func (f Format) parse(s string) (t Token, err error) {
	switch f {
	case Hex:
		t.Major, err = parseNumber(strings.TrimPrefix(s, "0x"), 16)
	case Composite:
		at := strings.IndexAny(s, ".:-")
		if at < 0 {
			return t, errors.New("it is one number")
		}
		if t.Major, err = parseNumber(s[:at], 10); err == nil {
			t.Minor, err = parseNumber(s[at+1:], 10)
		}
	default:
		t.Major, err = parseNumber(s, 10)
	}
	return t, err
}

// Print writes t in its one canonical form: no leading zeros, hex as 0x and
// lower-case digits, composite with a point; an epoch above 0 stands in front,
// as in 3/120. ParseMark reads it back.
func (f Format) Print(t Token) string {
	b := make([]byte, 0, 64)
	if t.Epoch != 0 {
		b = append(strconv.AppendUint(b, t.Epoch, 10), '/')
	}
	switch f {
	case Hex:
		b = strconv.AppendUint(append(b, "0x"...), t.Major, 16)
	case Composite:
		b = append(strconv.AppendUint(b, t.Major, 10), '.')
		b = strconv.AppendUint(b, t.Minor, 10)
	default:
		b = strconv.AppendUint(b, t.Major, 10)
	}
	return string(b)
}

// ParseMark reads a token as Print writes it: with EPOCH/ in front where the
// epoch is not 0.
func (f Format) ParseMark(s string) (Token, error) {
	epoch, rest, ok := strings.Cut(s, "/")
	if !ok {
		return f.Parse(s)
	}
	t, err := f.Parse(rest)
	if err != nil {
		return Token{}, err
	}
	if t.Epoch, err = parseNumber(epoch, 10); err != nil {
		return Token{}, fmt.Errorf("%w: the epoch in front of the slash: %w", ErrMalformed, err)
	}
	return t, nil
}

// parseNumber reads 1 to 20 decimal or 1 to 16 hex digits, at most 2^64-1.
func parseNumber(s string, base int) (uint64, error) {
	longest := 20
	if base == 16 {
		longest = 16
	}
	switch {
	case s == "":
		return 0, errors.New("a number is empty")
	case len(s) > longest:
		return 0, fmt.Errorf("a number has %d digits", len(s))
	}
	for i := range len(s) {
		if !isDigit(s[i], base) {
			return 0, fmt.Errorf("%q is not a digit", s[i])
		}
	}
	n, err := strconv.ParseUint(s, base, 64)
	if err != nil {
		return 0, errors.New("it is too large")
	}
	return n, nil
}

func isDigit(c byte, base int) bool {
	switch {
	case c >= '0' && c <= '9':
		return true
	case base != 16:
		return false
	}
	return c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
