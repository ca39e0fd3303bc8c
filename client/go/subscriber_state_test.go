// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/duetime/duetime/client/go/duetimepb"
)

func deliveries(count int) []*pb.Delivery {
	list := make([]*pb.Delivery, count)
	for i := range list {
		list[i] = &pb.Delivery{LeaseToken: fmt.Sprint("token", i)}
	}
	return list
}

// openState has a stream with a credit of 3, and `count` deliveries.
func openState(count int) *subscriberState {
	s := newSubscriberState(time.Hour)
	s.beginStream(context.Background())
	s.onFrame(&pb.SubscribeResponse{Started: &pb.SubscribeStarted{
		MaxOutstandingMessages: 3, LeaseDuration: durationpb.New(30 * time.Second)}})
	s.onFrame(&pb.SubscribeResponse{Deliveries: deliveries(count)})
	return s
}

// take returns the call of a handler that gets the first delivery.
func take(s *subscriberState) *handlerCall {
	call := &handlerCall{max: 1}
	s.takeWork(call)
	return call
}

// tokens returns the lease tokens of the settlements of a request.
func tokens(request *pb.SubscribeRequest) (all []string) {
	for _, settlement := range request.GetSettlements() {
		all = append(all, settlement.LeaseToken)
	}
	return all
}

// releases counts the releases of a request.
func releases(request *pb.SubscribeRequest) (count int) {
	for _, settlement := range request.GetSettlements() {
		if settlement.GetRelease() != nil {
			count++
		}
	}
	return count
}

// Leases that end return credit, so there can be more settlements, extensions and reports than credit.
func TestNoRequestHasMoreSettlementsThanTheCredit(t *testing.T) {
	s := openState(13)
	kinds := []Settlement{Ack(), Nack("n"), DeadLetter("d"), Release(), Leave()}
	var settled []string
	for i := 0; i < 10; i++ {
		work := take(s)
		settlement := kinds[i%len(kinds)]
		if settlement != Leave() {
			settled = append(settled, work.leases[0].delivery.LeaseToken)
		}
		s.settle(work, nil, settlement)
	}
	// The other 3 leases are due to be extended.
	now := time.Now().Add(10 * time.Second)
	seen := map[string]bool{}
	var sent []string
	for len(seen) < 13 {
		request, _, wait := s.tryWrite(now)
		if wait != 0 {
			t.Fatalf("nothing to write after %d of 13", len(seen))
		}
		sent = append(sent, tokens(request)...)
		all := append(tokens(request), request.Begun...)
		if len(all) > 3 {
			t.Fatalf("a request with %d tokens", len(all))
		}
		for _, token := range all {
			if seen[token] {
				t.Fatalf("%s twice", token)
			}
			seen[token] = true
		}
	}
	if request, _, wait := s.tryWrite(now); wait == 0 {
		t.Fatalf("one more request: %v", request)
	}
	if got := sent[:len(settled)]; fmt.Sprint(got) != fmt.Sprint(settled) {
		t.Fatalf("settled in the order %v, not %v", got, settled)
	}
}

func TestStopReleasesDeliveriesWithoutHandler(t *testing.T) {
	s := openState(3)
	work := take(s)
	s.requestStop()
	request, _, _ := s.tryWrite(time.Now())
	if !request.NoMoreDeliveries || releases(request) != 2 {
		t.Fatalf("%v", request)
	}
	s.settle(work, nil, Ack())
	request, _, _ = s.tryWrite(time.Now())
	s.onFrame(&pb.SubscribeResponse{Settled: append(tokens(request), "token1", "token2")})
	if !s.waitHandled(context.Background()) || !s.waitConfirmed(context.Background()) {
		t.Fatal("not clean")
	}
	if c := s.getCounts(); c.Acked != 1 || c.Skipped != 2 || c.Released != 0 {
		t.Fatalf("%+v", c)
	}
}

func TestDrainEndsTheStreamAfterTheLastConfirmation(t *testing.T) {
	s := openState(1)
	s.onFrame(&pb.SubscribeResponse{Drain: &pb.DrainNotice{}})
	work := take(s)
	if _, halfClose, _ := s.tryWrite(time.Now()); halfClose {
		t.Fatal("half-closed while a handler runs")
	}
	s.settle(work, nil, Ack())
	s.tryWrite(time.Now())
	if _, halfClose, _ := s.tryWrite(time.Now()); halfClose {
		t.Fatal("half-closed before the confirmation")
	}
	s.onFrame(&pb.SubscribeResponse{Settled: []string{"token0"}})
	if _, halfClose, _ := s.tryWrite(time.Now()); !halfClose {
		t.Fatal("not half-closed")
	}
}

func TestNothingIsHandledWhoseLeaseIsLost(t *testing.T) {
	for _, c := range []struct {
		name string
		lose func(s *subscriberState)
		wait time.Duration
		lost bool
	}{
		{"current", func(*subscriberState) {}, 29 * time.Second, false},
		{"ended", func(*subscriberState) {}, 31 * time.Second, true},
		{"extended", func(s *subscriberState) { s.tryWrite(time.Now().Add(10 * time.Second)) }, 39 * time.Second, false},
		{"ended after an extension", func(s *subscriberState) { s.tryWrite(time.Now().Add(10 * time.Second)) },
			41 * time.Second, true},
		{"refused", func(s *subscriberState) {
			s.tryWrite(time.Now().Add(10 * time.Second))
			s.onFrame(&pb.SubscribeResponse{Refused: []*pb.SettleRefusal{{LeaseToken: "token0"}}})
		}, 11 * time.Second, true},
	} {
		s := openState(1)
		c.lose(s)
		if s.begin(&handlerCall{max: 1}, time.Now().Add(c.wait)) == c.lost {
			t.Errorf("%s: a handler gets it: %v", c.name, !c.lost)
		}
		want := Counts{Streams: 1}
		if c.lost {
			want.LeasesLost, want.Skipped = 1, 1
		}
		if got := s.getCounts(); got != want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestDeliveriesThatWaitTooLongAreGivenBack(t *testing.T) {
	s := openState(3)
	s.leases.keepMax = 15 * time.Second
	s.begin(&handlerCall{max: 1}, time.Now())
	now := time.Now().Add(10 * time.Second)
	s.tryWrite(now)
	request, _, _ := s.tryWrite(now)
	if releases(request) != 2 || len(s.queue) != 0 {
		t.Fatalf("%v, and %d deliveries wait", request, len(s.queue))
	}
	s.onFrame(&pb.SubscribeResponse{Settled: tokens(request)})
	if c := s.getCounts(); c != (Counts{Streams: 1, SettleRequests: 1, Skipped: 2}) || len(s.skipped) != 0 {
		t.Fatalf("%+v", c)
	}
}

// The server handles the report before the extension and the settlement.
func TestARefusedReportIsALostLease(t *testing.T) {
	s := openState(1)
	work := take(s)
	request, _, _ := s.tryWrite(time.Now().Add(10 * time.Second))
	if len(request.Begun) != 1 || len(request.Settlements) != 1 ||
		request.Settlements[0].GetExtend().GetDuration().AsDuration() != 30*time.Second {
		t.Fatalf("%v", request)
	}
	refused := &pb.SubscribeResponse{Refused: []*pb.SettleRefusal{{LeaseToken: "token0"}}}
	s.onFrame(refused)
	if work.ctx.Err() == nil {
		t.Fatal("the handler is not told")
	}
	s.onFrame(refused)
	s.settle(work, nil, Ack())
	s.tryWrite(time.Now())
	s.onFrame(refused)
	if c := s.getCounts(); c.LeasesLost != 1 || c.Refused != 1 || s.unconfirmed != 0 {
		t.Fatalf("%+v", c)
	}
}

// A message that was not reported before its lease ends may have ended its process, for all that the server knows.
func TestADeliveryThatAHandlerLeavesIsReported(t *testing.T) {
	s := openState(1)
	work := take(s)
	s.settle(work, nil, Leave())
	for _, reports := range []int{1, 0} {
		if request, _, _ := s.tryWrite(time.Now().Add(time.Second)); len(request.GetBegun()) != reports {
			t.Fatalf("%v", request)
		}
	}
	s.onFrame(&pb.SubscribeResponse{Refused: []*pb.SettleRefusal{{LeaseToken: "token0"}}})
	if c := s.getCounts(); c.Left != 1 || c.Refused != 0 || s.unconfirmed != 0 {
		t.Fatalf("%+v", c)
	}
}

// An older server answers no report. Then a refusal is one of the settlement.
func TestReportsThatAnOlderServerDoesNotAnswerAreForgotten(t *testing.T) {
	s := openState(2)
	for _, answer := range []*pb.SubscribeResponse{
		{Settled: []string{"token0"}}, {Refused: []*pb.SettleRefusal{{LeaseToken: "token1"}}}} {
		work := take(s)
		request, _, _ := s.tryWrite(time.Now().Add(time.Second))
		s.settle(work, nil, Ack())
		s.tryWrite(time.Now())
		s.onFrame(answer)
		if len(s.leases.reported) != 0 || s.unconfirmed != 0 {
			t.Fatalf("%v: %d reports and %d settlements are open", request, len(s.leases.reported), s.unconfirmed)
		}
	}
	if c := s.getCounts(); c.Acked != 1 || c.Refused != 1 || c.LeasesLost != 0 {
		t.Fatalf("%+v", c)
	}
}

func TestAHandlerWaitsForTheConfirmationOfItsBegin(t *testing.T) {
	for _, c := range []struct {
		name     string
		answer   func(s *subscriberState)
		begins   bool
		released int
		counts   Counts
	}{
		{"confirmed", func(s *subscriberState) {
			s.onFrame(&pb.SubscribeResponse{Begun: []string{"token0"}})
		}, true, 0, Counts{Streams: 1}},
		{"refused", func(s *subscriberState) {
			s.onFrame(&pb.SubscribeResponse{Refused: []*pb.SettleRefusal{{LeaseToken: "token0"}}})
		}, false, 0, Counts{Streams: 1, Skipped: 1, LeasesLost: 1}},
		{"the stream ends", func(s *subscriberState) { s.endStream() }, false, 0, Counts{Streams: 1, Skipped: 1}},
		{"a stop", func(s *subscriberState) { s.requestStop() }, false, 1, Counts{Streams: 1, Skipped: 1, SettleRequests: 1}},
	} {
		list := deliveries(1)
		list[0].ConfirmBegun = true
		s := openState(0)
		s.onFrame(&pb.SubscribeResponse{Deliveries: list})
		call := &handlerCall{max: 1}
		s.begin(call, time.Now())
		l := call.leases[0]
		request, _, _ := s.tryWrite(time.Now())
		if len(request.GetBegun()) != 1 || !s.mustWait(l) {
			t.Fatalf("%s: the request is %v", c.name, request)
		}
		c.answer(s)
		if s.mustWait(l) {
			t.Fatalf("%s: waits on", c.name)
		}
		if s.enter(call) != c.begins {
			t.Fatalf("%s: begins: %v", c.name, !c.begins)
		}
		if c.begins != (s.busy == 1) {
			t.Fatalf("%s: %d handlers are busy", c.name, s.busy)
		}
		request, _, _ = s.tryWrite(time.Now())
		if got := releases(request); got != c.released {
			t.Fatalf("%s: %d releases", c.name, got)
		}
		if got := s.getCounts(); got != c.counts {
			t.Fatalf("%s: %+v", c.name, got)
		}
	}
}
