// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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

func TestErrorOfAnEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := (&fakeServer{}).start(t).Schedule(ctx, Message{Topic: "t"})
	if !errors.Is(err, context.Canceled) || status.Code(err) != codes.Canceled {
		t.Fatal(err)
	}
}
