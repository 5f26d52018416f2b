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
// and templates (each in any order), the format of its tokens and its path
// policy. Its name, methods, headers, and what else it covers do
// not count: changing them forgets no mark.
func Fingerprint(r Rule) tokenstore.Fingerprint {
	paths := slices.Sorted(slices.Values(r.Paths))
	fields := slices.Concat([]string{"route.1"}, paths)
	var templates []string
	for _, spec := range r.Keys {
		templates = append(templates, spec.Key)
	}
	slices.Sort(templates)
	for _, t := range templates {
		fields = append(fields, "key", t) // "key" is no path
	}
	fields = append(fields, "format", r.Format.String(), "path_policy", r.Policy.String())
	var b strings.Builder
	for _, f := range fields {
		// The length in front keeps different lists different.
		b.WriteString(strconv.Itoa(len(f)) + ":" + f)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return tokenstore.Fingerprint(hex.EncodeToString(sum[:16]))
}
