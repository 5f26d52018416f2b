package proxy

import (
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/fenceproxy/fenceproxy/proxy/upstream"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// relay passes the answer on to the client, and settles the write as soon as
// the answer is whole: before the last of it is written, since a client that
// reads slowly must not hold its key (L2).
func (x *exchange) relay(a *upstream.Answer) {
	x.relayHead(a)
	out := x.newClient()
	defer out.close()
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)

	if a.Length < 0 && a.Status != http.StatusNoContent {
		out.flush() // the first of its body may come late
	}
	for {
		n, err := a.Read(*buf)
		if err == io.EOF {
			x.over(a)
			out.undeadline()
			out.write((*buf)[:n])
			x.relayTrailer(a)
			break
		}
		if n > 0 {
			out.write((*buf)[:n])
			out.flush()
		}
		if err != nil {
			x.settle(string(a.Outcome().Reason))
			x.cause = err
			panic(http.ErrAbortHandler) // the client must see a broken answer
		}
		if out.gone && !x.fenced {
			return // nobody wants the rest
		}
	}
	if out.gone {
		panic(http.ErrAbortHandler)
	}
}

// over settles the write whose answer has come in full.
func (x *exchange) over(a *upstream.Answer) {
	if !x.fenced {
		return
	}
	// After an early answer the client may still be uploading. It is a part
	// of the write; a raise cuts it.
	<-a.UploadDone()
	if o := a.Outcome(); o.Fate == upstream.Settled {
		x.settle("")
	} else {
		x.settle(string(o.Reason))
	}
}

// relayHead passes on the answer's head, with what the fence has to say.
func (x *exchange) relayHead(a *upstream.Answer) {
	x.status, x.decision = a.Status, decisionPassed
	h := x.w.Header()
	for name, values := range a.Header {
		if !strings.HasPrefix(name, wire.HeaderPrefix) {
			h[name] = values
		}
	}
	for name := range a.Trailer {
		h.Add("Trailer", name)
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // net/http would guess one
	}
	if a.Refused {
		h.Set("Connection", "close") // the rest of the upload is not read
	}
	if x.fenced {
		x.decision = decisionAdmitted
		x.say(wire.ResultAdmitted, wire.ForwardedYes)
	}
	x.w.WriteHeader(a.Status)
}

// relayInformational passes on a 1xx answer.
func (x *exchange) relayInformational(status int, header http.Header) {
	if status == http.StatusContinue {
		return // net/http in front deals with the client's Expect
	}
	h := x.w.Header()
	for name, values := range header {
		h[name] = values
	}
	x.w.WriteHeader(status)
	clear(h)
}

// relayTrailer passes on the answer's trailers, announced or not.
func (x *exchange) relayTrailer(a *upstream.Answer) {
	h := x.w.Header()
	for name, values := range a.Trailer {
		if values != nil && !strings.HasPrefix(name, wire.HeaderPrefix) {
			h[http.TrailerPrefix+name] = values
		}
	}
}
