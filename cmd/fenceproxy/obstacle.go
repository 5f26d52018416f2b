package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fenceproxy/fenceproxy/proxy/route"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// obstacles returns all that keeps a running proxy from taking over what is
// planned, as far as it can be seen without the store, or nil. changed are the
// settings that are others than in force.
func obstacles(before, now planned, changed []string) error {
	var all []string
	if fixed := slices.DeleteFunc(slices.Clone(changed), reloadable); len(fixed) > 0 {
		all = append(all, fmt.Sprintf("a change of %s needs a restart", strings.Join(fixed, ", ")))
	}
	if rules := before.fingerprints.Changed(now.fingerprints); len(rules) > 0 {
		all = append(all, keysOtherwise(rules))
	}
	all = append(all, takenOver(before, now)...)
	for _, name := range slices.Sorted(maps.Keys(now.epochs)) {
		if epoch := now.epochs[name]; epoch < before.epochs[name] {
			all = append(all, (&tokenstore.EpochError{Rule: name, Epoch: epoch, Highest: before.epochs[name]}).Error())
		}
	}
	if all == nil {
		return nil
	}
	return errors.New(strings.Join(all, "; ") + "; nothing was changed: undo it in the file, which the next start reads too, or restart where it needs one")
}

func keysOtherwise(rules []string) string {
	return fmt.Sprintf("the keys of rule %s would be made otherwise, or its tokens read otherwise, which needs a restart (a path more goes into a rule of its own with the same key)", strings.Join(rules, ", "))
}

// takenOver tells of paths that a new rule takes over from one of another name,
// with other keys: what was raised there would count no more, and the store,
// which knows rules by their names, would not notice. It sees the same pattern
// only, not a narrower one.
func takenOver(before, now planned) (told []string) {
	for _, rule := range now.routes {
		if _, there := before.fingerprints[rule.Name]; there || rule.NoKey {
			continue
		}
		for _, path := range rule.Paths {
			for _, old := range before.routes {
				if !old.NoKey && slices.Contains(old.Paths, path) && shareMethod(old.Methods, rule.Methods) && keysOf(old, path) != keysOf(rule, path) {
					told = append(told, fmt.Sprintf("rule %s would make the keys of %s otherwise than rule %s, and forget its tokens there, which needs a restart (the template of before keeps them)", rule.Name, path, old.Name))
				}
			}
		}
	}
	return told
}

// keysOf stands for the keys that a rule makes on one of its paths.
func keysOf(r route.Rule, path string) tokenstore.Fingerprint {
	r.Paths = []string{path}
	return route.Fingerprint(r)
}

// shareMethod reports whether some method is in both lists, of which nil stands
// for every write.
func shareMethod(a, b []string) bool {
	if a == nil {
		a, b = b, a
	}
	return a == nil || slices.ContainsFunc(a, func(m string) bool {
		return b == nil && !route.IsSafe(m) || slices.Contains(b, m)
	})
}
