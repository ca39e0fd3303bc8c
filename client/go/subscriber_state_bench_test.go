// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/duetime/duetime/client/go/duetimepb"
)

// BenchmarkSubscriberState is what the library itself does for a message, without gRPC, the encoding and the goroutines: frames of 500
// deliveries, calls of a handler that does nothing, requests with their settlements, and the confirmations.
func BenchmarkSubscriberState(b *testing.B) {
	single := Handler(func(context.Context, *Delivery) Settlement { return Ack() })
	batch := BatchHandler(func(context.Context, []*Delivery) []Settlement { return nil })
	for _, c := range []struct {
		most int
		run  runner
	}{{1, single.run}, {500, batch.run}} {
		b.Run(fmt.Sprint(c.most), func(b *testing.B) {
			b.ReportAllocs()
			frame, confirmation := &pb.SubscribeResponse{}, &pb.SubscribeResponse{}
			for i := 0; i < 500; i++ {
				token := fmt.Sprintf("token%08d", i)
				frame.Deliveries = append(frame.Deliveries, &pb.Delivery{LeaseToken: token})
				confirmation.Settled = append(confirmation.Settled, token)
			}
			s := newSubscriberState(time.Hour)
			s.beginStream(context.Background())
			s.onFrame(&pb.SubscribeResponse{Started: &pb.SubscribeStarted{
				MaxOutstandingMessages: math.MaxInt32, LeaseDuration: durationpb.New(30 * time.Second)}})
			subscriber := &Subscriber{state: s, run: c.run}
			call := &handlerCall{max: c.most}
			b.ResetTimer()
			for i := 0; i < b.N; i += 500 {
				s.onFrame(frame)
				for len(s.queue) > 0 {
					s.takeWork(call)
					subscriber.call(call)
				}
				if request, _, _ := s.tryWrite(time.Now()); len(request.Settlements) != 500 {
					b.Fatal(request)
				}
				s.onFrame(confirmation)
			}
			if got := s.getCounts().Acked; got < int64(b.N) {
				b.Fatal(got)
			}
		})
	}
}
