package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/fenceproxy/fenceproxy/proxy/wire"
)

// What the admin API takes and answers with.
type (
	KeyStatus     = wire.KeyStatus
	KeyLease      = wire.KeyLease
	KeyList       = wire.KeyList
	ListedKey     = wire.ListedKey
	RaiseRequest  = wire.RaiseRequest
	SettleReport  = wire.SettleReport
	InFlight      = wire.InFlight
	Unsettled     = wire.Unsettled
	BusyInFlight  = wire.BusyInFlight
	BusyUnsettled = wire.BusyUnsettled
	ForgetRequest = wire.ForgetRequest
	ForgetReport  = wire.ForgetReport
	CheckReport   = wire.CheckReport
	ImportReport  = wire.ImportReport
	// Refusal is the error of what the admin API refuses, with its problem name
	// and what to do.
	Refusal = wire.Refusal
)

// AdminOptions say where the admin listener is.
type AdminOptions struct {
	// Address is host:port, for plain HTTP, or a URL without a path.
	Address string
	// Token is its bearer token; "" for none.
	Token string
	// TLS is used for https; nil for the system's authorities.
	TLS *tls.Config
}

// Admin talks to the admin API of one proxy. It is safe for concurrent use.
// Errors of the API are a *Refusal.
type Admin struct {
	base  string
	token string
	http  *http.Client
}

// NewAdmin returns a client. It connects with the first call.
func NewAdmin(o AdminOptions) (*Admin, error) {
	address := o.Address
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q is no admin address: host:port, or a URL as in https://host:port", o.Address)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = o.TLS
	return &Admin{base: u.Scheme + "://" + u.Host, token: o.Token, http: &http.Client{
		Transport: transport,
		// The token goes where it was meant to go, and nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Keys returns a page of the keys that begin with prefix and come behind after;
// limit is 1 to 1,000, or 0 for the server's choice.
func (a *Admin) Keys(ctx context.Context, prefix, after string, limit int) (KeyList, error) {
	return a.list(ctx, url.Values{}, prefix, after, limit)
}

// BusyKeys returns, as Keys does, those on which writes are in flight, unsettled
// or waiting at this proxy, with or without a record: what goes on at others over
// a shared store they alone know. A page may be empty and not the last.
func (a *Admin) BusyKeys(ctx context.Context, prefix, after string, limit int) (KeyList, error) {
	return a.list(ctx, url.Values{"busy": {"true"}}, prefix, after, limit)
}

func (a *Admin) list(ctx context.Context, q url.Values, prefix, after string, limit int) (list KeyList, err error) {
	set(q, "prefix", prefix)
	set(q, "after", after)
	if limit != 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	return list, a.call(ctx, http.MethodGet, wire.KeysPath+"?"+q.Encode(), nil, &list)
}

// Key tells what goes on at a key. rule is needed where the rules that can make
// it differ in format or epoch; it may be empty otherwise.
func (a *Admin) Key(ctx context.Context, key, rule string) (st KeyStatus, err error) {
	q := url.Values{}
	set(q, "rule", rule)
	return st, a.call(ctx, http.MethodGet, keyPath(key)+"?"+q.Encode(), nil, &st)
}

// Raise announces a new holder, and waits until every older write is over.
func (a *Admin) Raise(ctx context.Context, key string, r RaiseRequest) (st KeyStatus, err error) {
	return st, a.call(ctx, http.MethodPost, keyPath(key)+"/raise", r, &st)
}

// Settle says that every write of the key that the proxy lost sight of is over.
func (a *Admin) Settle(ctx context.Context, key, reason string) (r SettleReport, err error) {
	return r, a.call(ctx, http.MethodPost, keyPath(key)+"/settle", wire.ChangeRequest{Reason: reason}, &r)
}

// Forget forgets one key on which nothing goes on.
func (a *Admin) Forget(ctx context.Context, key, reason string) (r ForgetReport, err error) {
	return r, a.call(ctx, http.MethodDelete, keyPath(key), wire.ChangeRequest{Reason: reason}, &r)
}

// ForgetMany forgets the keys of a prefix, of an age, or both.
func (a *Admin) ForgetMany(ctx context.Context, r ForgetRequest) (report ForgetReport, err error) {
	return report, a.call(ctx, http.MethodPost, wire.ForgetPath, r, &report)
}

// Check says whether a token would be refused now; then its error is a *Refusal
// with status 409. holder and rule may be empty.
func (a *Admin) Check(ctx context.Context, key, token, holder, rule string) (r CheckReport, err error) {
	q := url.Values{"key": {key}, "token": {token}}
	set(q, "holder", holder)
	set(q, "rule", rule)
	return r, a.call(ctx, http.MethodGet, wire.CheckPath+"?"+q.Encode(), nil, &r)
}

// Export returns a dump of the running store, to be read to its end and closed.
// Only a dump that package tokenstore/dump reads to its end is whole.
func (a *Admin) Export(ctx context.Context) (io.ReadCloser, error) {
	resp, err := a.send(ctx, http.MethodGet, wire.ExportPath, "", nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Import raises what a dump has; what is higher there stays.
func (a *Admin) Import(ctx context.Context, dump io.Reader, reason string) (r ImportReport, err error) {
	resp, err := a.send(ctx, http.MethodPost, wire.ImportPath+"?"+url.Values{"reason": {reason}}.Encode(), "application/x-ndjson", dump)
	if err != nil {
		return r, err
	}
	return r, decode(resp, &r)
}

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

func keyPath(key string) string { return wire.KeysPath + "/" + url.PathEscape(key) }

// call makes one call with JSON.
func (a *Admin) call(ctx context.Context, method, target string, in, out any) error {
	var body io.Reader
	kind := ""
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body, kind = bytes.NewReader(b), "application/json"
	}
	resp, err := a.send(ctx, method, target, kind, body)
	if err != nil {
		return err
	}
	return decode(resp, out)
}

// send makes one call, once. A status other than 200 is its error.
func (a *Admin) send(ctx context.Context, method, target, kind string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.base+target, body)
	if err != nil {
		return nil, err
	}
	req.GetBody = nil // net/http sends nothing a second time by itself
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	return nil, refusalOf(resp)
}

// maxAdminProblem is the longest problem that is read, in bytes.
const maxAdminProblem = 1 << 20

func refusalOf(resp *http.Response) error {
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAdminProblem))
	refusal := new(Refusal)
	if err == nil && json.Unmarshal(b, refusal) == nil && strings.HasPrefix(refusal.Type, wire.Name("").URN()) {
		return refusal
	}
	return fmt.Errorf("the answer is %s, and not the admin API's: %.200q", resp.Status, b)
}

func decode(resp *http.Response, out any) error {
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return errors.Join(errors.New("the answer was not read whole; what was asked for may be done"), err)
	}
	return nil
}
