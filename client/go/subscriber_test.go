// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"context"
	"log"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/duetime/duetime/client/go/duetimepb"
)

func TestSubscriberNacksAfterAPanic(t *testing.T) {
	reason := make(chan string, 1)
	fake := &fakeServer{subscribe: func(stream pb.Messages_SubscribeServer) error {
		start, err := stream.Recv()
		if err != nil {
			return err
		}
		if !start.Start.ReportsBegun {
			return status.Error(codes.InvalidArgument, "the stream does not report what it begins")
		}
		err = stream.Send(&pb.SubscribeResponse{Started: &pb.SubscribeStarted{}, Deliveries: deliveries(1)})
		for err == nil {
			var request *pb.SubscribeRequest
			if request, err = stream.Recv(); err == nil && len(tokens(request)) > 0 {
				reason <- request.Settlements[0].GetNack().GetReason()
				err = stream.Send(&pb.SubscribeResponse{Settled: tokens(request)})
			}
		}
		return err
	}}
	options := SubscriberOptions{Topic: "t", OnPanic: func(any, []byte) {}}
	subscriber, err := fake.start(t).Subscribe(context.Background(), options, func(context.Context, *Delivery) Settlement {
		panic("the handler broke")
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := <-reason; got != "the handler broke" {
		t.Fatal(got)
	}
	if err := subscriber.Stop(context.Background()); err != nil || subscriber.Counts().Nacked != 1 {
		t.Fatalf("%v, %+v", err, subscriber.Counts())
	}
}

func TestSubscriberReconnectsAndEnds(t *testing.T) {
	var streams atomic.Int32
	fake := &fakeServer{subscribe: func(stream pb.Messages_SubscribeServer) error {
		switch streams.Add(1) {
		case 1:
			_ = stream.Send(&pb.SubscribeResponse{Started: &pb.SubscribeStarted{}, Deliveries: deliveries(1)})
			<-stream.Context().Done() // silent
		case 2:
			return status.Error(codes.Unavailable, "draining")
		}
		return status.Error(codes.NotFound, "deleted")
	}}
	options := SubscriberOptions{Topic: "t", SilenceMax: 100 * time.Millisecond, Backoff: Backoff{Initial: time.Millisecond}}
	handled := make(chan struct{})
	subscriber, err := fake.start(t).Subscribe(context.Background(), options, func(ctx context.Context, _ *Delivery) Settlement {
		<-ctx.Done() // The lease ends with its stream.
		close(handled)
		return Ack()
	})
	if err != nil {
		t.Fatal(err)
	}
	<-handled
	<-subscriber.Done()
	if code := status.Code(subscriber.Err()); code != codes.NotFound || streams.Load() != 3 {
		t.Fatalf("%v after %d streams", subscriber.Err(), streams.Load())
	}
	if err := subscriber.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// deliverTwice opens two streams with one delivery each, and refuses the third. It sends the reasons of the nacks.
func deliverTwice(reasons chan<- string) func(stream pb.Messages_SubscribeServer) error {
	var streams atomic.Int32
	return func(stream pb.Messages_SubscribeServer) error {
		if streams.Add(1) > 2 {
			return status.Error(codes.NotFound, "deleted")
		}
		if _, err := stream.Recv(); err != nil {
			return err
		}
		err := stream.Send(&pb.SubscribeResponse{Started: &pb.SubscribeStarted{}, Deliveries: deliveries(1)})
		if err != nil {
			return err
		}
		for {
			request, err := stream.Recv()
			if err != nil {
				return err
			}
			for _, settlement := range request.Settlements {
				reasons <- settlement.GetNack().GetReason()
				return status.Error(codes.Unavailable, "restarting")
			}
		}
	}
}

type panickingWriter struct{}

func (panickingWriter) Write([]byte) (int, error) { panic("the logger broke") }

func TestCallbacksThatPanic(t *testing.T) {
	var lines strings.Builder
	for _, logger := range []*log.Logger{log.New(&lines, "", 0), log.New(panickingWriter{}, "", 0)} {
		for reason, handler := range map[string]func(){
			"the handler broke": func() { panic("the handler broke") },
			"the handler panicked with nil, or called runtime.Goexit": runtime.Goexit,
		} {
			reasons := make(chan string, 2)
			client := (&fakeServer{subscribe: deliverTwice(reasons)}).start(t)
			client.options.Logger = logger
			options := SubscriberOptions{
				Topic:        "t",
				OnPanic:      func(any, []byte) { panic("OnPanic broke") },
				OnDisconnect: func(error) { panic("OnDisconnect broke") },
			}
			subscriber, err := client.Subscribe(context.Background(), options, func(context.Context, *Delivery) Settlement {
				handler()
				return Ack()
			})
			if err != nil {
				t.Fatal(err)
			}
			<-subscriber.Done()
			if code := status.Code(subscriber.Err()); code != codes.NotFound || len(reasons) != 2 || <-reasons != reason {
				t.Fatalf("%v after %d deliveries", subscriber.Err(), len(reasons))
			}
		}
	}
	for _, line := range []string{"OnPanic panicked: OnPanic broke", "OnDisconnect panicked: OnDisconnect broke"} {
		if count := strings.Count(lines.String(), line); count != 4 {
			t.Errorf("%d times %q in the log:\n%s", count, line, lines.String())
		}
	}
}

func TestASubscriberLogsWhatBecomesOfItsConnection(t *testing.T) {
	var lines strings.Builder
	client := (&fakeServer{subscribe: deliverTwice(make(chan string, 2))}).start(t)
	client.options.Logger = log.New(&lines, "", 0)
	present := client.options.Server
	subscriber, err := client.Subscribe(context.Background(), SubscriberOptions{Topic: "orders"},
		func(context.Context, *Delivery) Settlement { return Nack("n") })
	if err != nil {
		t.Fatal(err)
	}
	<-subscriber.Done()
	want := []string{
		`duetime: the subscriber of "orders" is connected to the server ` + present,
		`duetime: the subscriber of "orders" lost the server ` + present + ", and tries again: ",
		`duetime: the subscriber of "orders" is connected to the server ` + present + " again",
		`duetime: the server ` + present + ` refuses the subscriber of "orders", which has ended: `,
	}
	got := strings.Split(strings.TrimSpace(lines.String()), "\n")
	if len(got) != len(want) {
		t.Fatalf("%q", got)
	}
	for i, line := range got {
		if !strings.HasPrefix(line, want[i]) {
			t.Errorf("line %d is %q", i, line)
		}
	}
}

func TestASubscriberLogsOnceThatItCannotReachTheServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	client := newClient(t, address)
	var lines strings.Builder
	client.options.Logger = log.New(&lines, "", 0)
	tries := make(chan error, 3)
	options := SubscriberOptions{Topic: "orders", Backoff: Backoff{Initial: 1, Max: 1}, OnDisconnect: func(err error) { tries <- err }}
	ctx, cancel := context.WithCancel(context.Background())
	subscriber, err := client.Subscribe(ctx, options, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 3; i++ {
		<-tries
	}
	cancel()
	for len(tries) > 0 {
		<-tries
	}
	<-subscriber.Done()
	line := lines.String()
	if strings.Count(line, "\n") != 1 || !strings.Contains(line, "cannot reach the server "+address) ||
		!strings.Contains(line, "connection refused") {
		t.Fatal(line)
	}
}
