package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes.
type Size int64

var sizeUnits = []struct {
	name  string
	shift uint
}{{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}, {"B", 0}}

// String prints s with the largest unit that divides it, as in 64KiB; 0 and
// what no unit divides is plain bytes.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if u.shift > 0 && s != 0 && s%(1<<u.shift) == 0 {
			return strconv.FormatInt(int64(s>>u.shift), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// parseSize reads digits and a unit, nothing between them.
func parseSize(text string) (Size, error) {
	digits, shift := text, uint(0)
	for _, u := range sizeUnits {
		if d, ok := strings.CutSuffix(text, u.name); ok {
			digits, shift = d, u.shift
			break
		}
	}
	n, err := parseDigits(digits)
	if err != nil {
		return 0, err
	}
	if n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("%s is too large", text)
	}
	return Size(n << shift), nil
}

// parseDigits reads a decimal number that has no sign, no leading zero and no
// separator: 0x1F, 017 and 1_000 mean different numbers to different readers
// of YAML.
func parseDigits(text string) (uint64, error) {
	if text == "" || strings.Trim(text, "0123456789") != "" || len(text) > 1 && text[0] == '0' {
		return 0, fmt.Errorf("%s is not a number", quote(text))
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is too large", quote(text))
	}
	return n, nil
}
