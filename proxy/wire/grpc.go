package wire

import (
	"net/http"
	"strconv"
	"strings"
)

// grpcStatus is the code of a gRPC status.
type grpcStatus int

const (
	grpcUnknown            grpcStatus = 2
	grpcInvalidArgument    grpcStatus = 3
	grpcNotFound           grpcStatus = 5
	grpcPermissionDenied   grpcStatus = 7
	grpcResourceExhausted  grpcStatus = 8
	grpcFailedPrecondition grpcStatus = 9
	grpcUnavailable        grpcStatus = 14
	grpcUnauthenticated    grpcStatus = 16
)

// IsGRPC reports whether a request is a gRPC call, by its content type.
func IsGRPC(h http.Header) bool {
	rest, ok := strings.CutPrefix(strings.ToLower(h.Get("Content-Type")), "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// WriteGRPC answers a gRPC call with the problem: HTTP 200 and a trailers-only
// answer with the gRPC status. Title and detail are the message; gRPC clients see
// the headers that w has already, such as Fencing-Result, as metadata.
func (p *Problem) WriteGRPC(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	h.Set("Cache-Control", "no-store")
	h.Set("Grpc-Status", strconv.Itoa(int(kinds[p.Name()].grpc)))
	h.Set("Grpc-Message", grpcMessage(p.Title+": "+p.Detail))
	h.Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
}

// grpcMessage percent-encodes what gRPC does not allow in a status message.
func grpcMessage(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '%' {
			b.WriteString("%" + strings.ToUpper(strconv.FormatUint(uint64(c)|0x100, 16)[1:]))
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
