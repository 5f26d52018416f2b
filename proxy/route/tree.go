package route

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/go-chi/chi/v5"
)

// leafMethod is the one method that every pattern is registered under. chi
// answers 405 to methods that it does not know, and falls through to a broader
// pattern where a narrow one has another method; so it never sees ours.
const leafMethod = http.MethodGet

// values are what the parameters of a pattern stand for, in their order.
type values [maxParams]string

// leaf is one pattern of the tree, with the rules that have it.
type leaf struct {
	rules []covering
}

// covering is a rule at a leaf.
type covering struct {
	*compiled
	pattern *pattern
	bound   []template // keys, bound to the pattern
}

// tree finds the most specific pattern that matches a path. It is not changed
// after New, and safe for concurrent use.
type tree struct {
	mux    *chi.Mux
	leaves map[string]*leaf // by the pattern as chi has it
	pool   sync.Pool        // of *chi.Context
}

func newTree() *tree {
	t := &tree{mux: chi.NewMux(), leaves: map[string]*leaf{}}
	t.pool.New = func() any { return chi.NewRouteContext() }
	return t
}

// add puts a rule's pattern in. What chi panics at becomes an error.
func (t *tree) add(chiPattern string, c covering) (err error) {
	if l := t.leaves[chiPattern]; l != nil {
		for _, have := range l.rules {
			if have.compiled == c.compiled {
				return nil // two spellings with one folded form
			}
		}
		l.rules = append(l.rules, c)
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the router does not take the pattern: %v", p)
		}
	}()
	t.mux.Method(leafMethod, chiPattern, http.NotFoundHandler())
	t.leaves[chiPattern] = &leaf{rules: []covering{c}}
	return nil
}

// find returns the leaf of a path and fills v, or returns nil.
func (t *tree) find(path string, v *values) *leaf {
	ctx := t.pool.Get().(*chi.Context)
	ctx.Reset()
	l := t.leaves[t.mux.Find(ctx, leafMethod, path)]
	if l != nil {
		copy(v[:], ctx.URLParams.Values)
	}
	t.pool.Put(ctx)
	return l
}

// sameKeys reports whether the path gives both of a rule's coverings the same
// values: as it stands (c, v, path), and folded (f, fv, fpath). Letter case
// counts in none of them, a trailing slash not in {path} and {*}.
func sameKeys(c *covering, v *values, path string, f *covering, fv *values, fpath string) bool {
	for k, t := range c.bound {
		for i, part := range t {
			switch part.from {
			case fromParam:
				if !lowersTo(v[part.index], fv[f.bound[k][i].index]) {
					return false
				}
			case fromRest:
				if !lowersTo(strings.TrimSuffix(v[part.index], "/"), fv[f.bound[k][i].index]) {
					return false
				}
			case fromPath, fromGRPCService, fromGRPCMethod:
				if path != fpath && !lowersTo(strings.TrimSuffix(path, "/"), fpath) {
					return false
				}
			}
		}
	}
	return true
}
