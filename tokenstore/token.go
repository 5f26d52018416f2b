package tokenstore

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"strconv"
)

// Token is a fencing token: three numbers, compared from left to right. The
// zero Token is a token like any other (decimal 0 of epoch 0); whether a key
// has one is told apart from it, see Store.Load.
//
// What text a token comes from is the business of a Format.
type Token struct {
	// Epoch is the operator's prefix: it grows when the source of tokens
	// starts again from a lower number.
	Epoch uint64
	// Major is the number of a decimal or hex token, the first of a composite.
	Major uint64
	// Minor is the second number of a composite token, else 0.
	Minor uint64
}

// TokenSize is the length of a token in bytes as AppendBinary writes it.
const TokenSize = 24

// Compare returns -1, 0 or +1 for a token lower than, equal to or higher
// than u.
func (t Token) Compare(u Token) int {
	if c := cmp.Compare(t.Epoch, u.Epoch); c != 0 {
		return c
	}
	if c := cmp.Compare(t.Major, u.Major); c != 0 {
		return c
	}
	return cmp.Compare(t.Minor, u.Minor)
}

// Less reports whether t is lower than u.
func (t Token) Less(u Token) bool { return t.Compare(u) < 0 }

// AppendBinary appends the TokenSize bytes of t: fixed width and big-endian,
// so that comparing bytes compares tokens. It never fails.
func (t Token) AppendBinary(b []byte) ([]byte, error) {
	b = binary.BigEndian.AppendUint64(b, t.Epoch)
	b = binary.BigEndian.AppendUint64(b, t.Major)
	return binary.BigEndian.AppendUint64(b, t.Minor), nil
}

// UnmarshalBinary reads the TokenSize bytes that AppendBinary wrote.
func (t *Token) UnmarshalBinary(b []byte) error {
	if len(b) != TokenSize {
		return fmt.Errorf("a token has %d bytes, these are %d", TokenSize, len(b))
	}
	t.Epoch = binary.BigEndian.Uint64(b)
	t.Major = binary.BigEndian.Uint64(b[8:])
	t.Minor = binary.BigEndian.Uint64(b[16:])
	return nil
}

// String prints the numbers that are set, for debugging and errors; what
// users see is printed by the Format of their rule.
func (t Token) String() string {
	s := strconv.FormatUint(t.Major, 10)
	if t.Minor != 0 {
		s += "." + strconv.FormatUint(t.Minor, 10)
	}
	if t.Epoch != 0 {
		s = strconv.FormatUint(t.Epoch, 10) + "/" + s
	}
	return s
}
