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

// tokens returns the lease tokens of a request.
func tokens(request *pb.SubscribeRequest) []string {
	all := append([]string(nil), request.Ack...)
	for _, nack := range request.Nack {
		all = append(all, nack.LeaseToken)
	}
	for _, release := range request.Release {
		all = append(all, release.LeaseToken)
	}
	for _, dead := range request.DeadLetter {
		all = append(all, dead.LeaseToken)
	}
	for _, extend := range request.Extend {
		all = append(all, extend.LeaseToken)
	}
	return all
}

// Leases that end return credit, so there can be more settlements and extensions than credit.
func TestNoRequestHasMoreSettlementsThanTheCredit(t *testing.T) {
	s := openState(13)
	kinds := []Settlement{Ack(), Nack("n"), DeadLetter("d"), Release()}
	for i := 0; i < 8; i++ {
		work, _ := s.takeWork()
		s.settle(work, kinds[i%len(kinds)])
	}
	// The other 5 leases are due to be extended.
	now := time.Now().Add(10 * time.Second)
	seen := map[string]bool{}
	for len(seen) < 13 {
		request, _, wait := s.tryWrite(now)
		if wait != 0 {
			t.Fatalf("nothing to write after %d of 13", len(seen))
		}
		all := tokens(request)
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
}

func TestStopReleasesDeliveriesWithoutHandler(t *testing.T) {
	s := openState(3)
	work, _ := s.takeWork()
	s.requestStop()
	request, _, _ := s.tryWrite(time.Now())
	if !request.NoMoreDeliveries || len(request.Release) != 2 {
		t.Fatalf("%v", request)
	}
	s.settle(work, Ack())
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
	work, _ := s.takeWork()
	if _, halfClose, _ := s.tryWrite(time.Now()); halfClose {
		t.Fatal("half-closed while a handler runs")
	}
	s.settle(work, Ack())
	s.tryWrite(time.Now())
	if _, halfClose, _ := s.tryWrite(time.Now()); halfClose {
		t.Fatal("half-closed before the confirmation")
	}
	s.onFrame(&pb.SubscribeResponse{Settled: []string{"token0"}})
	if _, halfClose, _ := s.tryWrite(time.Now()); !halfClose {
		t.Fatal("not half-closed")
	}
}
