package guard

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

const maxBody = 64 << 10

// ReadBody reads a request's body, one JSON object, into the struct that v
// points to; names, where there are any, are those of its members that may
// stand there. It is strict where encoding/json is not: a member that is
// unknown, stands twice, is null, or is spelt in other letter case could be
// read in another way elsewhere. Its errors are meant for the caller.
func ReadBody(w http.ResponseWriter, r *http.Request, v any, names ...string) error {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return fmt.Errorf("the body has more than %d bytes", maxBody)
	}
	if err != nil {
		return errors.New("the body did not come in whole")
	}
	// What follows may wait for long. Where the connection has no deadline (a
	// test's) there is none to take away.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return decode(text, membersOf(v, names))
}

// member is one that may stand in a body.
type member struct {
	name string
	to   reflect.Value
}

func membersOf(v any, names []string) []member {
	s := reflect.ValueOf(v).Elem()
	all := namesOf(s.Type())
	members := make([]member, 0, len(all))
	for i, name := range all {
		if len(names) == 0 || slices.Contains(names, name) {
			members = append(members, member{name, s.Field(i)})
		}
	}
	return members
}

var knownNames sync.Map // of a reflect.Type, the names of its fields in JSON

// namesOf looks at a type once: a few in a program, and many bodies of each.
func namesOf(t reflect.Type) []string {
	if names, ok := knownNames.Load(t); ok {
		return names.([]string)
	}
	var names []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	knownNames.Store(t, names)
	return names
}

func decode(text []byte, members []member) error {
	seen := make([]bool, len(members))
	return eachMember(text, func(name string, value []byte) error {
		at := slices.IndexFunc(members, func(m member) bool { return m.name == name })
		switch {
		case at < 0:
			return fmt.Errorf("%q is no member of this request; these are: %s", name, list(members))
		case seen[at]:
			return fmt.Errorf("%q stands twice", name)
		}
		seen[at] = true
		if err := members[at].read(value); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		return nil
	})
}

func list(members []member) string {
	names := make([]string, len(members))
	for i := range members {
		names[i] = members[i].name
	}
	return strings.Join(names, ", ")
}

// read takes the member's value. A type of its own says what it wants.
func (m member) read(value []byte) error {
	if string(value) == "null" {
		return errors.New("must have a value, or be left out")
	}
	to := m.to.Addr().Interface()
	err := json.Unmarshal(value, to)
	if err == nil {
		return nil
	}
	if text, own := to.(encoding.TextUnmarshaler); own {
		if value[0] != '"' { // encoding/json says of 10 only that it is a number
			if own := text.UnmarshalText(value); own != nil {
				err = own
			}
		}
		return err
	}
	kind := m.to.Type()
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	switch kind.Kind() {
	case reflect.String:
		return errors.New("must be a string")
	case reflect.Bool:
		return errors.New("must be true or false")
	}
	return fmt.Errorf("must be of another form: %w", err)
}
