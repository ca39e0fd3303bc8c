// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	pb "github.com/duetime/duetime/client/go/duetimepb"
)

// fakeMember is a member of a cell. It delivers its own name once on each Subscribe stream.
type fakeMember struct {
	fakeServer
	name    string
	address string
	server  *grpc.Server
	health  *health.Server
	// The member leads if it is true, even if the health says otherwise.
	leads   atomic.Bool
	refused atomic.Int32
	// Ends the streams of the leader, as a change of leader does.
	mutex sync.Mutex
	term  chan struct{}
}

func startMember(t *testing.T, name string) *fakeMember {
	m := &fakeMember{name: name, health: health.NewServer(), term: make(chan struct{})}
	admit := func() error {
		if m.leads.Load() {
			return nil
		}
		m.refused.Add(1)
		s, _ := status.New(codes.Unavailable, "standby").WithDetails(&errdetails.ErrorInfo{Reason: "NOT_LEADER", Domain: "duetime"})
		return s.Err()
	}
	m.server = grpc.NewServer(
		grpc.UnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if err := admit(); err != nil {
				return nil, err
			}
			return handler(ctx, request)
		}),
		grpc.StreamInterceptor(func(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			if _, isHealth := service.(*health.Server); !isHealth {
				if err := admit(); err != nil {
					return err
				}
			}
			return handler(service, stream)
		}))
	m.subscribe = func(stream pb.Messages_SubscribeServer) error {
		m.mutex.Lock()
		term := m.term
		m.mutex.Unlock()
		delivery := &pb.Delivery{MessageId: m.name, LeaseToken: m.name}
		err := stream.Send(&pb.SubscribeResponse{Started: &pb.SubscribeStarted{}, Deliveries: []*pb.Delivery{delivery}})
		if err == nil {
			<-term
			err = admit()
		}
		return err
	}
	m.scheduleStream = func(stream pb.Messages_ScheduleStreamServer) error {
		_, err := stream.Recv()
		if err == nil {
			result := &pb.ScheduleResult{Result: &pb.ScheduleResult_Message{Message: &pb.Message{Id: m.name}}}
			err = stream.Send(&pb.ScheduleStreamResponse{Results: []*pb.ScheduleResult{result}})
		}
		return err
	}
	pb.RegisterMessagesServer(m.server, m)
	healthpb.RegisterHealthServer(m.server, m.health)
	m.setHealth(false)
	m.address = serve(t, m.server)
	return m
}

func (m *fakeMember) setHealth(serving bool) {
	state := healthpb.HealthCheckResponse_NOT_SERVING
	if serving {
		state = healthpb.HealthCheckResponse_SERVING
	}
	m.health.SetServingStatus("duetime.v1.Messages", state)
}

func (m *fakeMember) lead() {
	m.leads.Store(true)
	m.setHealth(true)
}

func (m *fakeMember) resign() {
	m.leads.Store(false)
	m.setHealth(false)
	m.mutex.Lock()
	defer m.mutex.Unlock()
	close(m.term)
	m.term = make(chan struct{})
}

// startCell starts two standbys, and a client of both.
func startCell(t *testing.T) (a, b *fakeMember, client *Client) {
	a, b = startMember(t, "a"), startMember(t, "b")
	return a, b, newClient(t, a.address+","+b.address)
}

func schedule(t *testing.T, client *Client) {
	t.Helper()
	if _, err := client.Schedule(context.Background(), Message{Topic: "t"}); err != nil {
		t.Fatal(err)
	}
}

func TestCallsFollowTheLeader(t *testing.T) {
	a, b, client := startCell(t)
	b.lead()
	for i := 0; i < 10; i++ {
		schedule(t, client)
	}
	if a.refused.Load() != 0 {
		t.Fatal("calls went to a standby")
	}
	b.resign()
	time.AfterFunc(300*time.Millisecond, a.lead)
	schedule(t, client) // waits for the next leader
	b.lead()
	a.server.Stop() // the leader is killed
	schedule(t, client)
	if len(a.scheduled) != 1 || len(b.scheduled) != 11 {
		t.Fatalf("%d calls at a, %d at b", len(a.scheduled), len(b.scheduled))
	}
}

// A call that is not repeated after Unavailable is repeated after NOT_LEADER, because it changed nothing.
func TestACallThatAStandbyRefusesIsMadeAgain(t *testing.T) {
	a, b, client := startCell(t)
	a.setHealth(true) // it has not noticed yet that it leads no more
	time.AfterFunc(300*time.Millisecond, func() {
		b.lead()
		a.setHealth(false)
	})
	if _, err := client.Reschedule(context.Background(), ByID("m"), After(0), IfEtag("e")); err != nil {
		t.Fatal(err)
	}
	if a.refused.Load() < 2 || b.rescheduled != 1 {
		t.Fatalf("a refused %d calls, b accepted %d", a.refused.Load(), b.rescheduled)
	}
}

func TestASubscriberFollowsTheLeader(t *testing.T) {
	a, b, client := startCell(t)
	a.lead()
	delivered := make(chan string, 10)
	// After NOT_LEADER the subscriber does not wait for so long.
	options := SubscriberOptions{Topic: "t", Backoff: Backoff{Initial: time.Hour}}
	subscriber, err := client.Subscribe(context.Background(), options,
		func(_ context.Context, delivery *Delivery) Settlement {
			delivered <- delivery.MessageId
			return Leave()
		})
	if err != nil {
		t.Fatal(err)
	}
	if first := <-delivered; first != "a" {
		t.Fatal(first)
	}
	a.resign()
	time.AfterFunc(300*time.Millisecond, b.lead)
	if second := <-delivered; second != "b" {
		t.Fatal(second)
	}
	b.resign()
	if err := subscriber.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestAScheduleStreamOpensAtTheLeader(t *testing.T) {
	a, b, client := startCell(t)
	for _, leader := range []*fakeMember{a, b} {
		time.AfterFunc(300*time.Millisecond, leader.lead)
		var at string
		stream, err := client.OpenScheduleStream(context.Background(), ScheduleStreamOptions{},
			func(_ int64, result ScheduleResult) { at = result.Response.Message.Id })
		if err == nil {
			err = stream.Send(Message{Topic: "t"})
		}
		if err == nil {
			err = stream.Finish()
		}
		if err != nil || at != leader.name {
			t.Fatalf("%v at %q", err, at)
		}
		leader.resign()
	}
	_, err := client.OpenScheduleStream(context.Background(), ScheduleStreamOptions{AnswerTimeout: 100 * time.Millisecond}, nil)
	if status.Code(err) != codes.DeadlineExceeded {
		t.Fatal(err)
	}
}

func TestEachAddressOfSeveralNeedsAPort(t *testing.T) {
	for _, server := range []string{"127.0.0.1:1,", "127.0.0.1:1,host"} {
		if _, err := New(Options{Server: server}); status.Code(err) != codes.InvalidArgument {
			t.Fatalf("%q: %v", server, err)
		}
	}
}
