package route

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// Fingerprint stands for what decides the rule's keys and marks: its paths
// (in any order), its template, the format of its tokens and its path policy,
// which is always the default so far. Its name, methods and headers do not
// count: changing them forgets no mark.
func Fingerprint(r Rule) tokenstore.Fingerprint {
	paths := slices.Sorted(slices.Values(r.Paths))
	fields := slices.Concat([]string{"route.1"}, paths, []string{"key", r.Key, "format", r.Format.String(), "path_policy", ""})
	var b strings.Builder
	for _, f := range fields {
		// The length in front keeps different lists different.
		b.WriteString(strconv.Itoa(len(f)) + ":" + f)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return tokenstore.Fingerprint(hex.EncodeToString(sum[:16]))
}
