package admin

import (
	"errors"
	"net/http"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// refuse answers for the guard.
func refuse(w http.ResponseWriter, status int, detail string) {
	name := wire.AdminForbidden
	switch status {
	case http.StatusUnauthorized:
		name = wire.AdminUnauthorized
	case http.StatusUnsupportedMediaType:
		name = wire.AdminMediaType
	}
	wire.NewRefusal(name, detail).Write(w)
}

func malformed(detail string) *wire.Refusal { return wire.NewRefusal(wire.AdminMalformed, detail) }

// refusalOf tells an error of the gate or the store in the words of the API.
// format is that of the key's tokens.
func refusalOf(err error, format tokenstore.Format) *wire.Refusal {
	var said *wire.Refusal
	var stale *gate.StaleError
	var stored *tokenstore.StaleError
	var collision *tokenstore.CollisionError
	var used *tokenstore.InUseError
	var drain *gate.DrainTimeoutError
	switch {
	case errors.As(err, &said):
		return said
	case errors.As(err, &stored):
		return refusalOf(&gate.StaleError{Key: stored.Key, Token: stored.Token, Highest: stored.Highest}, format)
	case errors.As(err, &stale):
		r := wire.NewRefusal(wire.StaleToken, "the token is lower than the highest one on record; take a higher one")
		r.Key, r.Highest = string(stale.Key), format.Print(stale.Highest)
		return r
	case errors.As(err, &collision):
		r := wire.NewRefusal(wire.TokenCollision, "the token is on record with another holder; take a higher one, or name that holder")
		r.Key, r.Highest = string(collision.Key), format.Print(collision.Token)
		return r
	case errors.As(err, &used):
		r := wire.NewRefusal(wire.AdminInUse, "the key is in use: "+used.Why)
		r.Key, r.Retryable = string(used.Key), true
		return r
	case errors.As(err, &drain):
		r := wire.NewRefusal(wire.DrainTimeout, "the token counts already, but older writes are still running, unsettled or quarantined; raise it again to wait on, or settle the key if you know that they are over")
		r.Key, r.RetryAfter = string(drain.Key), drain.RetryAfter
		return r
	case errors.Is(err, gate.ErrManyVouched):
		return wire.NewRefusal(wire.AdminInUse, err.Error())
	case errors.Is(err, gate.ErrStopping):
		return wire.NewRefusal(wire.ShuttingDown, "the proxy is stopping; look at the key when it is back, and ask again")
	case errors.Is(err, gate.ErrOverloaded):
		return wire.NewRefusal(wire.Overloaded, "too many writes are waiting; the token may count already, as the key tells: raise it again later")
	case errors.Is(err, gate.ErrTooManyKeys):
		return wire.NewRefusal(wire.TooManyKeys, "the key has no record yet, and the store has as many keys as limits.max_keys lets it; nothing was raised: raise that limit, or forget keys that no old writer can still write")
	case errors.Is(err, tokenstore.ErrMalformed):
		return wire.NewRefusal(wire.TokenMalformed, err.Error())
	case errors.Is(err, gate.ErrLeft):
		return wire.NewRefusal(wire.AdminMalformed, "the caller left while it waited; the token may count already")
	}
	return wire.NewRefusal(wire.StoreUnavailable, err.Error()+"; whether anything was changed is not known: look at the key")
}

// refusalOfRead is refusalOf for what only reads, and for a change that was not
// begun.
func refusalOfRead(err error, format tokenstore.Format) *wire.Refusal {
	r := refusalOf(err, format)
	if r.Name() == wire.StoreUnavailable {
		r.Detail = err.Error() + "; nothing was changed"
	}
	return r
}
