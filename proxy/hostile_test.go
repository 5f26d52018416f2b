package proxy

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// Hostile spellings over a real socket: the status, whether anything was
// forwarded, and the very bytes that arrived.
func TestHostileSpellings(t *testing.T) {
	r := newRig(t, func(o *Options, _ []Rule) { o.ForwardUnmatched = true })
	token := "X-Fencing-Token: 7\n"
	put := func(target string, headers ...string) string {
		return "PUT " + target + " HTTP/1.1\nHost: a\n" + token + strings.Join(append(headers, "Content-Length: 0\n\n"), "\n")
	}
	get := func(target string) string { return "GET " + target + " HTTP/1.1\nHost: a\n\n" }
	for _, tt := range []struct {
		name    string
		request string
		status  int
		arrives string // METHOD TARGET, or "" for nothing
	}{
		{"as it should be", put("/accounts/42?b=2&a=%zz;x"), 200, "PUT /accounts/42?b=2&a=%zz;x"},
		{"escape that must be one", put("/accounts/it%27s"), 200, "PUT /accounts/it%27s"},
		{"lower-case hex", put("/accounts/%c3%a9"), 200, "PUT /accounts/%c3%a9"},
		{"escaped letter", put("/accounts/%34%32"), 400, ""},
		{"escaped letter in the text", put("/%61ccounts/42"), 400, ""},
		{"doubled escape", put("/accounts/%2534"), 400, ""},
		{"escaped slash", put("/accounts/4%2F2"), 400, ""},
		{"escaped backslash", put("/accounts%5C42"), 400, ""},
		{"backslash", put(`/accounts\42`), 400, ""},
		{"NUL", put("/accounts/42%00"), 400, ""},
		{"control byte", put("/accounts/42%0d"), 400, ""},
		{"raw non-ASCII", put("/accounts/\xc3\xa9"), 400, ""},
		{"overlong slash", put("/accounts%C0%AF42"), 400, ""},
		{"bad escape", put("/accounts/%zz"), 400, ""},
		{"cut escape", put("/accounts/42%"), 400, ""},
		{"fragment", put("/accounts/42#x"), 400, ""},
		{"parameters", put("/accounts/42;v=1"), 400, ""},
		{"dots", put("/x/../accounts/42"), 400, ""},
		{"escaped dots", put("/x/%2e%2e/accounts/42"), 400, ""},
		{"dots behind parameters", put("/x/..;/accounts/42"), 400, ""},
		{"one dot", put("/./accounts/42"), 400, ""},
		{"doubled slash", put("/accounts//42"), 400, ""},
		{"doubled slash in front", put("//accounts/42"), 400, ""},
		{"an authority in front", put("//x/accounts/42"), 400, ""},
		{"trailing slash", put("/accounts/42/"), 400, ""},
		{"capitals", put("/ACCOUNTS/42"), 400, ""},
		{"the long s", put("/account%C5%BF/42"), 400, ""},
		{"absolute-form", put("http://a/accounts/42"), 400, ""},
		{"asterisk", put("*"), 400, ""},
		{"CONNECT", "CONNECT a:1 HTTP/1.1\nHost: a:1\n\n", 405, ""},
		{"half an HTTP/2 preface", "PRI * HTTP/2.0\n\nXX\n\n", 400, ""},
		{"PRI", "PRI * HTTP/1.1\nHost: a\n\n", 400, ""},
		{"upgrade to TLS", put("/other", "Connection: Upgrade", "Upgrade: TLS/1.0"), 400, ""},
		{"upgrade of a read", "GET /other HTTP/1.1\nHost: a\nConnection: Upgrade\nUpgrade: websocket\n\n", 400, ""},
		{"underscores", put("/accounts/42", "X_Fencing_Token: 9"), 400, ""},
		{"points", put("/accounts/42", "X.Fencing.Token: 9"), 400, ""},
		{"plus, where nothing covers it", put("/other", "X+Fencing-Token: 9"), 400, ""},
		{"connection names the token", put("/accounts/42", "Connection: close, x-fencing-token"), 400, ""},
		{"connection names the length", put("/accounts/42", "Connection: Content-Length"), 400, ""},
		{"override of a read", "GET /accounts/42 HTTP/1.1\nHost: a\nX-HTTP-Method-Override: PUT\n\n", 428, ""},
		{"override in the query", get("/accounts/42?_method=DELETE"), 428, ""},
		{"override with underscores", "POST /accounts/42 HTTP/1.1\nHost: a\nX_HTTP_Method: PUT\nContent-Length: 0\n\n", 428, ""},
		{"unknown method", strings.Replace(put("/accounts/42"), "PUT", "PURGE", 1), 200, "PURGE /accounts/42"},
		{"lower-case method", strings.Replace(put("/accounts/42"), "PUT", "put", 1), 200, "put /accounts/42"},
		{"unknown method without a token", "PURGE /accounts/42 HTTP/1.1\nHost: a\n\n", 428, ""},
		{"a read in any spelling", get("//Accounts/%34%32/../x;y?_a=%zz"), 200, "GET //Accounts/%34%32/../x;y?_a=%zz"},
		{"two hosts", "PUT /accounts/42 HTTP/1.1\nHost: a\nHost: b\n" + token + "Content-Length: 0\n\n", 400, ""},
		{"length and chunks", "PUT /accounts/42 HTTP/1.1\nHost: a\n" + token + "Content-Length: 3\nTransfer-Encoding: chunked\n\n0\n\n", 200, "PUT /accounts/42"},
		{"two lengths", "PUT /accounts/42 HTTP/1.1\nHost: a\n" + token + "Content-Length: 3\nContent-Length: 4\n\nabc", 400, ""},
		{"a folded token", "PUT /accounts/42 HTTP/1.1\nHost: a\nX-Fencing-Token: 7\n 8\nContent-Length: 0\n\n", 400, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := r.dial().send(tt.request)
			got := ""
			answered := make(chan int, 1)
			go func() {
				_ = c.SetReadDeadline(time.Now().Add(soon))
				res, err := http.ReadResponse(c.br, &http.Request{Method: strings.Fields(tt.request)[0]})
				if err != nil {
					answered <- 0
					return
				}
				answered <- res.StatusCode
			}()
			status := 0
			select {
			case a := <-r.api.arrived:
				got = a.r.Method + " " + a.r.RequestURI
				if n := len(a.r.Header.Values("X-Fencing-Token")); n > 1 {
					t.Errorf("%d token headers arrive", n)
				}
				a.answer()
				status = <-answered
			case status = <-answered:
			}
			if status != tt.status || got != tt.arrives {
				t.Errorf("%d, %q arrives; want %d, %q", status, got, tt.status, tt.arrives)
			}
			_ = c.Close()
		})
	}
}
