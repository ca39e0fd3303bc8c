// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/duetime/duetime/client/go/duetimepb"
)

// fakeServer answers the calls of a test. Its first `failures` unary calls end with Unavailable.
type fakeServer struct {
	pb.UnimplementedMessagesServer
	subscribe      func(stream pb.Messages_SubscribeServer) error
	scheduleStream func(stream pb.Messages_ScheduleStreamServer) error
	callStream     func(stream pb.Messages_CallStreamServer) error
	pull           func(ctx context.Context, request *pb.PullRequest) (*pb.PullResponse, error)

	mutex       sync.Mutex
	failures    int
	refusal     error // after the failures
	scheduled   []*pb.ScheduleRequest
	rescheduled int
}

func (f *fakeServer) fail() error {
	if f.failures == 0 {
		return f.refusal
	}
	f.failures--
	s, err := status.New(codes.Unavailable, "starting").WithDetails(
		&errdetails.ErrorInfo{Reason: "STARTING", Domain: "duetime", Metadata: map[string]string{"a": "b"}},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Millisecond)})
	if err != nil {
		return err
	}
	return s.Err()
}

func (f *fakeServer) Schedule(_ context.Context, request *pb.ScheduleRequest) (*pb.ScheduleResponse, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.scheduled = append(f.scheduled, request)
	return &pb.ScheduleResponse{}, f.fail()
}

func (f *fakeServer) Reschedule(context.Context, *pb.RescheduleRequest) (*pb.RescheduleResponse, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.rescheduled++
	return &pb.RescheduleResponse{}, f.fail()
}

func (f *fakeServer) Pull(ctx context.Context, request *pb.PullRequest) (*pb.PullResponse, error) {
	return f.pull(ctx, request)
}

func (f *fakeServer) Subscribe(stream pb.Messages_SubscribeServer) error { return f.subscribe(stream) }

func (f *fakeServer) CallStream(stream pb.Messages_CallStreamServer) error {
	if f.callStream == nil {
		return f.UnimplementedMessagesServer.CallStream(stream)
	}
	return f.callStream(stream)
}

func (f *fakeServer) ScheduleStream(stream pb.Messages_ScheduleStreamServer) error {
	return f.scheduleStream(stream)
}

// start serves, and returns a client.
func (f *fakeServer) start(t *testing.T, options ...grpc.ServerOption) *Client {
	server := grpc.NewServer(options...)
	pb.RegisterMessagesServer(server, f)
	return newClient(t, serve(t, server))
}

// serve returns the address of the server.
func serve(t *testing.T, server *grpc.Server) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

func newClient(t *testing.T, address string, changes ...func(*Options)) *Client {
	options := Options{Server: address, Backoff: Backoff{Max: time.Millisecond, Initial: time.Millisecond}}
	for _, change := range changes {
		change(&options)
	}
	client, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}
