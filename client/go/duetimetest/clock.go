// SPDX-License-Identifier: Apache-2.0

package duetimetest

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	duetime "github.com/duetime/duetime/client/go"
	pb "github.com/duetime/duetime/client/go/duetimepb"
)

const (
	// How long a move of the clock may take, on the machine's clock.
	timeout = 10 * time.Second
	// The hand-outs that a move of the clock lists.
	handOutsMax = 10_000
)

// Clock is the clock of a server for a test. It stands still, and moves when the test says so.
type Clock struct {
	t        testing.TB
	control  *duetime.Client
	handOuts []*pb.HandOut
}

func limits() *pb.AdvanceLimits {
	return &pb.AdvanceLimits{UntilIdle: true, Timeout: durationpb.New(timeout), HandOutsMax: proto.Int32(handOutsMax)}
}

// Now returns server time.
func (c *Clock) Now() time.Time {
	c.t.Helper()
	response, err := c.control.TestClock().GetClock(context.Background(), &pb.GetClockRequest{})
	if err != nil {
		c.t.Fatal(err)
	}
	return response.GetClock().GetTime().AsTime()
}

// Advance moves the clock. Each message on the way is handed out at its own time, and the clock waits there until subscribers
// have settled all that they have. It returns what happened, and fails the test if subscribers need longer than 10 s.
func (c *Clock) Advance(by time.Duration) *pb.Advanced {
	c.t.Helper()
	return c.must(c.Move(context.Background(), &pb.AdvanceRequest{
		Target: &pb.AdvanceRequest_By{By: durationpb.New(by)}, Limits: limits()}))
}

// AdvanceTo moves the clock to this time, as Advance.
func (c *Clock) AdvanceTo(to time.Time) *pb.Advanced {
	c.t.Helper()
	return c.must(c.Move(context.Background(), &pb.AdvanceRequest{
		Target: &pb.AdvanceRequest_To{To: timestamppb.New(to)}, Limits: limits()}))
}

// Next moves the clock to the next time at which something happens to a message, as Advance. If nothing ever does, the Stop of
// the answer is STOP_NOTHING.
func (c *Clock) Next() *pb.Advanced {
	c.t.Helper()
	return c.next(&pb.AdvanceToNextRequest{Limits: limits()})
}

// NextUntil is Next, and does not pass this time.
func (c *Clock) NextUntil(until time.Time) *pb.Advanced {
	c.t.Helper()
	return c.next(&pb.AdvanceToNextRequest{Until: timestamppb.New(until), Limits: limits()})
}

func (c *Clock) next(request *pb.AdvanceToNextRequest) *pb.Advanced {
	c.t.Helper()
	response, err := c.control.TestClock().AdvanceToNext(context.Background(), request)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.must(c.moved(response.GetAdvanced()))
}

// Move moves the clock as the request says, with limits of its own, and returns errors: a *duetime.Error with DeadlineExceeded
// if the time was over before the clock was there.
func (c *Clock) Move(ctx context.Context, request *pb.AdvanceRequest) (*pb.Advanced, error) {
	response, err := c.control.TestClock().Advance(ctx, request)
	if err != nil {
		return nil, err
	}
	return c.moved(response.GetAdvanced())
}

func (c *Clock) moved(advanced *pb.Advanced) (*pb.Advanced, error) {
	c.handOuts = append(c.handOuts, advanced.GetHandOuts()...)
	stands := "the clock stands at " + advanced.GetClock().GetTime().AsTime().Format(time.RFC3339Nano) + ", because "
	switch advanced.GetStop() {
	case pb.Advanced_STOP_SUBSCRIBERS:
		return advanced, &duetime.Error{Code: codes.DeadlineExceeded,
			Message: stands + "subscribers have messages whose handlers run or wait"}
	case pb.Advanced_STOP_TIMEOUT:
		return advanced, &duetime.Error{Code: codes.DeadlineExceeded,
			Message: stands + "the time was over before the server had done all"}
	default:
		return advanced, nil
	}
}

func (c *Clock) must(advanced *pb.Advanced, err error) *pb.Advanced {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
	return advanced
}
