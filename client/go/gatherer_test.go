// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/duetime/duetime/client/go/duetimepb"
)

// scheduledAs is the answer to a Schedule: its message has the key as id.
func scheduledAs(call *pb.StreamedCall) *pb.StreamedAnswer {
	return &pb.StreamedAnswer{Number: call.Number, Answer: &pb.StreamedAnswer_Schedule{
		Schedule: &pb.ScheduleResponse{Message: &pb.Message{Id: call.GetSchedule().Key}}}}
}

// answerAll answers each frame in the reverse order.
func answerAll(stream pb.Messages_CallStreamServer) error {
	for {
		frame, err := stream.Recv()
		if err != nil {
			return nil
		}
		response := &pb.CallStreamResponse{}
		for i := len(frame.Calls) - 1; i >= 0; i-- {
			response.Answers = append(response.Answers, scheduledAs(frame.Calls[i]))
		}
		if err := stream.Send(response); err != nil {
			return err
		}
	}
}

// scheduleMany makes calls at once, and returns the errors. Each call must get its own answer.
func scheduleMany(t *testing.T, client *Client, count int) []error {
	errs := make([]error, count)
	var group sync.WaitGroup
	for i := 0; i < count; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			key := fmt.Sprint("k", i)
			answer, err := client.Schedule(context.Background(), Message{Topic: "t", Key: key})
			if errs[i] = err; err == nil && answer.Message.Id != key {
				t.Errorf("%s got the answer of %s", key, answer.Message.Id)
			}
		}(i)
	}
	group.Wait()
	return errs
}

func TestEachCallGetsItsAnswer(t *testing.T) {
	fake := &fakeServer{callStream: answerAll}
	for i, err := range scheduleMany(t, fake.start(t), 1000) {
		if err != nil {
			t.Fatal(i, err)
		}
	}
	if len(fake.scheduled) != 0 {
		t.Errorf("%d calls of their own", len(fake.scheduled))
	}
}

func TestCallsThatWaitShareAFrame(t *testing.T) {
	g := &gatherer{stream: &gatheredStream{open: map[int64]*gatheredCall{}, wake: make(chan struct{}, 1)}}
	gone, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for i := 0; i < frameCallsMax+2; i++ {
		g.add(&gatheredCall{ctx: gone, call: &pb.StreamedCall{}, gone: i == 0})
	}
	first, second := g.nextFrame(g.stream), g.nextFrame(g.stream)
	if len(first.Calls) != frameCallsMax || len(second.Calls) != 1 || g.nextFrame(g.stream) != nil {
		t.Fatalf("%d and %d calls", len(first.Calls), len(second.Calls))
	}
	if first.Calls[0].Number != 1 || second.Calls[0].Number != frameCallsMax+1 || first.Calls[0].Timeout.AsDuration() < 50*time.Second {
		t.Errorf("%v, then %v", first.Calls[0], second.Calls[0])
	}
}

func TestFailureOfACallIsTheErrorOfACallOfItsOwn(t *testing.T) {
	failure := &pb.Failure{Code: int32(codes.ResourceExhausted), Message: "full", Reason: "TOPIC_FULL", Metadata: map[string]string{"a": "b"},
		Field: "topic", RetryDelay: durationpb.New(time.Second)}
	fake := &fakeServer{callStream: func(stream pb.Messages_CallStreamServer) error {
		frame, err := stream.Recv()
		if err != nil {
			return err
		}
		return stream.Send(&pb.CallStreamResponse{Answers: []*pb.StreamedAnswer{
			{Number: 77}, {Number: frame.Calls[0].Number, Answer: &pb.StreamedAnswer_Error{Error: failure}}}})
	}}
	_, err := fake.start(t).Schedule(context.Background(), Message{Topic: "t"})
	var got *Error
	if !errors.As(err, &got) {
		t.Fatal(err)
	}
	want := &Error{Code: codes.ResourceExhausted, Reason: "TOPIC_FULL", Message: "full", Metadata: map[string]string{"a": "b"},
		Fields: []FieldViolation{{Field: "topic", Description: "full"}}, RetryDelay: time.Second}
	if len(got.status.Details()) != 3 {
		t.Errorf("details: %v", got.status.Details())
	}
	if got.status = nil; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

// The first stream takes one of three calls and ends; what becomes of the others depends on what it says.
func TestTheStreamEnds(t *testing.T) {
	one := int64(1)
	for name, c := range map[string]struct {
		taken *int64
		end   error
		want  codes.Code
	}{
		"says what it took":     {taken: &one, end: status.Error(codes.Unavailable, "draining"), want: codes.OK},
		"says nothing":          {end: status.Error(codes.Unavailable, "gone"), want: codes.Unavailable},
		"ends without an error": {want: codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			streams := 0
			fake := &fakeServer{callStream: func(stream pb.Messages_CallStreamServer) error {
				if streams++; streams > 1 {
					return answerAll(stream)
				}
				response := &pb.CallStreamResponse{CallsTaken: c.taken}
				for calls := 0; calls < 3; {
					frame, err := stream.Recv()
					if err != nil {
						return err
					}
					if calls == 0 && c.taken != nil {
						response.Answers = []*pb.StreamedAnswer{scheduledAs(frame.Calls[0])}
					}
					calls += len(frame.Calls)
				}
				_ = stream.Send(response)
				return c.end
			}}
			client := fake.start(t)
			client.options.AttemptsMax = 1
			for _, err := range scheduleMany(t, client, 3) {
				if status.Code(err) != c.want {
					t.Error(err)
				}
			}
			if _, err := client.Schedule(context.Background(), Message{Topic: "t", Key: "k"}); err != nil {
				t.Error(err)
			}
		})
	}
}

// A call that a stream may have begun is not repeated as one that a member refused, which changed nothing.
func TestTheStreamEndsBecauseItsMemberLeadsNoMore(t *testing.T) {
	fake := &fakeServer{callStream: func(stream pb.Messages_CallStreamServer) error {
		var open []*pb.StreamedCall
		for len(open) < 2 {
			frame, err := stream.Recv()
			if err != nil {
				return err
			}
			open = append(open, frame.Calls...)
		}
		two := int64(2)
		if err := stream.Send(&pb.CallStreamResponse{CallsTaken: &two, Answers: []*pb.StreamedAnswer{scheduledAs(open[0])}}); err != nil {
			return err
		}
		return statusOf(&pb.Failure{Code: int32(codes.Unavailable), Message: "member b leads", Reason: "NOT_LEADER"}).Err()
	}}
	client := fake.start(t)
	client.options.AttemptsMax = 1
	failed := 0
	for _, err := range scheduleMany(t, client, 2) {
		if err == nil {
			continue
		}
		if failed++; status.Code(err) != codes.Unavailable || ReasonOf(err) != "" {
			t.Error(err)
		}
	}
	if failed != 1 {
		t.Errorf("%d calls failed", failed)
	}
}

// Without the reason of a limit of streams, the server may have taken the calls.
func TestAStreamThatIsDroppedBeforeItsFirstAnswerMayHaveBegunItsCalls(t *testing.T) {
	fake := &fakeServer{callStream: func(stream pb.Messages_CallStreamServer) error {
		_, _ = stream.Recv()
		return status.Error(codes.ResourceExhausted, "the client does not read its answers")
	}}
	client := fake.start(t)
	client.options.AttemptsMax = 1
	if _, err := client.Schedule(context.Background(), Message{Topic: "t"}); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	if len(fake.scheduled) != 0 {
		t.Error("made again")
	}
}

func TestACallerThatGivesUp(t *testing.T) {
	answered, got := make(chan struct{}), make(chan *pb.StreamedCall, 10)
	fake := &fakeServer{callStream: func(stream pb.Messages_CallStreamServer) error {
		for {
			frame, err := stream.Recv()
			if err != nil {
				return nil
			}
			for _, call := range frame.Calls {
				got <- call
				<-answered
				_ = stream.Send(&pb.CallStreamResponse{Answers: []*pb.StreamedAnswer{scheduledAs(call)}})
			}
		}
	}}
	client := fake.start(t)
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(context.Background(), "traceparent", "p", "tracestate", "s"))
	go func() {
		if call := <-got; call.Traceparent != "p" || call.Tracestate != "s" || call.Timeout == nil {
			t.Errorf("%v", call)
		}
		cancel()
		close(answered)
	}()
	if _, err := client.Schedule(ctx, Message{Topic: "t"}); status.Code(err) != codes.Canceled || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := client.Schedule(context.Background(), Message{Topic: "t"}); err != nil {
		t.Error(err)
	}
	if _, err := client.Schedule(ctx, Message{Topic: "t"}); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
}

func TestCallsOfTheirOwn(t *testing.T) {
	plain := Message{Topic: "t"}
	metadataOfACaller := metadata.AppendToOutgoingContext(context.Background(), "x", "y")
	for name, c := range map[string]struct {
		ctx      context.Context
		message  Message
		separate bool
		stream   func(pb.Messages_CallStreamServer) error
	}{
		"large":                 {message: Message{Topic: "t", Payload: make([]byte, gatheredBytesMax)}, stream: answerAll},
		"metadata":              {ctx: metadataOfACaller, message: plain, stream: answerAll},
		"option":                {message: plain, separate: true, stream: answerAll},
		"unknown to the server": {message: plain},
		"smaller frames than ours": {message: plain, stream: func(stream pb.Messages_CallStreamServer) error {
			_, _ = stream.Recv()
			_ = stream.Send(&pb.CallStreamResponse{CallsTaken: new(int64)})
			return status.Error(codes.InvalidArgument, "BATCH_TOO_LARGE")
		}},
		"too many streams": {message: plain, stream: func(pb.Messages_CallStreamServer) error {
			return statusOf(&pb.Failure{Code: int32(codes.ResourceExhausted), Reason: "STREAM_LIMIT"}).Err()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			fake := &fakeServer{callStream: c.stream}
			client := fake.start(t)
			if c.separate {
				client = newClient(t, client.options.Server, func(options *Options) { options.SeparateCalls = true })
			}
			if c.ctx == nil {
				c.ctx = context.Background()
			}
			for i := 0; i < 2; i++ {
				if _, err := client.Schedule(c.ctx, c.message); err != nil {
					t.Error(err)
				}
			}
			if len(fake.scheduled) != 2 {
				t.Errorf("%d calls of their own", len(fake.scheduled))
			}
		})
	}
}

func TestCallsOfAClosedClientEnd(t *testing.T) {
	open := make(chan struct{})
	fake := &fakeServer{callStream: func(stream pb.Messages_CallStreamServer) error {
		_, _ = stream.Recv()
		close(open)
		_, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		return err
	}}
	client := fake.start(t)
	go func() {
		<-open
		client.Close()
	}()
	for i := 0; i < 2; i++ {
		if _, err := client.Schedule(context.Background(), Message{Topic: "t"}); status.Code(err) != codes.Canceled {
			t.Error(err)
		}
	}
}
