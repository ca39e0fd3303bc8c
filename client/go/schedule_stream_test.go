// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"context"
	"io"
	"log"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/duetime/duetime/client/go/duetimepb"
)

// The server answers the first frame, and then nothing.
func TestStreamKnowsWhatIsUnansweredAfterSilence(t *testing.T) {
	fake := &fakeServer{scheduleStream: func(stream pb.Messages_ScheduleStreamServer) error {
		if _, err := stream.Recv(); err != nil {
			return err
		}
		result := &pb.ScheduleResult{Result: &pb.ScheduleResult_Message{Message: &pb.Message{Id: "m"}}}
		_ = stream.Send(&pb.ScheduleStreamResponse{Results: []*pb.ScheduleResult{result}})
		<-stream.Context().Done()
		return nil
	}}
	var results []int64
	options := ScheduleStreamOptions{FramesMax: 1, AnswerTimeout: 100 * time.Millisecond}
	client := fake.start(t)
	client.options.Logger = log.New(io.Discard, "", 0)
	stream, err := client.OpenScheduleStream(context.Background(), options, func(number int64, result ScheduleResult) {
		results = append(results, number)
		panic("the stream goes on")
	})
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		err = stream.Send(Message{Topic: "t"})
	}
	if status.Code(err) != codes.DeadlineExceeded || stream.Finish() != err {
		t.Fatalf("%v, then %v", err, stream.Finish())
	}
	unanswered := stream.Unanswered()
	if len(results) != 1 || stream.Answered() != 1 || len(unanswered) != int(stream.Sent())-1 || unanswered[0].RequestID == "" {
		t.Fatalf("%v, %d sent, unanswered %+v", results, stream.Sent(), unanswered)
	}
}
