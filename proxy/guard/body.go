package guard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	maxBody     = 64 << 10
	bodyTimeout = 10 * time.Second
)

// ReadBody reads a request's body, one JSON object, into v: strictly, since what
// is misspelt or doubled would otherwise be silently left out. Its errors are
// meant for the caller.
func ReadBody(w http.ResponseWriter, r *http.Request, v any) error {
	// Where the connection has no deadline (a test's) there is none to set.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
			return fmt.Errorf("the body is longer than %d bytes", maxBody)
		}
		return errors.New("the body did not come in whole")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if err := once(b); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("the body must be one JSON object: %w", err)
	}
	return nil
}

// once refuses a body that is not one object, or names a member twice, in any
// case of letters: encoding/json takes "Token" for "token", a long s for an s, and
// the last of two.
func once(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return errors.New("the body must be one JSON object")
	}
	seen := map[string]bool{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return errors.New("the body is not JSON")
		}
		key, _ := name.(string)
		if seen[key] {
			return fmt.Errorf("the body names %q twice", key)
		}
		if strings.ContainsFunc(key, func(c rune) bool { return c > '~' || c >= 'A' && c <= 'Z' }) {
			return fmt.Errorf("the body names %q: members are in lower case, of ASCII letters", key)
		}
		seen[key] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return errors.New("the body is not JSON")
		}
	}
	if _, err := d.Token(); err != nil {
		return errors.New("the body is not JSON")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows behind the body's object")
	}
	return nil
}
