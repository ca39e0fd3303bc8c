// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"context"
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
				reason <- append(request.Nack, &pb.Nack{})[0].Reason
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
