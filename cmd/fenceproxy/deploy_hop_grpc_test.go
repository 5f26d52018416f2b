package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fenceproxy/fenceproxy/tokenstore/servertest"
)

// rpcService is a gRPC server that echoes.
type rpcService struct {
	pb.UnimplementedTestServiceServer
}

func (rpcService) UnaryCall(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	_ = grpc.SetHeader(ctx, metadata.Pairs("x-saw", strings.Join(md.Get("x-fencing-token"), ",")))
	_ = grpc.SetTrailer(ctx, metadata.Pairs("x-trail-bin", "\x00\xff"))
	if want := r.GetResponseStatus(); want != nil {
		return nil, status.Error(codes.Code(want.Code), want.Message)
	}
	return &pb.SimpleResponse{Payload: r.Payload}, nil
}

func (rpcService) FullDuplexCall(stream grpc.BidiStreamingServer[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]) error {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			stream.SetTrailer(metadata.Pairs("x-trail-bin", "\x00\xff"))
			return nil
		}
		if err != nil {
			return err
		}
		for range max(1, len(m.ResponseParameters)) {
			if err := stream.Send(&pb.StreamingOutputCallResponse{Payload: m.Payload}); err != nil {
				return err
			}
		}
	}
}

// rpcHop is a client that calls a server through a program of deploy/hop and the
// real binary, in clear text or over TLS from end to end.
type rpcHop struct {
	*testing.T
	client pb.TestServiceClient
}

func newRPCHop(t *testing.T, h frontHop, secure bool) *rpcHop {
	t.Helper()
	dir := t.TempDir()
	davCertificates(t, dir)
	pem := filepath.Join(dir, "server.pem")
	pair, err := tls.LoadX509KeyPair(pem, filepath.Join(dir, "server.key"))
	if err != nil {
		t.Fatal(err)
	}
	back, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	offered, wanted := insecure.NewCredentials(), insecure.NewCredentials()
	listenTLS, upstream := "", fmt.Sprintf("url: \"h2c://%s\"", back.Addr())
	if secure {
		roots := x509.NewCertPool()
		ca, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
		if err != nil || !roots.AppendCertsFromPEM(ca) {
			t.Fatal(err)
		}
		offered = credentials.NewServerTLSFromCert(&pair)
		wanted = credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "nginx.test"})
		listenTLS = fmt.Sprintf(", tls: {cert_file: %q, key_file: %q}", pem, filepath.Join(dir, "server.key"))
		upstream = fmt.Sprintf("url: \"https://%s\", tls: {ca_file: %q, server_name: nginx.test}", back.Addr(), filepath.Join(dir, "ca.pem"))
	}
	server := grpc.NewServer(grpc.Creds(offered))
	pb.RegisterTestServiceServer(server, rpcService{})
	go func() { _ = server.Serve(back) }()
	t.Cleanup(server.Stop)

	addrs := servertest.Run(t, 2, func(addrs []string) *exec.Cmd {
		file := filepath.Join(dir, "fenceproxy.yaml")
		davWrite(t, file, fmt.Sprintf(`listen: {address: %q%s}
upstream: {%s, settle: 500ms}
admin: {address: %q}
store: {memory: {}}
rules: [{name: rpc, path: "/grpc.testing.TestService/*", key: "{grpc.method}"}]
`, addrs[0], listenTLS, upstream, addrs[1]))
		return exec.Command(davProgram(t, "fenceproxy", ""), "serve", "--config", file)
	})
	addr, admin := addrs[0], addrs[1]
	untilReady(t, admin)

	h.edit = func(text string) string { return speaksGRPC(t, h, text, dir, secure) }
	conn, err := grpc.NewClient(h.start(t, admin, addr), grpc.WithTransportCredentials(wanted))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &rpcHop{t, pb.NewTestServiceClient(conn)}
}

// speaksGRPC does to a file of deploy/hop what its comments say of gRPC.
func speaksGRPC(t *testing.T, h frontHop, text, dir string, secure bool) string {
	t.Helper()
	edit := func(pattern, by string) {
		t.Helper()
		re := regexp.MustCompile(`(?m)` + pattern)
		if !re.MatchString(text) {
			t.Fatalf("deploy/hop/%s has nothing like %s", h.file, pattern)
		}
		text = re.ReplaceAllString(text, by)
	}
	if h.name == "haproxy" {
		said := regexp.MustCompile(`# gRPC: add (proto \S+ check-proto \S+), and where it goes to listen.tls: (ssl alpn h2)\.`).FindStringSubmatch(text)
		if said == nil {
			t.Fatalf("deploy/hop/%s does not say what to add for gRPC", h.file)
		}
		if secure {
			both, err := os.ReadFile(filepath.Join(dir, "server.pem"))
			if err != nil {
				t.Fatal(err)
			}
			key, err := os.ReadFile(filepath.Join(dir, "server.key"))
			if err != nil {
				t.Fatal(err)
			}
			davWrite(t, filepath.Join(dir, "both.pem"), string(both)+string(key))
			edit(`^    bind (.*)$`, "    bind $1 ssl crt "+dir+"/both.pem alpn h2,http/1.1")
			edit(`^    server (.*)$`, "    server $1 "+said[1]+" "+said[2]+" verify required verifyhost nginx.test sni str(nginx.test) ca-file "+dir+"/ca.pem")
			return text
		}
		edit(`^    bind (.*)$`, "    bind $1 proto h2")
		edit(`^    server (.*)$`, "    server $1 "+said[1])
		return text
	}
	edit(`^        proxy_(pass|http_version|next_upstream|read_timeout|send_timeout|connect_timeout|request_buffering|intercept_errors) .*\n`, "")
	edit(`^        proxy_set_header (Upgrade|Connection) .*\n`, "")
	edit(`^        proxy_set_header`, "        grpc_set_header")
	edit(`^    #   (grpc_.*)$`, "        $1")
	edit(`^    }\n\n    # gRPC: .*\n    # proxy_set_header .*\n((?:        grpc_.*\n)+)`, "$1    }\n")
	if secure {
		edit(`listen (\S+);`, "listen $1 ssl http2; ssl_certificate "+dir+"/server.pem; ssl_certificate_key "+dir+"/server.key;")
		edit(`grpc_pass grpc://fenceproxy;`, "grpc_pass grpcs://fenceproxy; grpc_ssl_verify on; grpc_ssl_name nginx.test; grpc_ssl_trusted_certificate "+dir+"/ca.pem;")
		return text
	}
	edit(`listen (\S+);`, "listen $1 http2;")
	return text
}

// as is the context of a call with a token; "" for none.
func (r *rpcHop) as(token string) context.Context {
	ctx, cancel := context.WithTimeout(r.Context(), scriptPatience)
	r.Cleanup(cancel)
	if token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "x-fencing-token", token)
}

func (r *rpcHop) wants(what string, err error, want codes.Code) {
	r.Helper()
	if got := status.Code(err); got != want {
		r.Errorf("%s: %v, want %v", what, err, want)
	}
}

type rpcStream = grpc.BidiStreamingClient[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]

func (r *rpcHop) opens(token string) rpcStream {
	r.Helper()
	s, err := r.client.FullDuplexCall(r.as(token))
	if err != nil {
		r.Fatal(err)
	}
	return s
}

// echoes sends a message and waits for its echoes: nobody between keeps back
// what the other side waits for.
func (r *rpcHop) echoes(s rpcStream, size, times int) {
	r.Helper()
	body := bytes.Repeat([]byte{7}, size)
	m := &pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: body}}
	for range times {
		m.ResponseParameters = append(m.ResponseParameters, &pb.ResponseParameters{})
	}
	if err := s.Send(m); err != nil {
		_, err = s.Recv()
		r.Fatal(err)
	}
	for range times {
		if m, err := s.Recv(); err != nil || !bytes.Equal(m.Payload.Body, body) {
			r.Fatalf("echo: %v", err)
		}
	}
}

// TestDeployHopGRPC: calls and streams go through the programs of deploy/hop and
// a real proxy, and so do their ends: trailers, and what the fence says.
func TestDeployHopGRPC(t *testing.T) {
	for _, h := range frontHops {
		for name, secure := range map[string]bool{"clear text": false, "TLS": true} {
			t.Run(h.name+" "+name, func(t *testing.T) {
				t.Parallel()
				r := newRPCHop(t, h, secure)
				for _, size := range []int{0, 100_000, 1 << 20} {
					var head, trail metadata.MD
					body := bytes.Repeat([]byte{7}, size)
					res, err := r.client.UnaryCall(r.as("5"), &pb.SimpleRequest{Payload: &pb.Payload{Body: body}}, grpc.Header(&head), grpc.Trailer(&trail), grpc.WaitForReady(true))
					if err != nil || !bytes.Equal(res.Payload.GetBody(), body) {
						t.Fatalf("%d bytes: %v", size, err)
					}
					if got := fmt.Sprintf("%q %q %q", head.Get("fencing-result"), head.Get("x-saw"), trail.Get("x-trail-bin")); got != `["admitted"] ["5"] ["\x00\xff"]` {
						t.Errorf("header %v, trailer %v", head, trail)
					}
				}
				_, err := r.client.UnaryCall(r.as("5"), &pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Code: int32(codes.NotFound), Message: "no such ☃"}})
				r.wants("the server's status", err, codes.NotFound)
				if s, _ := status.FromError(err); s.Message() != "no such ☃" {
					t.Errorf("message %q", s.Message())
				}
				for _, c := range []struct {
					token, says string
					code        codes.Code
				}{
					{"4", "your lease is over", codes.FailedPrecondition},
					{"", "X-Fencing-Token", codes.FailedPrecondition},
					{"x", "", codes.InvalidArgument},
				} {
					_, err := r.client.UnaryCall(r.as(c.token), &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, 1000)}})
					r.wants("a call with token "+c.token, err, c.code)
					if !strings.Contains(err.Error(), c.says) {
						t.Errorf("a call with token %q: %v", c.token, err)
					}
				}

				old := r.opens("1")
				for range 20 {
					r.echoes(old, 100, 1)
				}
				r.echoes(old, 50_000, 20)
				// A newer token cuts it, and goes on once settle is over.
				start := time.Now()
				next := r.opens("2")
				r.echoes(next, 100, 1)
				if took := time.Since(start); took < 500*time.Millisecond {
					t.Errorf("the newer call took %v, and the older one may be applied for 500ms", took)
				}
				if _, err := old.Recv(); err == nil || errors.Is(err, io.EOF) {
					t.Errorf("the older call ended with %v, want an error", err)
				} else {
					t.Logf("the older call ended with %v", err)
				}
				_, err = r.opens("1").Recv()
				r.wants("a stale stream", err, codes.FailedPrecondition)
				_ = next.CloseSend()
				if _, err := next.Recv(); !errors.Is(err, io.EOF) || next.Trailer().Get("x-trail-bin") == nil {
					t.Errorf("the newer call ended with %v, trailer %v", err, next.Trailer())
				}
			})
		}
	}
}
