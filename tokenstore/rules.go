package tokenstore

import "slices"

// Fingerprint stands for all that decides the keys of one rule: its paths,
// template, filters, format and path policy.
type Fingerprint string

// Rules are the fingerprints of the rules by their names.
type Rules map[string]Fingerprint

// Changed returns the names of the rules that are in both r and now, with
// another fingerprint, sorted. Rules that came or went are not changed.
func (r Rules) Changed(now Rules) []string {
	var names []string
	for name, fp := range now {
		if old, ok := r[name]; ok && old != fp {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
