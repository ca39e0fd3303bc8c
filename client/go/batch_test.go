// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"context"
	"fmt"
	"log"
	"strings"
	"testing"
	"time"

	pb "github.com/duetime/duetime/client/go/duetimepb"
)

// batchOf is a call that has at most `most` deliveries.
func batchOf(t *testing.T, s *subscriberState, most int) *handlerCall {
	t.Helper()
	call := &handlerCall{max: most}
	if !s.takeWork(call) {
		t.Fatal("no work")
	}
	return call
}

func TestABatchIsWhatWaits(t *testing.T) {
	s := openState(5)
	for _, want := range []int{2, 2, 1} {
		call := batchOf(t, s, 2)
		if len(call.leases) != want {
			t.Fatalf("%d deliveries, not %d", len(call.leases), want)
		}
		s.settle(call, nil, Ack())
	}
	if s.busy != 0 || s.unconfirmed != 5 {
		t.Fatalf("%d calls, %d settlements", s.busy, s.unconfirmed)
	}
}

func TestTheSettlementsOfABatchShareARequest(t *testing.T) {
	s := openState(3)
	call := batchOf(t, s, 3)
	s.settle(call, []Settlement{Ack(), Nack("n"), DeadLetter("d")}, Ack())
	request, _, _ := s.tryWrite(time.Now())
	if got := tokens(request); fmt.Sprint(got) != "[token0 token1 token2]" {
		t.Fatalf("%v", got)
	}
	if request.Settlements[0].Action != nil || request.Settlements[1].GetNack().GetReason() != "n" ||
		request.Settlements[2].GetDeadLetter().GetReason() != "d" {
		t.Fatalf("%v", request)
	}
	if call.leases = call.leases[:3]; call.leases[0] != nil {
		t.Fatal("the call keeps what is settled")
	}
}

func TestABatchIsWithoutLostLeases(t *testing.T) {
	s := openState(3)
	s.tryWrite(time.Now().Add(10 * time.Second))
	s.onFrame(&pb.SubscribeResponse{Refused: []*pb.SettleRefusal{{LeaseToken: "token1"}}})
	call := batchOf(t, s, 3)
	if len(call.leases) != 2 || call.leases[1].delivery.LeaseToken != "token2" || s.getCounts().Skipped != 1 {
		t.Fatalf("%v, %+v", call.leases, s.getCounts())
	}
}

func TestTheContextOfABatchEndsWithItsLastLease(t *testing.T) {
	s := openState(2)
	call := batchOf(t, s, 2)
	s.tryWrite(time.Now().Add(10 * time.Second))
	for i, token := range []string{"token0", "token0", "token1"} {
		s.onFrame(&pb.SubscribeResponse{Refused: []*pb.SettleRefusal{{LeaseToken: token}}})
		if ended := call.ctx.Err() != nil; ended != (i == 2) {
			t.Fatalf("after refusal %d the context has ended: %v", i, ended)
		}
	}
}

// A delivery that may have ended its process gets a call of its own.
func TestADeliveryThatNeedsAConfirmationIsAlone(t *testing.T) {
	s := openState(1)
	list := deliveries(4)[1:]
	list[1].ConfirmBegun = true
	s.onFrame(&pb.SubscribeResponse{Deliveries: list})
	var sizes []int
	for i := 0; i < 3; i++ {
		call := &handlerCall{max: 10}
		s.begin(call, time.Now())
		sizes = append(sizes, len(call.leases))
	}
	if fmt.Sprint(sizes) != "[2 1 1]" {
		t.Fatalf("%v", sizes)
	}
}

func TestABatchWithTheWrongNumberOfSettlementsIsNacked(t *testing.T) {
	requests := make(chan *pb.SubscribeRequest, 1)
	fake := &fakeServer{subscribe: func(stream pb.Messages_SubscribeServer) error {
		err := stream.Send(&pb.SubscribeResponse{Started: &pb.SubscribeStarted{}, Deliveries: deliveries(3)})
		for err == nil {
			var request *pb.SubscribeRequest
			if request, err = stream.Recv(); err == nil && len(tokens(request)) > 0 {
				requests <- request
				err = stream.Send(&pb.SubscribeResponse{Settled: tokens(request)})
			}
		}
		return err
	}}
	client := fake.start(t)
	var lines strings.Builder
	client.options.Logger = log.New(&lines, "", 0)
	subscriber, err := client.SubscribeBatch(context.Background(), SubscriberOptions{Topic: "t"},
		func(_ context.Context, deliveries []*Delivery) []Settlement {
			return make([]Settlement, len(deliveries)-1)
		})
	if err != nil {
		t.Fatal(err)
	}
	for _, settlement := range (<-requests).Settlements {
		if got := settlement.GetNack().GetReason(); got != "the handler returned 2 settlements for 3 deliveries" {
			t.Fatal(got)
		}
	}
	if err := subscriber.Stop(context.Background()); err != nil || subscriber.Counts().Nacked != 3 {
		t.Fatalf("%v, %+v", err, subscriber.Counts())
	}
	if !strings.Contains(lines.String(), `a handler of the topic "t" returned 2 settlements for 3 deliveries`) {
		t.Fatal(lines.String())
	}
}
