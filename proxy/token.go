package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// What a fencing or holder header can be, beside right or
// tokenstore.ErrMalformed.
var (
	errTokenRequired    = errors.New("there is no fencing token")
	errTokenAmbiguous   = errors.New("there is more than one fencing token")
	errHolderRequired   = errors.New("there is no holder")
	errHolderAmbiguous  = errors.New("there is more than one holder")
	errTokenImplausible = errors.New("the token is above max_token")
)

// maxHolder is the longest name of a holder in bytes: it is stored with every
// record.
const maxHolder = 256

// token is one fencing token as it came.
type token struct {
	header  string
	text    string // as the client wrote it
	value   tokenstore.Token
	missing bool // there is none, and none has to be
}

// readTokens takes the tokens of all keys, and the holder, from their headers:
// first it looks whether they are there, then at their form. Whatever its
// error, there is one in x.tokens for each key.
func (x *exchange) readTokens() error {
	var absent string
	x.tokens = x.one.token[:0]
	for _, name := range x.rule.Headers {
		text, n := single(x.r.Header, name)
		if n == 0 && absent == "" {
			absent = name
		}
		x.tokens = append(x.tokens, token{header: name, text: text, missing: n == 0})
	}
	switch {
	case absent != "" && !x.rule.Optional:
		return fmt.Errorf("%w: send the token of your lease in %s", errTokenRequired, absent)
	case x.tokenless():
		return nil // whose it is, nobody asks
	}
	if name := x.rule.HolderHeader; name != "" {
		text, n := single(x.r.Header, name)
		switch {
		case n == 0 || text == "":
			return fmt.Errorf("%w: say in %s who holds the lease", errHolderRequired, name)
		case n > 1:
			return fmt.Errorf("%w: send %s once", errHolderAmbiguous, name)
		}
		if len(text) > maxHolder {
			return fmt.Errorf("%w: %s has %d bytes, at most %d are allowed", tokenstore.ErrMalformed, name, len(text), maxHolder)
		}
		x.holder = text
	}
	for i := range x.tokens {
		if t := &x.tokens[i]; !t.missing {
			if err := x.parse(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// tokenless reports whether the request carries none of its rule's tokens.
func (x *exchange) tokenless() bool {
	return !slices.ContainsFunc(x.tokens, func(t token) bool { return !t.missing })
}

// parse reads the token byte for byte: exactly one line with exactly one
// value.
func (x *exchange) parse(t *token) error {
	if len(x.r.Header[t.header]) > 1 || strings.Contains(t.text, ",") {
		return fmt.Errorf("%w: send %s once, with one token", errTokenAmbiguous, t.header)
	}
	value, err := x.rule.Format.Parse(t.text)
	if err != nil {
		return fmt.Errorf("%s: %w", t.header, err)
	}
	t.value = value
	t.value.Epoch = x.rule.Epoch
	return nil
}

// single returns the first line of a header and how many there are.
func single(h http.Header, name string) (first string, n int) {
	lines := h[name]
	if len(lines) == 0 {
		return "", 0
	}
	return lines[0], len(lines)
}
