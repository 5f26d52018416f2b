package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// testService is a gRPC server that echoes, and does what a request asks for.
type testService struct {
	pb.UnimplementedTestServiceServer
	sawToken chan string
	slow     chan struct{} // what a call with the message "slow" waits for
}

func (s *testService) UnaryCall(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	select {
	case s.sawToken <- md.Get("x-fencing-token")[0]:
	default:
	}
	_ = grpc.SetHeader(ctx, metadata.Pairs("x-head", "h"))
	_ = grpc.SetTrailer(ctx, metadata.Pairs("x-trail-bin", "\x00\xff"))
	switch want := r.GetResponseStatus(); {
	case want.GetMessage() == "slow":
		<-s.slow
	case want != nil:
		return nil, status.Error(codes.Code(want.Code), want.Message)
	}
	return &pb.SimpleResponse{Payload: r.Payload}, nil
}

func (s *testService) StreamingInputCall(stream grpc.ClientStreamingServer[pb.StreamingInputCallRequest, pb.StreamingInputCallResponse]) error {
	size := 0
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&pb.StreamingInputCallResponse{AggregatedPayloadSize: int32(size)})
		}
		if err != nil {
			return err
		}
		size += len(m.Payload.Body)
	}
}

func (s *testService) StreamingOutputCall(r *pb.StreamingOutputCallRequest, stream grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]) error {
	for _, p := range r.ResponseParameters {
		if err := stream.Send(&pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: make([]byte, p.Size)}}); err != nil {
			return err
		}
	}
	return nil
}

func (s *testService) FullDuplexCall(stream grpc.BidiStreamingServer[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]) error {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if want := m.ResponseStatus; want != nil {
			return status.Error(codes.Code(want.Code), want.Message)
		}
		if err := stream.Send(&pb.StreamingOutputCallResponse{Payload: m.Payload}); err != nil {
			return err
		}
	}
}

// grpcRig is a gRPC client and server with the proxy between them.
type grpcRig struct {
	*rig
	service *testService
	client  pb.TestServiceClient
	settle  time.Duration
}

func newGRPC(t *testing.T, settle time.Duration) *grpcRig {
	t.Helper()
	g := &grpcRig{rig: newRig(t, nil), service: &testService{sawToken: make(chan string, 1), slow: make(chan struct{})}, settle: settle}
	g.leaves = settle > testSettle
	back := listen(t)
	server := grpc.NewServer()
	pb.RegisterTestServiceServer(server, g.service)
	go func() { _ = server.Serve(back) }()
	t.Cleanup(server.Stop)
	g.between(back.Addr().String())
	return g
}

// between puts the proxy between a new client and the server at addr.
func (g *grpcRig) between(addr string) {
	g.Helper()
	g.proxy("h2c://"+addr, func(_ *Options, rules []Rule) {
		for i := range rules {
			rules[i].Settle = g.settle
		}
	})
	front := listen(g.T)
	srv := NewServer(g.handler, ServerOptions{HeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeader: 64 << 10})
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = srv.Serve(front) }()
	g.Cleanup(func() { _ = srv.Close() })

	conn, err := grpc.NewClient(front.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		g.Fatal(err)
	}
	g.Cleanup(func() { _ = conn.Close() })
	g.client = pb.NewTestServiceClient(conn)
}

// as is the context of a call with a token.
func (g *grpcRig) as(token string) context.Context {
	ctx, cancel := context.WithTimeout(g.Context(), soon)
	g.Cleanup(cancel)
	return metadata.AppendToOutgoingContext(ctx, "x-fencing-token", token)
}

func (g *grpcRig) wantCode(what string, err error, want codes.Code) {
	g.Helper()
	if got := status.Code(err); got != want {
		g.Errorf("%s: %v (%v), want %v", what, got, err, want)
	}
}

func TestGRPCUnary(t *testing.T) {
	g := newGRPC(t, testSettle)
	for _, size := range []int{0, 1, 100_000, 1 << 20} {
		var head, trail metadata.MD
		body := bytes.Repeat([]byte{7}, size)
		res, err := g.client.UnaryCall(g.as("5"), &pb.SimpleRequest{Payload: &pb.Payload{Body: body}}, grpc.Header(&head), grpc.Trailer(&trail))
		if err != nil || !bytes.Equal(res.Payload.GetBody(), body) {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if len(head.Get("x-head")) != 1 || len(trail.Get("x-trail-bin")) != 1 || trail.Get("x-trail-bin")[0] != "\x00\xff" {
			t.Errorf("header %v, trailer %v", head, trail)
		}
		if got := head.Get("fencing-result"); len(got) != 1 || got[0] != "admitted" {
			t.Errorf("Fencing-Result is %q, want admitted", got)
		}
		if got := <-g.service.sawToken; got != "5" {
			t.Errorf("the server saw token %q", got)
		}
	}
	_, err := g.client.UnaryCall(g.as("5"), &pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Code: int32(codes.NotFound), Message: "no such ☃"}})
	g.wantCode("a status", err, codes.NotFound)
	if s, _ := status.FromError(err); s.Message() != "no such ☃" {
		t.Errorf("message %q", s.Message())
	}
	_, err = g.client.UnaryCall(g.as("4"), &pb.SimpleRequest{})
	g.wantCode("stale", err, codes.FailedPrecondition)
	_, err = g.client.UnaryCall(g.as("x"), &pb.SimpleRequest{})
	g.wantCode("malformed", err, codes.InvalidArgument)
	_, err = g.client.UnaryCall(g.Context(), &pb.SimpleRequest{})
	g.wantCode("without a token", err, codes.FailedPrecondition)
	if high, _ := g.highest("rpc:UnaryCall"); high != 5 {
		t.Errorf("highest of the method is %d, want 5", high)
	}
	if n := g.gate.Counts().Unsettled; n != 0 {
		t.Errorf("%d unsettled writes after calls that were answered", n)
	}
}

func TestGRPCStreams(t *testing.T) {
	g := newGRPC(t, testSettle)
	in, err := g.client.StreamingInputCall(g.as("1"))
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if err := in.Send(&pb.StreamingInputCallRequest{Payload: &pb.Payload{Body: make([]byte, 10_000)}}); err != nil {
			t.Fatal(err)
		}
	}
	if sum, err := in.CloseAndRecv(); err != nil || sum.AggregatedPayloadSize != 1_000_000 {
		t.Errorf("client-streaming: %v, %v", sum, err)
	}

	r := &pb.StreamingOutputCallRequest{}
	for range 100 {
		r.ResponseParameters = append(r.ResponseParameters, &pb.ResponseParameters{Size: 10_000})
	}
	out, err := g.client.StreamingOutputCall(g.as("1"), r)
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	for {
		m, err := out.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("server-streaming: %v after %d bytes", err, got)
		}
		got += len(m.Payload.Body)
	}
	if got != 1_000_000 {
		t.Errorf("server-streaming: %d bytes", got)
	}

	both := g.duplex("1")
	for range 20 {
		both.pingPong(g)
	}
	_ = both.CloseSend()
	if _, err := both.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the end of both: %v", err)
	}
	g.eventually("all are settled", func() bool { c := g.gate.Counts(); return c.InFlight == 0 && c.Unsettled == 0 })
}

type duplex struct {
	grpc.BidiStreamingClient[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]
}

func (g *grpcRig) duplex(token string) duplex {
	g.Helper()
	s, err := g.client.FullDuplexCall(g.as(token))
	if err != nil {
		g.Fatal(err)
	}
	return duplex{s}
}

// pingPong sends a message and waits for its echo: neither side ends, or
// buffers, what the other waits for.
func (d duplex) pingPong(g *grpcRig) {
	g.Helper()
	if err := d.Send(&pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: []byte("ping")}}); err != nil {
		g.Fatal(err)
	}
	if m, err := d.Recv(); err != nil || string(m.Payload.Body) != "ping" {
		g.Fatalf("echo: %v, %v", m, err)
	}
}

// A raise ends the call of the old holder, and the new one's goes through once
// the settle time is over.
func TestGRPCRaiseCutsStream(t *testing.T) {
	g := newGRPC(t, testSettle)
	old := g.duplex("1")
	old.pingPong(g)
	start := time.Now()
	next := g.duplex("2")
	next.pingPong(g)
	if took := time.Since(start); took < testSettle {
		t.Errorf("the new holder's call took %v, and the old one's may be applied for %v", took, testSettle)
	}
	if _, err := old.Recv(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the old holder's call ended with %v, want an error", err)
	}
	late := g.duplex("1")
	_, err := late.Recv()
	g.wantCode("a late call of the old holder", err, codes.FailedPrecondition)
	_ = next.CloseSend()
	if _, err := next.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the new holder's call ended with %v", err)
	}
}

// A server may end a call before the client does: its status reaches the
// client, and the key waits, since nobody knows what the server has read.
func TestGRPCEarlyStatus(t *testing.T) {
	g := newGRPC(t, time.Minute)
	s := g.duplex("1")
	s.pingPong(g)
	if err := s.Send(&pb.StreamingOutputCallRequest{ResponseStatus: &pb.EchoStatus{Code: int32(codes.ResourceExhausted), Message: "enough"}}); err != nil {
		t.Fatal(err)
	}
	_, err := s.Recv()
	g.wantCode("the early status", err, codes.ResourceExhausted)
	if n := g.gate.Counts().Unsettled; n != 1 {
		t.Errorf("%d unsettled writes, want the call that ended early", n)
	}
}

// A client that gives up ends its wait, and not the write (rule 11).
func TestGRPCCanceled(t *testing.T) {
	g := newGRPC(t, testSettle)
	ctx, cancel := context.WithCancel(g.as("1"))
	go func() { <-g.service.sawToken; cancel() }()
	_, err := g.client.UnaryCall(ctx, &pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Message: "slow"}})
	g.wantCode("given up", err, codes.Canceled)
	if c := g.gate.Counts(); c.InFlight != 1 {
		t.Errorf("%+v, want the call in flight still", c)
	}
	close(g.service.slow)
	g.eventually("it is over", func() bool { return g.gate.Counts().InFlight == 0 })
	if n := g.gate.Counts().Unsettled; n != 0 {
		t.Errorf("%d unsettled writes, want none: it was followed to its end", n)
	}
}

// The server gets the client's deadline, and resets the call when it is over,
// whatever its handler still does.
func TestGRPCDeadline(t *testing.T) {
	t.Parallel()
	g := newGRPC(t, time.Minute)
	ctx, cancel := context.WithTimeout(g.as("1"), 2*time.Second) // to reach the server, too
	defer cancel()
	_, err := g.client.UnaryCall(ctx, &pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Message: "slow"}})
	if code := status.Code(err); code != codes.DeadlineExceeded && code != codes.Unknown { // whoever is first
		t.Errorf("after the deadline: %v", err)
	}
	g.eventually("it is unsettled", func() bool { return g.gate.Counts().Unsettled == 1 })
	close(g.service.slow)
}

// Without a server nothing is sent, and the client may try again.
func TestGRPCUnreachable(t *testing.T) {
	g := newGRPC(t, testSettle)
	gone := listen(t)
	_ = gone.Close()
	g.between(gone.Addr().String())
	_, err := g.client.UnaryCall(g.as("1"), &pb.SimpleRequest{})
	g.wantCode("without a server", err, codes.Unavailable)
	if c := g.gate.Counts(); c.InFlight != 0 || c.Unsettled != 0 {
		t.Errorf("%+v after a call that was never sent", c)
	}
}
