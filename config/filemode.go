package config

import (
	"fmt"
	"regexp"
	"strconv"
)

// FileMode is who may use a file, as chmod has it.
type FileMode uint32

// String prints the four digits that are read.
func (m FileMode) String() string { return fmt.Sprintf("%04o", uint32(m)) }

var fileModeText = regexp.MustCompile(`^0[0-7]{3}$`)

// parseFileMode reads four octal digits and nothing else: 660 would be another
// mode to a reader of decimal numbers.
func parseFileMode(text string) (FileMode, error) {
	if !fileModeText.MatchString(text) {
		return 0, fmt.Errorf("%s is not four octal digits", quote(text))
	}
	m, err := strconv.ParseUint(text, 8, 32)
	return FileMode(m), err
}
