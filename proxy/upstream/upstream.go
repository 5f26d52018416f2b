// Package upstream is the hop to the upstream: it sends a request exactly
// once, and knows exactly whether it was sent and whether its answer is whole.
//
// Ordinary HTTP clients retry, pool, follow redirects and cancel behind one's
// back; behind a fence each of these is an unsafe second copy of a write or a
// write lost from sight (rules 9, 10 and 11 of the protocol; stories D, I and
// J). Here one Send is one attempt on one connection, and its outcome is
// settled, unsettled or not sent. Every path that does not prove otherwise is
// unsettled, panics included.
//
// What is proved, and by what:
//
//	not sent   the kernel took no byte of the request
//	settled    the answer came in full and the request was wholly sent, or the
//	           answer in full is a refusal (400 or more) that came before that;
//	           and its status is none of UnsettledStatuses
//	unsettled  everything else
//
// A request is wholly sent when the kernel has taken its last byte. An answer
// has come in full at its Content-Length, at the end of its last chunk's
// trailers, at its head where it has no body, and, where it has neither length
// nor chunks, at the upstream's FIN. (HTTP/1.0 servers end every answer like
// that, so a FIN has to count; a reset never does, nor does an end of the
// stream after a write that failed, because the kernel tells of a reset once
// and of a plain end ever after.)
//
// A websocket is unsettled however it ends, an orderly close included: it has
// no answer, and no end of a connection stands for one. Servers that work on
// events (Node's ws, for one) answer a close frame or a FIN with their own at
// once, while a handler still applies the message before it. So what came
// through a tunnel is over when the settle time behind its end is.
//
// Over TLS the same holds of the encrypted bytes (see secure), and the FIN is
// the upstream's close_notify: an end that anybody on the way could have made
// is none.
//
// It speaks HTTP/1.1, where every request has a connection of its own unless
// Options.IdleTimeout says otherwise, or HTTP/2 (see h2.go), over TCP, TLS, or
// a unix socket.
package upstream

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
)

const (
	defaultConnectTimeout = 5 * time.Second
	defaultMaxHeader      = 64 << 10
)

// Options says where the upstream is and how it is spoken to.
type Options struct {
	// URL is http://host[:port][/path], or https, or h2c for HTTP/2 in clear
	// text. The path is put in front of every target as it stands, without its
	// trailing slash. With the scheme unix, the path is the socket's and nothing
	// else is set.
	URL *url.URL
	// TLS is for an https URL; nil means the defaults.
	TLS *TLS
	// ConnectTimeout bounds the making of a connection, TLS included; 0 means
	// 5 s.
	ConnectTimeout time.Duration
	// PreserveHost forwards the client's Host; otherwise it is the URL's, and
	// "localhost" for a unix socket.
	PreserveHost bool
	// TrustedProxies are clients whose Forwarded and X-Forwarded-* are passed
	// on and extended; from everybody else they are replaced.
	TrustedProxies []netip.Prefix
	// UnsettledStatuses are final statuses, 200 to 599, that do not prove that
	// the write is over (rule 10).
	UnsettledStatuses []int
	// MaxHeader bounds one head or trailer block of an answer, in bytes; 0
	// means 64 KiB.
	MaxHeader int
	// IdleTimeout keeps connections for later requests, for so long at most; 0
	// keeps none. It has to be shorter than the upstream keeps them: a write
	// that meets an upstream just closing its end becomes unsettled. A kept
	// connection on which the kernel takes no byte at all is replaced by a
	// fresh one.
	IdleTimeout time.Duration
}

// Upstream sends requests to one upstream. It is safe for concurrent use; one
// request never waits for another.
type Upstream struct {
	host         string // as it stands in a Host header
	addr         string // where it is, for errors
	prefix       string // put in front of every target, without trailing slash
	preserveHost bool
	trusted      []netip.Prefix
	unsettled    []int
	maxHeader    int

	// dial makes one connection. It is the place where tests put a pipe.
	dial func(ctx context.Context) (net.Conn, error)

	pool pool
	h2   *h2pool // nil: HTTP/2 is not spoken

	readers sync.Pool // *bufio.Reader
	buffers sync.Pool // *[]byte, chunkBuffer long
	heads   sync.Pool // *[]byte, for a head and a small body; maxHeads long at most
}

// New returns the upstream at o.URL. It opens no connection. Its errors name
// the setting that is wrong and what would be right.
func New(o Options) (*Upstream, error) {
	if o.URL == nil {
		return nil, fmt.Errorf("upstream.url is missing: give one like http://127.0.0.1:9000")
	}
	if err := checkURL(o.URL); err != nil {
		return nil, err
	}
	if o.TLS != nil && o.URL.Scheme != schemeHTTPS {
		return nil, fmt.Errorf("upstream.tls is for an https URL, and upstream.url %s is none", o.URL.Redacted())
	}
	if o.ConnectTimeout < 0 || o.IdleTimeout < 0 || o.MaxHeader < 0 {
		return nil, fmt.Errorf("connect timeout %v, idle timeout %v and header limit %d must not be negative", o.ConnectTimeout, o.IdleTimeout, o.MaxHeader)
	}
	for _, s := range o.UnsettledStatuses {
		if s < 200 || s > 599 {
			return nil, fmt.Errorf("unsettled_statuses: %d is not the status of a final answer; use 200 to 599", s)
		}
	}
	d := &dialer{timeout: o.ConnectTimeout}
	if d.timeout == 0 {
		d.timeout = defaultConnectTimeout
	}
	u := &Upstream{
		dial:         d.dial,
		preserveHost: o.PreserveHost,
		trusted:      slices.Clone(o.TrustedProxies),
		unsettled:    slices.Clone(o.UnsettledStatuses),
		maxHeader:    o.MaxHeader,
		pool:         pool{ttl: o.IdleTimeout},
	}
	if u.maxHeader == 0 {
		u.maxHeader = defaultMaxHeader
	}
	d.network, d.addr, u.host = place(o.URL)
	u.addr = d.String()
	if o.URL.Scheme != schemeUnix {
		u.prefix = strings.TrimRight(o.URL.EscapedPath(), "/")
	}
	if o.URL.Scheme == schemeHTTPS {
		var t TLS
		if o.TLS != nil {
			t = *o.TLS
		}
		d.tls = t.config(o.URL.Hostname(), http2.NextProtoTLS, "http/1.1")
		plain := *d
		plain.tls = t.config(o.URL.Hostname(), "http/1.1")
		u.h2 = &h2pool{u: u, scheme: "https", setup: d.timeout, stuck: h2StuckWrite, passOver: h2PassOver, dialHTTP1: plain.dial}
	}
	if o.URL.Scheme == schemeH2C {
		u.h2 = &h2pool{u: u, scheme: "http", only: true, setup: d.timeout, stuck: h2StuckWrite, passOver: h2PassOver}
	}
	u.readers.New = func() any { return bufio.NewReader(nil) }
	u.heads.New = func() any { b := make([]byte, 0, 1<<10); return &b }
	u.buffers.New = func() any { b := make([]byte, chunkBuffer); return &b }
	return u, nil
}

// Close closes the connections that are idle, and those in use as their answers
// are closed. It does not wait and does not end a request.
func (u *Upstream) Close() {
	u.pool.close()
	if u.h2 != nil {
		u.h2.close()
	}
}

// The schemes of Options.URL.
const (
	schemeHTTP  = "http"
	schemeHTTPS = "https"
	schemeH2C   = "h2c"
	schemeUnix  = "unix"
)

func checkURL(u *url.URL) error {
	switch {
	case u.Scheme == schemeUnix:
		if len(u.Path) < 2 || u.Path[0] != '/' || u.Host != "" {
			return fmt.Errorf("upstream.url unix:%s: give the path of a socket like unix:/run/api.sock", u.Path)
		}
		return nil
	case u.Scheme != schemeHTTP && u.Scheme != schemeHTTPS && u.Scheme != schemeH2C:
		return fmt.Errorf("upstream.url %s: scheme %q is not known here; use http://, https://, h2c:// or unix:/path", u.Redacted(), u.Scheme)
	case u.Hostname() == "" || !httpguts.ValidHostHeader(u.Host):
		return fmt.Errorf("upstream.url %s: there is no valid host; give one like http://127.0.0.1:9000", u.Redacted())
	case u.User != nil:
		return fmt.Errorf("upstream.url %s: a user name is not sent to the upstream; take it out", u.Redacted())
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return fmt.Errorf("upstream.url %s: a query or fragment cannot be put in front of targets; take it out", u.Redacted())
	case u.Path != "" && checkTarget(u.EscapedPath()) != nil:
		return fmt.Errorf("upstream.url %s: the path must begin with a slash", u.Redacted())
	}
	return nil
}
