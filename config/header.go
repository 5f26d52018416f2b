package config

import (
	"net/textproto"
	"regexp"
	"slices"
	"strings"
)

var header = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,62}$`)

// taken are the header names that mean something else on the way: a token in
// one of them would be dropped, rewritten or misread.
var taken = []string{
	"Authorization", "Connection", "Cookie", "Date", "Expect", "Forwarded", "Host", "Keep-Alive", "Proxy-Connection", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "X-Http-Method", "X-Http-Method-Override", "X-Method-Override", "X-Original-Url", "X-Rewrite-Url",
}

// Names to follow, in errors.
const (
	tokenHeader  = "X-Fencing-Token"
	holderHeader = "X-Fencing-Holder"
)

// checkHeader returns "" for a name that may carry a token or its holder.
func checkHeader(name, like string) (message, remedy string) {
	letters := "letters, digits and -, as in " + like
	own := "a header of its own, as in " + like
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	switch {
	case name == "":
		return "is empty", letters
	case !header.MatchString(name):
		// _ and . are left out because servers fold them to -.
		return quote(name) + " is not a header name that reaches every server as it is", letters
	case slices.Contains(taken, canonical):
		return canonical + " means something else in HTTP", own
	}
	for _, prefix := range []string{"Fencing-", "Content-", "Proxy-", "X-Forwarded-"} {
		if strings.HasPrefix(canonical, prefix) {
			return "headers " + prefix + "* mean something else", own
		}
	}
	return "", ""
}
