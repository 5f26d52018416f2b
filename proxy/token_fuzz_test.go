package proxy

import (
	"bufio"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// tokenLine is the one spelling of a token's header line on the wire: a line may
// be folded before the token, as net/http takes it, but not within it.
var tokenLine = regexp.MustCompile(`(?i)(?:^|\n)x-fencing-token:(?:[ \t]|\r?\n[ \t])*([0-9]{1,20})[ \t]*(?:\r?\n[ \t]+)*\r?\n`)

// FuzzTokenHeader puts any bytes into a request's head and lets net/http read it.
// A token counts only where the head has its header once, with one token, and it
// is the number that stands there.
func FuzzTokenHeader(f *testing.F) {
	for _, seed := range []string{
		"X-Fencing-Token: 7\r\n", "x-fencing-token:007\r\n", "X-Fencing-Token: 1\r\n 2\r\n", "X-Fencing-Token:\r\n 7\r\n", "X-Fencing-Token: 7\r\nx-Fencing-token: 7\r\n",
		"X-Fencing-Token: 7, 8\r\n", "X-Fencing-Token: 7;\r\n", "X-Fencing-Token:\r\n", "X-Fencing-Token: \xff7\r\n", "X-Fencing-Token: 18446744073709551616\r\n", "X_Fencing_Token: 7\r\n",
		"X-Fencing-Token: 7\nX-Holder: a\n", "X-Fencing-Token: 7\r\nX-Holder: \r\n", "X-Fencing-Token: 7\r\nX-Holder: a\r\nX-Holder: a\r\n", "X-Fencing-Token: 7\x00\r\n", "X-Fencing-Token : 7\r\n",
	} {
		f.Add(seed)
	}
	plain := &Rule{Headers: []string{"X-Fencing-Token"}, Epoch: 3, Fenced: true}
	held := &Rule{Headers: plain.Headers, HolderHeader: "X-Holder", Fenced: true}
	optional := &Rule{Headers: plain.Headers, Optional: true, Fenced: true}
	f.Fuzz(func(t *testing.T, head string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("PUT /a HTTP/1.1\r\nHost: h\r\n" + head + "\r\n")))
		if err != nil {
			return
		}
		sent := tokenLine.FindAllStringSubmatch(head, -1)
		lines := len(r.Header["X-Fencing-Token"])
		for _, rule := range []*Rule{plain, held, optional} {
			x := exchange{r: r, rule: rule}
			err := x.readTokens()
			if len(x.tokens) != 1 {
				t.Fatalf("%q: %d tokens for one key", head, len(x.tokens))
			}
			switch token := x.tokens[0]; {
			case err != nil:
			case token.missing:
				if !rule.Optional || lines != 0 {
					t.Errorf("%q passes without its token", head)
				}
			case lines != 1 || len(sent) == 0:
				t.Errorf("%q passes with %q of %d lines", head, token.text, lines)
			default:
				want, err := tokenstore.Decimal.Parse(sent[0][1])
				want.Epoch = rule.Epoch
				if err != nil || token.value != want || token.text != sent[0][1] {
					t.Errorf("%q passes with %v, %q; want %v (%v)", head, token.value, token.text, want, err)
				}
				if rule.HolderHeader != "" && (len(r.Header["X-Holder"]) != 1 || x.holder == "" || x.holder != r.Header["X-Holder"][0]) {
					t.Errorf("%q passes with the holder %q of %q", head, x.holder, r.Header["X-Holder"])
				}
			}
		}
	})
}
