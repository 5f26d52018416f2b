package proxy

import (
	"net/http"
	"time"

	"go.uber.org/zap"
)

// ServerOptions are what the data port's listener allows its clients.
type ServerOptions struct {
	HeaderTimeout time.Duration // for a request's head
	IdleTimeout   time.Duration // between requests
	MaxHeader     int           // bytes of a request's head
}

// NewServer returns the server of the data port. It has no read or write
// timeout of its own: the answer of a write that waits would be lost while
// its handler runs on.
func NewServer(h *Handler, o ServerOptions) *http.Server {
	errorLog, _ := zap.NewStdLogAt(h.Log.Named("http"), zap.DebugLevel) // it knows the level
	return &http.Server{
		Handler:                      h,
		ReadHeaderTimeout:            o.HeaderTimeout,
		IdleTimeout:                  o.IdleTimeout,
		MaxHeaderBytes:               o.MaxHeader,
		ConnContext:                  ConnContext,
		ErrorLog:                     errorLog,
		DisableGeneralOptionsHandler: true, // it would answer `OPTIONS *` before the fence sees it
	}
}
