package proxy

import (
	"errors"
	"fmt"
	"strings"
)

// What a fencing header can be, beside right or tokenstore.ErrMalformed.
var (
	errTokenRequired  = errors.New("there is no fencing token")
	errTokenAmbiguous = errors.New("there is more than one fencing token")
)

// readToken takes the fencing token from the rule's header: exactly one line
// with exactly one value, byte for byte.
func (x *exchange) readToken() error {
	lines := x.r.Header[x.rule.Header]
	switch {
	case len(lines) == 0:
		return fmt.Errorf("%w: send the token of your lease in %s", errTokenRequired, x.rule.Header)
	case len(lines) > 1 || strings.Contains(lines[0], ","):
		return fmt.Errorf("%w: send %s once, with one token", errTokenAmbiguous, x.rule.Header)
	}
	t, err := x.rule.Format.Parse(lines[0])
	if err != nil {
		return fmt.Errorf("%s: %w", x.rule.Header, err)
	}
	x.token, x.tokenText = t, lines[0]
	return nil
}
