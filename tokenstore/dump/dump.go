// Package dump is the form in which a token store is moved to another one:
// lines of JSON. The first is the Header, then one a key comes in the order of
// the keys, then one a lease likewise, and the last one counts them and has a
// checksum over all before it. A dump that was cut, changed or glued together is noticed at its end, so
// nothing of it is used before a Reader has come there.
package dump

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

const (
	kind = "export"
	// version 1 has no leases. A store that has never granted one is still
	// written in it.
	version = 2
	// maxLine is more than a key and a holder can take, whatever they are made of.
	maxLine = 1 << 20
)

// Header is what a dump says of the whole store.
type Header struct {
	// Clean says that no write was in flight or unsettled when the store was
	// last used. Where it is false its keys must be quarantined elsewhere too.
	Clean bool
	// Unordered says of an unclean store that writes may be on their way to
	// keys of which it has no record.
	Unordered bool
	// Settle is how long after an unclean stop they may still be applied.
	Settle     time.Duration
	ExportedAt time.Time
	// Rules and Epochs are what the store remembers of the rules.
	Rules  tokenstore.Rules
	Epochs map[string]uint64
	// Granted is the Major of the last token that was granted with a lease.
	Granted uint64
}

// Record is what a store has of one key.
type Record struct {
	Key tokenstore.Key
	tokenstore.Record
}

// headLine is a Header as it is written.
type headLine struct {
	Kind       string            `json:"fenceproxy"`
	Version    int               `json:"version"`
	Clean      bool              `json:"clean"`
	Unordered  bool              `json:"unordered,omitempty"`
	Settle     span              `json:"settle,omitempty"`
	ExportedAt time.Time         `json:"exported_at"`
	Rules      tokenstore.Rules  `json:"rules,omitempty"`
	Epochs     map[string]uint64 `json:"epochs,omitempty"`
	Granted    uint64            `json:"granted,omitempty"`
}

// recordLine is a Record as it is written.
type recordLine struct {
	Key      text      `json:"key"`
	Highest  mark      `json:"highest"`
	Clear    bool      `json:"clear,omitempty"`
	Holder   text      `json:"holder,omitempty"`
	RaisedAt time.Time `json:"raised_at"`
}

// lastLine ends a dump.
type lastLine struct {
	Keys   *int64 `json:"keys"`
	Leases int64  `json:"leases,omitempty"`
	SHA256 string `json:"sha256"` // of all lines before it
}

// text is a string of any bytes. JSON has only valid UTF-8 and would silently
// change the rest, and with it the key: that stands there as {"base64": …}.
type text string

type base64Text struct {
	Base64 []byte `json:"base64"`
}

func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return []byte(`{"base64":"` + base64.StdEncoding.EncodeToString([]byte(t)) + `"}`), nil
}

func (t *text) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var e base64Text
		err := json.Unmarshal(b, &e)
		*t = text(e.Base64)
		return err
	}
	return json.Unmarshal(b, (*string)(t))
}

// mark is a token with all its numbers, as EPOCH/MAJOR.MINOR: a store does not
// know the formats of the rules.
type mark tokenstore.Token

func (m mark) MarshalText() ([]byte, error) {
	return []byte(tokenstore.Composite.Print(tokenstore.Token(m))), nil
}

func (m *mark) UnmarshalText(b []byte) error {
	t, err := tokenstore.Composite.ParseMark(string(b))
	*m = mark(t)
	return err
}

// span is a time.Duration in words.
type span time.Duration

func (s span) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

func (s *span) UnmarshalText(b []byte) error {
	d, err := time.ParseDuration(string(b))
	if err == nil && d < 0 {
		err = errors.New("a time below 0")
	}
	*s = span(d)
	return err
}

// check refuses what no store has.
func (r *Record) check() error {
	if n := len(r.Key); n == 0 || n > tokenstore.MaxKey {
		return fmt.Errorf("a key of %d bytes (1 to %d are allowed)", n, tokenstore.MaxKey)
	}
	return checkTime(r.RaisedAt)
}

// checkTime refuses a time that can be read and not be written again: dumps have
// all of them in UTC, where another zone's last hours are of the year 10000.
func checkTime(t time.Time) error {
	if y := t.UTC().Year(); y < 0 || y > 9999 {
		return fmt.Errorf("a time of the year %d (0 to 9999 in UTC are allowed)", y)
	}
	return nil
}
