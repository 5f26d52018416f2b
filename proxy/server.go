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

// What one HTTP/2 connection may hold. Its window has room for all of its
// streams': an upload that waits in the gate never stops another one of the
// same client. The price is the bytes that a hostile connection can lay down
// in memory, streams * window.
const (
	maxStreams   = 100
	streamWindow = 64 << 10
)

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
		Protocols:                    protocols(),
		HTTP2:                        http2Limits(o),
	}
}

// protocols are HTTP/1 and HTTP/2, without TLS by prior knowledge: an upgrade
// to h2c comes to the handler as any other and is refused.
func protocols() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return &p
}

// http2Limits bound what net/http leaves open. ReadHeaderTimeout does not count
// on HTTP/2: a head that comes byte by byte is no frame, and so the client is
// asked whether it is there, and cannot answer before its head is whole. The
// pause before is longer than a client's short stop.
func http2Limits(o ServerOptions) *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams:          maxStreams,
		MaxReceiveBufferPerStream:     streamWindow,
		MaxReceiveBufferPerConnection: maxStreams * streamWindow,
		MaxReadFrameSize:              16 << 10, // the least that there is
		SendPingTimeout:               3 * o.HeaderTimeout,
		PingTimeout:                   o.HeaderTimeout,
		// A stream that cannot be written to is the client's right; a connection
		// that takes not a byte holds every one of its streams.
		WriteByteTimeout: 3 * o.HeaderTimeout,
	}
}
