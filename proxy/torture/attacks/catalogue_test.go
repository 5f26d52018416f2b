package attacks

import "strings"

// attack is a sequence of bytes on one connection, in which two parsers could
// find different requests. ID stands for a name of two bytes that is its own.
type attack struct {
	name string
	raw  string
	// forwards is how many requests the proxy finds in it and lets pass: 0 where
	// the whole is refused, 1 where it has one meaning for everybody, and 2 where
	// two requests follow each other plainly. -1: the judge asks for no number.
	forwards int
}

// What may be hidden in a body: a write with a token of its own, and one
// without any.
const (
	hidden = "PUT /things/hiddenID HTTP/1.1\r\nHost: a\r\nX-Fencing-Token: 9\r\nContent-Length: 0\r\n\r\n"
	naked  = "DELETE /things/ID HTTP/1.1\r\nHost: a\r\n\r\n"
)

// put is a fenced write with more headers, and what follows them.
func put(headers, rest string) string {
	return "PUT /things/ID HTTP/1.1\r\nHost: a\r\nX-Fencing-Token: 7\r\n" + headers + "\r\n" + rest
}

// chunked is the body as one chunk.
func chunked(body string) string { return hex(len(body)) + "\r\n" + body + "\r\n0\r\n\r\n" }

func hex(n int) string {
	const digits = "0123456789abcdef"
	s := ""
	for ; n > 0 || s == ""; n /= 16 {
		s = string(digits[n%16]) + s
	}
	return s
}

// catalogue is what is known of request smuggling over HTTP/1.
func catalogue() (all []attack) {
	add := func(forwards int, name, raw string) {
		all = append(all, attack{name, raw, forwards})
	}
	end := "0\r\n\r\n"

	// Two lengths. Chunks win where both are given, and the length is not passed
	// on (RFC 9112, 6.3); what follows the last chunk is the next request, seen
	// by the fence like any other.
	add(1, "plain", put("Content-Length: 5\r\n", "hello"))
	add(1, "CL.TE, a naked write behind the last chunk", put("Content-Length: "+dec(len(end+naked))+"\r\nTransfer-Encoding: chunked\r\n", end+naked))
	add(2, "CL.TE, a hidden write behind the last chunk", put("Content-Length: "+dec(len(end+hidden))+"\r\nTransfer-Encoding: chunked\r\n", end+hidden))
	add(1, "TE.CL, a write inside the chunk", put("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", chunked(hidden)))
	add(1, "CL.0 with a chunked body", put("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", chunked(naked)))
	for _, te := range []string{
		" chunked\t", "\tchunked", "\x0bchunked", " chunked\x0b", " xchunked", " chunked, identity", " identity, chunked", " chunked, chunked",
		" identity", " gzip, chunked", " chunked;q=1", " \"chunked\"", " chunKed", " CHUNKED", "", " ,chunked", " chunked,", " chunk ed", " chunked\x00", " chu\r\n nked", "\r\n chunked", "\r\n\tchunked", " cow, chunked", " trailers",
	} {
		forwards := 0
		if strings.EqualFold(strings.Trim(te, " \t\r\n"), "chunked") {
			forwards = 1
		}
		add(forwards, "Transfer-Encoding:"+te, put("Transfer-Encoding:"+te+"\r\n", chunked(naked)))
		add(forwards, "with a length, Transfer-Encoding:"+te, put("Content-Length: 3\r\nTransfer-Encoding:"+te+"\r\n", chunked(naked)))
	}
	for _, te := range []string{
		"Transfer-Encoding : chunked\r\n", "Transfer-Encoding\t: chunked\r\n", " Transfer-Encoding: chunked\r\n", "\tTransfer-Encoding: chunked\r\n",
		"X: y\r\n Transfer-Encoding: chunked\r\n", "X: y\nTransfer-Encoding: chunked\r\n", "X: y\rTransfer-Encoding: chunked\r\n", "X: y\n\rTransfer-Encoding: chunked\r\n", "X: y\x00Transfer-Encoding: chunked\r\n",
		"Transfer_Encoding: chunked\r\n", "Transfer.Encoding: chunked\r\n", "Transfer Encoding: chunked\r\n", "\x00Transfer-Encoding: chunked\r\n", "Transfer-Encoding\x00: chunked\r\n", "Transfer\u2010Encoding: chunked\r\n", "\xffTransfer-Encoding: chunked\r\n",
		"Transfer-Encoding chunked\r\n", ": chunked\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: x\r\nTransfer-encoding: chunked\r\n",
	} {
		add(obfuscated[te], strings.TrimSuffix(te, "\r\n"), put(te, chunked(naked)))
		add(obfuscated["CL "+te], "with a length, "+strings.TrimSuffix(te, "\r\n"), put("Content-Length: 3\r\n"+te, chunked(naked)))
	}

	// Lengths that are none, or several.
	for _, cl := range []string{
		"+5", "-5", "0x5", "5 5", "5, 5", "5,6", "5;", "5.0", "5e0", " 5", "5 ", "\t5\t", "05", "0000000000000000000000000000005", "5\x00", "5\x0b", "\x0b5", "５", "", "''", "99999999999999999999", "18446744073709551621", "9223372036854775813", "5\r\n 0", "\r\n 5", "5_0", "0b101",
	} {
		add(lengths[cl], "Content-Length: "+cl, put("Content-Length: "+cl+"\r\n", "hello"+naked))
	}
	add(1, "the same length twice", put("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"))
	add(0, "two lengths", put("Content-Length: 5\r\nContent-Length: 0\r\n", "hello"+naked))
	add(0, "two lengths, 0 first", put("Content-Length: 0\r\nContent-Length: "+dec(len(naked))+"\r\n", naked))
	add(0, "a length written in two ways", put("Content-Length: 5\r\nContent-Length: 05\r\n", "hello"))
	add(0, "space before the colon of the length", put("Content-Length : 5\r\n", "hello"))
	add(1, "underscore in the length", put("Content_Length: "+dec(len(naked))+"\r\nContent-Length: 0\r\n", naked))
	add(0, "Connection names the length", put("Connection: Content-Length\r\nContent-Length: "+dec(len(naked))+"\r\n", naked))
	add(1, "Connection names the chunks", put("Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n", chunked(naked)))
	add(0, "Connection names the token", put("Connection: close, X-Fencing-Token\r\nContent-Length: 0\r\n", ""))
	add(1, "Keep-Alive and TE as they are", put("Keep-Alive: timeout=5\r\nTE: trailers, chunked\r\nConnection: TE, Keep-Alive\r\nContent-Length: 0\r\n", ""))

	// Heads.
	add(1, "bare LF", strings.ReplaceAll(put("Content-Length: 0\r\n", ""), "\r\n", "\n"))
	add(1, "bare LF, and a length behind it", put("X: y\nContent-Length: 5\r\n", "hello"))
	add(1, "bare LF ends the head", "PUT /things/ID HTTP/1.1\r\nHost: a\r\nX-Fencing-Token: 7\r\nContent-Length: 0\n\n"+naked)
	add(0, "bare CR in a value", put("X: a\rX-Fencing-Token: 9\r\nContent-Length: 0\r\n", ""))
	add(0, "CR CR LF", put("X: a\r\r\nContent-Length: 0\r\n", ""))
	add(0, "bare CR ends the head", "PUT /things/ID HTTP/1.1\r\nHost: a\r\nX-Fencing-Token: 7\r\nContent-Length: 0\r\r"+naked)
	add(0, "NUL in a value", put("X: a\x00b\r\nContent-Length: 0\r\n", ""))
	add(0, "NUL in a name", put("X\x00: a\r\nContent-Length: 0\r\n", ""))
	add(0, "space in a name", put("X Y: a\r\nContent-Length: 0\r\n", ""))
	add(0, "a line without a colon", put("X\r\nContent-Length: 0\r\n", ""))
	add(0, "an empty name", put(": x\r\nContent-Length: 0\r\n", ""))
	add(0, "the first line is folded", "PUT /things/ID HTTP/1.1\r\n Host: a\r\nX-Fencing-Token: 7\r\nContent-Length: 0\r\n\r\n")
	add(0, "a folded token", "PUT /things/ID HTTP/1.1\r\nHost: a\r\nX-Fencing-Token: 7\r\n 8\r\nContent-Length: 0\r\n\r\n")
	add(0, "two tokens", put("X-Fencing-Token: 9\r\nContent-Length: 0\r\n", ""))
	add(0, "a token with an underscore", put("X_Fencing_Token: 9\r\nContent-Length: 0\r\n", ""))
	add(0, "a token with a space behind its name", put("X-Fencing-Token : 9\r\nContent-Length: 0\r\n", ""))
	add(0, "two hosts", put("Host: b\r\nContent-Length: 0\r\n", ""))
	add(0, "no host", "PUT /things/ID HTTP/1.1\r\nX-Fencing-Token: 7\r\nContent-Length: 0\r\n\r\n")
	add(0, "a host with a line of its own", put("Host: a\r\n b\r\nContent-Length: 0\r\n", ""))
	add(0, "a host that is none", strings.Replace(put("Content-Length: 0\r\n", ""), "Host: a", "Host: a b/c", 1))
	add(0, "HTTP/0.9", "PUT /things/ID\r\n")
	add(0, "HTTP/0.9 with headers", "PUT /things/ID\r\nHost: a\r\nX-Fencing-Token: 7\r\n\r\n")
	add(0, "HTTP/1.1 twice", "PUT /things/ID HTTP/1.1 HTTP/1.1\r\nHost: a\r\nX-Fencing-Token: 7\r\nContent-Length: 0\r\n\r\n")
	add(0, "HTTP/2.0 without a preface", "PUT /things/ID HTTP/2.0\r\nHost: a\r\nX-Fencing-Token: 7\r\nContent-Length: 0\r\n\r\n")
	add(0, "http/1.1", "PUT /things/ID http/1.1\r\nHost: a\r\nX-Fencing-Token: 7\r\nContent-Length: 0\r\n\r\n")
	add(0, "HTTP/1.10", "PUT /things/ID HTTP/1.10\r\nHost: a\r\nX-Fencing-Token: 7\r\nContent-Length: 0\r\n\r\n")
	add(0, "two spaces", "PUT  /things/ID HTTP/1.1\r\nHost: a\r\nX-Fencing-Token: 7\r\nContent-Length: 0\r\n\r\n")
	add(0, "a tab for a space", "PUT\t/things/ID\tHTTP/1.1\r\nHost: a\r\nX-Fencing-Token: 7\r\nContent-Length: 0\r\n\r\n")
	add(0, "a space in front", " PUT /things/ID HTTP/1.1\r\nHost: a\r\nX-Fencing-Token: 7\r\nContent-Length: 0\r\n\r\n")
	add(0, "a request in the target", "PUT /things/ID%20HTTP/1.1%0d%0aX:%20y HTTP/1.1\r\nHost: a\r\nX-Fencing-Token: 7\r\nContent-Length: 0\r\n\r\n")
	add(0, "empty lines in front", "\r\n\r\n"+put("Content-Length: 0\r\n", ""))
	add(1, "HTTP/1.0", strings.Replace(put("Content-Length: 0\r\n", ""), "HTTP/1.1", "HTTP/1.0", 1))
	add(1, "HTTP/1.0 with chunks", strings.Replace(put("Transfer-Encoding: chunked\r\n", chunked(naked)), "HTTP/1.1", "HTTP/1.0", 1))
	add(1, "HTTP/1.0 with both", strings.Replace(put("Connection: keep-alive\r\nContent-Length: "+dec(len(end+naked))+"\r\nTransfer-Encoding: chunked\r\n", end+naked), "HTTP/1.1", "HTTP/1.0", 1))
	add(0, "absolute-form", strings.Replace(put("Content-Length: 0\r\n", ""), "/things", "http://a/things", 1))
	add(0, "absolute-form with another host", strings.Replace(put("Content-Length: 0\r\n", ""), "/things", "http://b/things", 1))
	add(1, "absolute-form of a read", "GET http://b/things/ID HTTP/1.1\r\nHost: a\r\n\r\n")
	add(0, "a target that begins with a host", strings.Replace(put("Content-Length: 0\r\n", ""), "/things", "@b/things", 1))
	add(0, "CONNECT", "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n"+naked)
	add(0, "CONNECT to a path", "CONNECT /things/ID HTTP/1.1\r\nHost: a\r\nX-Fencing-Token: 7\r\n\r\n"+naked)
	add(0, "PRI", "PRI * HTTP/1.1\r\nHost: a\r\n\r\n"+naked)
	add(1, "an offer of h2c", put("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nContent-Length: 0\r\n", naked))
	add(0, "an offer of h2c in capitals, and another", put("Connection: Upgrade\r\nUpgrade: H2C, websocket\r\nContent-Length: 0\r\n", naked))
	add(0, "a websocket that no rule allows", "GET /things/ID HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"+naked)
	add(1, "Expect", put("Expect: 100-continue\r\nContent-Length: 5\r\n", "hello"))
	add(1, "Expect in capitals", put("Expect: 100-CONTINUE\r\nContent-Length: "+dec(len(naked))+"\r\n", naked))
	add(1, "Expect without a body", put("Expect: 100-continue\r\nContent-Length: 0\r\n", naked))
	add(0, "an Expect that nobody knows", put("Expect: y\r\nContent-Length: "+dec(len(naked))+"\r\n", naked))
	add(1, "GET with a body", "GET /things/ID HTTP/1.1\r\nHost: a\r\nContent-Length: "+dec(len(naked))+"\r\n\r\n"+naked)
	add(1, "GET with chunks", "GET /things/ID HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"+chunked(naked))
	add(1, "HEAD with a body", "HEAD /things/ID HTTP/1.1\r\nHost: a\r\nContent-Length: "+dec(len(naked))+"\r\n\r\n"+naked)
	add(1, "OPTIONS with a body", "OPTIONS /things/ID HTTP/1.1\r\nHost: a\r\nContent-Length: "+dec(len(naked))+"\r\n\r\n"+naked)
	add(1, "DELETE with a body", strings.Replace(put("Content-Length: "+dec(len(naked))+"\r\n", naked), "PUT", "DELETE", 1))
	add(1, "DELETE with chunks", strings.Replace(put("Transfer-Encoding: chunked\r\n", chunked(naked)), "PUT", "DELETE", 1))
	add(0, "TRACE with a body and an override", "TRACE /things/ID HTTP/1.1\r\nHost: a\r\nX-HTTP-Method-Override: PUT\r\nContent-Length: 0\r\n\r\n")
	add(0, "a GET whose body is a write, without a length", "GET /things/ID HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n"+chunked(naked))
	add(1, "a write without a length", put("", naked))
	add(0, "a refused write, and another in its body", "PUT /things/ID HTTP/1.1\r\nHost: a\r\nContent-Length: "+dec(len(hidden))+"\r\n\r\n"+hidden)
	add(2, "two requests, plainly", put("Content-Length: 0\r\n", hidden))

	// Chunks.
	body := "hello"
	for name, chunks := range map[string]string{
		"a plus sign":             "+5\r\nhello\r\n0\r\n\r\n",
		"a minus sign":            "-5\r\nhello\r\n0\r\n\r\n",
		"0x":                      "0x5\r\nhello\r\n0\r\n\r\n",
		"an overflow":             "10000000000000005\r\nhello\r\n0\r\n\r\n",
		"2^64-1":                  "ffffffffffffffff\r\nhello\r\n0\r\n\r\n",
		"2^63":                    "8000000000000000\r\nhello\r\n0\r\n\r\n",
		"no digits":               "\r\nhello\r\n0\r\n\r\n",
		"a space in front":        " 5\r\nhello\r\n0\r\n\r\n",
		"an underscore":           "0_5\r\nhello\r\n0\r\n\r\n",
		"NUL":                     "5\x00\r\nhello\r\n0\r\n\r\n",
		"a vertical tab":          "5\x0b\r\nhello\r\n0\r\n\r\n",
		"no end of the data":      "5\r\nhello0\r\n\r\n",
		"two bytes for its end":   "5\r\nhelloXX0\r\n\r\n",
		"a bare CR as its end":    "5\rhello\r\n0\r\n\r\n",
		"too short a chunk":       "4\r\nhello\r\n0\r\n\r\n",
		"too long a chunk":        "6\r\nhello\r\n0\r\n\r\n",
		"the end without a line":  "5\r\nhello\r\n0\r\n" + naked,
		"the end on a bare CR":    "5\r\nhello\r\n0\r\r" + naked,
		"a bare CR in extensions": "5;a\rb\r\nhello\r\n0\r\n\r\n",
	} {
		add(0, "chunk with "+name, put("Transfer-Encoding: chunked\r\n", chunks+naked))
	}
	for name, chunks := range map[string]string{
		"leading zeros":            "0005\r\nhello\r\n000\r\n\r\n",
		"an extension":             "5;a=b\r\nhello\r\n0\r\n\r\n",
		"a quoted line end":        "5;a=\"\r\n" + body + "\r\n0\r\n\r\n",
		"a large extension":        "5;a=" + strings.Repeat("x", 1000) + "\r\nhello\r\n0\r\n\r\n",
		"a trailer":                "5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n",
		"framing in a trailer":     "5\r\nhello\r\n0\r\nContent-Length: 50\r\nTransfer-Encoding: chunked\r\nHost: b\r\n\r\n",
		"a token in a trailer":     "5\r\nhello\r\n0\r\nX-Fencing-Token: 9\r\nX_Fencing_Token: 9\r\n\r\n",
		"an override in a trailer": "5\r\nhello\r\n0\r\nX-HTTP-Method-Override: DELETE\r\n\r\n",
	} {
		add(1, "chunk with "+name, put("Trailer: X-Sum\r\nTransfer-Encoding: chunked\r\n", chunks))
	}
	for name, chunks := range map[string]string{
		"a bare LF behind its size":     "5\nhello\r\n0\r\n\r\n",
		"a bare LF in its extension":    "5;a\nhello\r\n0\r\n\r\n",
		"a bare LF behind its data":     "5\r\nhello\n0\r\n\r\n",
		"a bare LF behind the last":     "5\r\nhello\r\n0\n\r\n",
		"a space behind its size":       "5 \r\nhello\r\n0\r\n\r\n",
		"a trailer with a folded line":  "5\r\nhello\r\n0\r\nX-Sum: 1\r\n 2\r\n\r\n",
		"a trailer without a colon":     "5\r\nhello\r\n0\r\nX-Sum\r\n\r\n",
		"a trailer with a bare LF":      "5\r\nhello\r\n0\r\nX-Sum: 1\n\r\n",
		"a trailer with a space before": "5\r\nhello\r\n0\r\nX-Sum : 1\r\n\r\n",
	} {
		add(loose[name], "chunk with "+name, put("Trailer: X-Sum\r\nTransfer-Encoding: chunked\r\n", chunks+naked))
	}
	return all
}

func dec(n int) string {
	s := ""
	for ; n > 0 || s == ""; n /= 10 {
		s = string(rune('0'+n%10)) + s
	}
	return s
}

// unfenced are the same attacks on a path that no fence covers, where a body is
// passed on as it comes. What passes there is the judge's business alone.
func unfenced() (all []attack) {
	for _, a := range catalogue() {
		raw := strings.ReplaceAll(strings.Replace(a.raw, "PUT /things/ID", "POST /open/ID", 1), "X-Fencing-Token: 7\r\n", "")
		if raw != a.raw {
			all = append(all, attack{"unfenced, " + a.name, raw, -1})
		}
	}
	return all
}

// What passes of the loose spellings, and with which meaning.
var (
	// Folded into the value of another header, or the name of another one that is
	// not passed on: there is no body, and what follows is read as a request.
	obfuscated = map[string]int{
		"X: y\r\n Transfer-Encoding: chunked\r\n": 1, "CL X: y\r\n Transfer-Encoding: chunked\r\n": 1,
		"X: y\nTransfer-Encoding: chunked\r\n": 1, "CL X: y\nTransfer-Encoding: chunked\r\n": 1, // a line end like any other
		"Transfer_Encoding: chunked\r\n": 1, "CL Transfer_Encoding: chunked\r\n": 1,
		"Transfer.Encoding: chunked\r\n": 1, "CL Transfer.Encoding: chunked\r\n": 1,
	}
	// Written anew as 5.
	lengths = map[string]int{" 5": 1, "5 ": 1, "\t5\t": 1, "05": 1, "0000000000000000000000000000005": 1, "\r\n 5": 1}
	// Written anew as it should be.
	loose = map[string]int{"a space behind its size": 1, "a trailer with a folded line": 1, "a trailer with a bare LF": 1}
)
