package lease

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

const maxBody = 8 << 10

// read reads the key and the body of a request that changes something; names
// are the members that it may have. Where ok is false the request is answered.
func (a *api) read(w http.ResponseWriter, r *http.Request, names ...string) (key tokenstore.Key, body wire.LeaseRequest, ok bool) {
	key, err := keyOf(r)
	if err == nil {
		body, err = a.readBody(w, r, names)
	}
	if err != nil {
		problem(key, err).Write(w)
		return key, body, false
	}
	return key, body, true
}

func (a *api) readBody(w http.ResponseWriter, r *http.Request, names []string) (wire.LeaseRequest, error) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return wire.LeaseRequest{}, &RequestError{fmt.Sprintf("the body has more than %d bytes", maxBody)}
	}
	if err != nil {
		return wire.LeaseRequest{}, &RequestError{"the body did not come in full"}
	}
	// With the body's end net/http has taken its deadline away, and watches for a
	// client that leaves.
	return decode(text, names)
}

// decode is strict where encoding/json is not: a member that is unknown, stands
// twice, is null or is spelt in other letter case could be read in another way
// elsewhere.
func decode(text []byte, names []string) (body wire.LeaseRequest, err error) {
	if !utf8.Valid(text) {
		return body, &RequestError{"the body is not UTF-8"}
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return body, &RequestError{"the body must be a JSON object"}
	}
	var seen []string
	for dec.More() {
		t, err := dec.Token()
		name, _ := t.(string)
		var value json.RawMessage
		if err == nil {
			err = dec.Decode(&value)
		}
		switch {
		case err != nil:
			return body, &RequestError{"the body is not JSON: " + err.Error()}
		case !slices.Contains(names, name):
			return body, &RequestError{fmt.Sprintf("%q is no member of this request; these are: %s", name, strings.Join(names, ", "))}
		case slices.Contains(seen, name):
			return body, &RequestError{fmt.Sprintf("%q stands twice", name)}
		}
		seen = append(seen, name)
		if err := member(&body, name, value); err != nil {
			return body, &RequestError{fmt.Sprintf("%q: %s", name, err)}
		}
	}
	if _, err := dec.Token(); err != nil {
		return body, &RequestError{"the body is not JSON: " + err.Error()}
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return body, &RequestError{"something stands behind the JSON object"}
	}
	if slices.Contains(names, "id") && body.ID == "" {
		return body, &RequestError{`"id" is missing: the one that the lease was granted with`}
	}
	return body, nil
}

// member reads one member.
func member(body *wire.LeaseRequest, name string, value json.RawMessage) error {
	var to any
	want := "a string"
	switch name {
	case "id":
		to = &body.ID
	case "holder":
		to = &body.Holder
	case "rule":
		to = &body.Rule
	case "ttl":
		to, want = &body.TTL, `a duration like "10s" or "1m30s"`
	case "wait":
		to, want = &body.Wait, `a duration like "10s" or "1m30s"`
	case "fence":
		to, want = &body.Fence, "true or false"
	}
	if string(value) == "null" || json.Unmarshal(value, to) != nil {
		return errors.New("must be " + want)
	}
	return nil
}
