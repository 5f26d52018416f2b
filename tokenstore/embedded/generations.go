package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A log is named after its generation, 1 and up, with zeros in front so that
// names sort like numbers.
const (
	logPrefix = "raises."
	logDigits = 20
)

func logName(generation uint64) string {
	return fmt.Sprintf("%s%0*d", logPrefix, logDigits, generation)
}

// listLogs returns the generations whose logs are in dir, lowest first. Names
// that logName would not make are no logs.
func listLogs(dir string) ([]uint64, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []uint64
	for _, f := range files {
		digits, ok := strings.CutPrefix(f.Name(), logPrefix)
		if !ok || len(digits) != logDigits {
			continue
		}
		if g, err := strconv.ParseUint(digits, 10, 64); err == nil && g > 0 && logName(g) == f.Name() {
			all = append(all, g)
		}
	}
	slices.Sort(all)
	return all, nil
}

// removeLogs removes the logs of some generations, all of whose marks are in
// the file. A crash may undo it: the next Open removes them again.
func removeLogs(dir string, generations []uint64) error {
	for _, g := range generations {
		if err := os.Remove(filepath.Join(dir, logName(g))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// foldedLogs returns the generations of dir up to the last that is folded.
func foldedLogs(dir string, folded uint64) ([]uint64, error) {
	all, err := listLogs(dir)
	n, _ := slices.BinarySearch(all, folded+1)
	return all[:n], err
}
