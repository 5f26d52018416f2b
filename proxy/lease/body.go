package lease

import (
	"net/http"
	"slices"

	"github.com/fenceproxy/fenceproxy/proxy/guard"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// read reads the key and the body of a request that changes something; names
// are the members that it may have. Where ok is false the request is answered.
func (a *api) read(w http.ResponseWriter, r *http.Request, names ...string) (key tokenstore.Key, body wire.LeaseRequest, ok bool) {
	key, err := keyOf(r)
	if err != nil {
		guard.Unread(w, r)
	} else if err = guard.ReadBody(w, r, &body, names...); err != nil {
		err = &RequestError{err.Error()}
	} else if slices.Contains(names, "id") && body.ID == "" {
		err = &RequestError{`"id" is missing: the one that the lease was granted with`}
	}
	if err != nil {
		problem(key, err).Write(w)
		return key, body, false
	}
	return key, body, true
}
