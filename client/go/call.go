// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/duetime/duetime/client/go/duetimepb"
)

// repeats is what the protos say of a repeat, by the type of a method's requests.
var repeats = func() map[protoreflect.FullName]pb.CallRepeat {
	rules := map[protoreflect.FullName]pb.CallRepeat{}
	for _, file := range []protoreflect.FileDescriptor{
		pb.File_duetime_v1_messages_proto, pb.File_duetime_v1_admin_proto, pb.File_duetime_v1_test_clock_proto} {
		methods := file.Services().Get(0).Methods()
		for i := 0; i < methods.Len(); i++ {
			options := proto.GetExtension(methods.Get(i).Options(), pb.E_Call).(*pb.Call)
			rules[methods.Get(i).Input().FullName()] = options.GetRepeat()
		}
	}
	return rules
}()

// mayRepeat reports whether a call may be made again after Unavailable: whether a repeat neither does harm nor gives a
// misleading answer.
func mayRepeat(request proto.Message) bool {
	switch repeats[request.ProtoReflect().Descriptor().FullName()] {
	case pb.CallRepeat_CALL_REPEAT_READ, pb.CallRepeat_CALL_REPEAT_SAFE:
		return true
	case pb.CallRepeat_CALL_REPEAT_IF_NAMED:
		return true // the client names it, unless its caller forbids a repeat
	case pb.CallRepeat_CALL_REPEAT_WITHOUT_ETAG:
		return request.(interface{ GetEtag() string }).GetEtag() == ""
	default:
		return false
	}
}

// lastWaitMin is the least wait of a call. Instead of a wait that would pass its deadline, it waits half of the time that is
// left, down to this.
const lastWaitMin = 50 * time.Millisecond

// tokenPause is the time after which a call without a token of the budget looks for one again. It must not miss those that
// others give back.
const tokenPause = 100 * time.Millisecond

// extraMax bounds what a call adds to its timeout, so that the sum does not overflow.
const extraMax = 24 * time.Hour

// caller makes calls by the rules of Options.
type caller struct {
	options Options
	budget  *retryBudget
}

// call runs a method of a stub until it succeeds, fails with an error that forbids a repeat, or the time is over. The
// timeout is that of the options plus extra. Without repeat it makes one try. It returns the answer and the number of tries, without those that a standby
// refused.
func call[Request proto.Message, Response any](ctx context.Context, c caller, repeat bool, extra time.Duration,
	method func(context.Context, Request, ...grpc.CallOption) (*Response, error), request Request) (*Response, int, error) {
	if extra > extraMax {
		extra = extraMax
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout+extra)
	defer cancel()
	deadline, _ := ctx.Deadline()
	repeat = repeat && mayRepeat(request)
	waits := newWaits(c.options.Backoff)
	c.budget.onCall(time.Now())
	tries, paid := 1, false // paid: this try took a token of the budget
	for {
		response, err := method(ctx, request)
		if err == nil {
			if paid {
				c.budget.giveBack()
			}
			return response, tries, nil
		}
		failure := c.options.errorOf(ctx, err)
		standby := c.options.refusedByStandby(failure)
		if paid && (standby || isAnswer(failure.Code)) {
			c.budget.giveBack()
		}
		limit := c.options.AttemptsMax
		if !standby && (failure.Code != codes.Unavailable || !repeat || (limit > 0 && tries >= limit)) {
			return nil, tries, failure
		}
		wait := leaderPause
		if !standby {
			wait = waits.next(failure.RetryDelay)
		}
		for paid = false; ; wait = tokenPause {
			if left := time.Until(deadline); wait >= left {
				if wait = left / 2; wait < lastWaitMin || wait < failure.RetryDelay {
					return nil, tries, failure
				}
			}
			if !sleep(ctx, wait) {
				return nil, tries, errorOf(ctx, ctx.Err())
			}
			if standby {
				break
			}
			if paid = c.budget.take(time.Now()); paid {
				tries++
				break
			}
		}
	}
}

// isAnswer returns true for an error with which a server that works has answered.
func isAnswer(code codes.Code) bool {
	return code != codes.Unavailable && code != codes.DeadlineExceeded && code != codes.Canceled
}

// sleep returns false if ctx is done before.
func sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// simple is call for callers that do not need the number of tries.
func simple[Request proto.Message, Response any](ctx context.Context, c caller,
	method func(context.Context, Request, ...grpc.CallOption) (*Response, error), request Request) (*Response, error) {
	response, _, err := call(ctx, c, true, 0, method, request)
	return response, err
}

// repeated is a method of a stub with the repeats of simple.
func repeated[Request proto.Message, Response any](c caller,
	method func(context.Context, Request, ...grpc.CallOption) (*Response, error),
) func(context.Context, Request, ...grpc.CallOption) (*Response, error) {
	return func(ctx context.Context, request Request, _ ...grpc.CallOption) (*Response, error) {
		return simple(ctx, c, method, request)
	}
}

// newID returns a random name of 128 bits, fit for a request id.
func newID() string {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		// Without randomness two messages could get one id, and the second would be lost.
		panic("duetime: no random numbers: " + err.Error())
	}
	return hex.EncodeToString(id[:])
}
