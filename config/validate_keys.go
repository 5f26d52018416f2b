package config

import (
	"fmt"
	"strings"
)

// maxKeys is how many resources one request may name.
const maxKeys = 16

// key looks at what gives a request its resources: key or keys, not both.
func (v *validator) key(path string, r *Rule, p Policy) {
	one, several := r.Key != "", v.cfg.given(path+".keys")
	switch fenced := p.Token != TokenNone; {
	case one && several:
		v.fail(path+".keys", "stands beside key", "one of them: key for one resource in a request, keys for several")
	case fenced && !one && !several && !v.bad[path+".token"]:
		v.fail(path+".key", "is missing", "what the path names, as in account:{id}; or token: none")
	case !fenced && one:
		v.warn(path+".key", "has no effect: the rule has token: none", "leave it out")
	case !fenced && several:
		v.warn(path+".keys", "has no effect: the rule has token: none", "leave it out")
	}
	if several {
		v.keys(path+".keys", r.Keys, p)
	}
}

func (v *validator) keys(path string, keys []Key, p Policy) {
	if len(keys) == 0 || len(keys) > maxKeys {
		v.fail(path, fmt.Sprintf("holds %d keys", len(keys)), fmt.Sprintf("1 to %d, each as {key: TEMPLATE, header: NAME}", maxKeys))
	}
	for i, k := range keys {
		at := fmt.Sprintf("%s[%d]", path, i)
		if k.Template == "" {
			v.fail(at+".key", "is missing", `a template, as in "account:{json:/from}"`)
		}
		if !v.cfg.given(at + ".header") {
			continue // the rule's, which is looked at there
		}
		v.header(at+".header", k.Header, tokenHeader)
		if k.Header != "" && strings.EqualFold(k.Header, p.HolderHeader) {
			v.fail(at+".header", k.Header+" is the holder_header", "a header of its own, as in "+tokenHeader)
		}
	}
}
