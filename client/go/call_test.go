// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/duetime/duetime/client/go/duetimepb"
)

func TestScheduleRepeatsWithTheSameRequestID(t *testing.T) {
	fake := &fakeServer{failures: 2}
	if _, err := fake.start(t).Schedule(context.Background(), Message{Topic: "t"}); err != nil {
		t.Fatal(err)
	}
	if len(fake.scheduled) != 3 {
		t.Fatalf("%d tries", len(fake.scheduled))
	}
	id := fake.scheduled[0].RequestId
	if id == "" || fake.scheduled[2].RequestId != id {
		t.Fatalf("request ids %q and %q", id, fake.scheduled[2].RequestId)
	}
}

func TestNoRepeatWithAnEtagOrRepeatNever(t *testing.T) {
	fake := &fakeServer{failures: 2}
	client := fake.start(t)
	_, err := client.Reschedule(context.Background(), ByID("m"), After(0), IfEtag("e"))
	if status.Code(err) != codes.Unavailable || fake.rescheduled != 1 {
		t.Fatalf("%v after %d tries", err, fake.rescheduled)
	}
	_, err = client.Schedule(context.Background(), Message{Topic: "t"}, WithRepeat(RepeatNever))
	if status.Code(err) != codes.Unavailable || len(fake.scheduled) != 1 || fake.scheduled[0].RequestId != "" {
		t.Fatalf("%v after %v", err, fake.scheduled)
	}
}

func TestErrorHasDetailsOfTheServer(t *testing.T) {
	fake := &fakeServer{failures: 100}
	client := fake.start(t)
	client.options.AttemptsMax = 4
	_, err := client.Schedule(context.Background(), Message{Topic: "t"})
	var failure *Error
	if !errors.As(err, &failure) {
		t.Fatal(err)
	}
	if failure.Code != codes.Unavailable || failure.Reason != "STARTING" || failure.Metadata["a"] != "b" ||
		failure.RetryDelay != time.Millisecond || len(fake.scheduled) != 4 {
		t.Fatalf("%+v after %d tries", failure, len(fake.scheduled))
	}
}

// The server allows a number of calls on a connection. Pulls that wait must not take the places of other calls.
func TestNoOtherCallWaitsBehindPulls(t *testing.T) {
	waiting, due := make(chan struct{}), make(chan struct{})
	fake := &fakeServer{pull: func(_ context.Context, request *pb.PullRequest) (*pb.PullResponse, error) {
		if request.Wait != nil {
			close(waiting)
			<-due
		}
		return &pb.PullResponse{}, nil
	}}
	client := fake.start(t, grpc.MaxConcurrentStreams(1))
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	pulled := make(chan error)
	go func() {
		_, err := client.Pull(ctx, &pb.PullRequest{Topic: "t", Wait: durationpb.New(time.Minute)})
		pulled <- err
	}()
	<-waiting
	if _, err := client.Schedule(ctx, Message{Topic: "t"}); err != nil {
		t.Error(err)
	}
	if _, err := client.Pull(ctx, &pb.PullRequest{Topic: "t"}); err != nil {
		t.Error(err)
	}
	close(due)
	if err := <-pulled; err != nil {
		t.Error(err)
	}
	client.Close()
	_, err := client.Pull(context.Background(), &pb.PullRequest{Topic: "t", Wait: durationpb.New(time.Minute)})
	if status.Code(err) != codes.Canceled {
		t.Errorf("after Close: %v", err)
	}
	unused := fake.start(t)
	unused.Close()
	_, err = unused.Pull(context.Background(), &pb.PullRequest{Topic: "t", Wait: durationpb.New(time.Minute)})
	if status.Code(err) != codes.Canceled {
		t.Errorf("after Close, as the first one: %v", err)
	}
}

func TestErrorOfAnEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := (&fakeServer{}).start(t).Schedule(ctx, Message{Topic: "t"})
	if !errors.Is(err, context.Canceled) || status.Code(err) != codes.Canceled {
		t.Fatal(err)
	}
}

func TestEachMethodSaysWhetherItMayBeRepeated(t *testing.T) {
	if len(repeats) < 40 {
		t.Errorf("%d methods", len(repeats))
	}
	for request, rule := range repeats {
		if rule == pb.CallRepeat_CALL_REPEAT_UNSPECIFIED {
			t.Errorf("%s: no option", request)
		}
	}
	for request, want := range map[proto.Message]bool{
		&pb.GetRequest{}: true, &pb.CancelRequest{}: true, &pb.ScheduleRequest{}: true, &pb.PullRequest{}: false,
		&pb.DeleteTopicRequest{}: false, &pb.RescheduleRequest{}: true, &pb.RescheduleRequest{Etag: "e"}: false,
		&pb.UpdateRecurrenceRequest{Etag: "e"}: false, &pb.Message{}: false,
	} {
		if mayRepeat(request) != want {
			t.Errorf("%T %v: %v", request, request, !want)
		}
	}
}
