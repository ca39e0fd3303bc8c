// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"context"
	"io"
	"runtime"
	"sort"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/runtime/protoiface"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/duetime/duetime/client/go/duetimepb"
)

const (
	// The most calls and bytes of a frame.
	frameCallsMax = 1000
	frameBytesMax = 1 << 20
	// A larger request is a call of its own, so that it delays no other call.
	gatheredBytesMax = 64 << 10
	// After a server refused the stream, calls are calls of their own for so long.
	separatePause = 10 * time.Second
)

// gatherer makes the calls of all goroutines on one stream. The calls that wait while a frame is written travel in the next
// one. It has the methods of the stub whose calls it takes, and their errors. The zero value of `stub` is not valid.
type gatherer struct {
	pb.MessagesClient
	traceContext func(context.Context) (traceparent, tracestate string)

	mutex   sync.Mutex
	waiting []*gatheredCall
	stream  *gatheredStream // nil: the next call opens one
	// No stream is tried before.
	separateUntil time.Time
}

// gatheredCall is one call until its answer.
type gatheredCall struct {
	ctx  context.Context
	call *pb.StreamedCall
	size int
	// Gets the answer, or why there is none. Has room for it.
	answered chan gatheredAnswer
	// The caller waits no more. Guarded by the gatherer's mutex.
	gone bool
}

type gatheredAnswer struct {
	answer *pb.StreamedAnswer
	err    error
}

// gatheredStream is one stream. The gatherer's mutex guards it.
type gatheredStream struct {
	// Has a value when calls wait.
	wake   chan struct{}
	ctx    context.Context
	cancel context.CancelFunc
	// The calls that were sent, by number.
	open map[int64]*gatheredCall
	sent int64
	// The server has answered something.
	served bool
}

// errSeparate makes the call a call of its own. It never reaches a caller.
var errSeparate = status.Error(codes.Unimplemented, "the server takes no stream of calls")

// Schedule is the method of the stub.
func (g *gatherer) Schedule(ctx context.Context, request *pb.ScheduleRequest, options ...grpc.CallOption) (*pb.ScheduleResponse, error) {
	answer, err := g.do(ctx, request, &pb.StreamedCall{Request: &pb.StreamedCall_Schedule{Schedule: request}})
	if err == errSeparate {
		return g.MessagesClient.Schedule(ctx, request, options...)
	}
	return answer.GetSchedule(), err
}

// Cancel is the method of the stub.
func (g *gatherer) Cancel(ctx context.Context, request *pb.CancelRequest, options ...grpc.CallOption) (*pb.CancelResponse, error) {
	answer, err := g.do(ctx, request, &pb.StreamedCall{Request: &pb.StreamedCall_Cancel{Cancel: request}})
	if err == errSeparate {
		return g.MessagesClient.Cancel(ctx, request, options...)
	}
	return answer.GetCancel(), err
}

// Reschedule is the method of the stub.
func (g *gatherer) Reschedule(ctx context.Context, request *pb.RescheduleRequest, options ...grpc.CallOption) (*pb.RescheduleResponse, error) {
	answer, err := g.do(ctx, request, &pb.StreamedCall{Request: &pb.StreamedCall_Reschedule{Reschedule: request}})
	if err == errSeparate {
		return g.MessagesClient.Reschedule(ctx, request, options...)
	}
	return answer.GetReschedule(), err
}

// Get is the method of the stub.
func (g *gatherer) Get(ctx context.Context, request *pb.GetRequest, options ...grpc.CallOption) (*pb.GetResponse, error) {
	answer, err := g.do(ctx, request, &pb.StreamedCall{Request: &pb.StreamedCall_Get{Get: request}})
	if err == errSeparate {
		return g.MessagesClient.Get(ctx, request, options...)
	}
	return answer.GetGet(), err
}

// do makes a call on the stream.
func (g *gatherer) do(ctx context.Context, request proto.Message, call *pb.StreamedCall) (*pb.StreamedAnswer, error) {
	waiting := &gatheredCall{ctx: ctx, call: call, size: proto.Size(request), answered: make(chan gatheredAnswer, 1)}
	if waiting.size > gatheredBytesMax || !g.setTrace(waiting) || !g.add(waiting) {
		return nil, errSeparate
	}
	select {
	case answered := <-waiting.answered:
		if answered.err != nil {
			return nil, answered.err
		}
		switch failure := answered.answer.GetError(); {
		case failure != nil:
			return nil, statusOf(failure).Err()
		case answered.answer.GetAnswer() == nil:
			return nil, status.Error(codes.Internal, "the server answered a call with an answer that this client does not know")
		}
		return answered.answer, nil
	case <-ctx.Done():
		g.mutex.Lock()
		waiting.gone = true
		g.mutex.Unlock()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// setTrace gives the call its trace context. It returns false if the call has other metadata, which a stream cannot carry.
func (g *gatherer) setTrace(waiting *gatheredCall) bool {
	headers, _ := metadata.FromOutgoingContext(waiting.ctx)
	for name, values := range headers {
		switch {
		case name == "traceparent" && len(values) == 1:
			waiting.call.Traceparent = values[0]
		case name == "tracestate" && len(values) == 1:
			waiting.call.Tracestate = values[0]
		default:
			return false
		}
	}
	if g.traceContext != nil && waiting.call.Traceparent == "" {
		waiting.call.Traceparent, waiting.call.Tracestate = g.traceContext(waiting.ctx)
	}
	return true
}

// add lets the call wait for the next frame. It returns false while the server takes no streams.
func (g *gatherer) add(waiting *gatheredCall) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.stream == nil && time.Now().Before(g.separateUntil) {
		return false
	}
	g.waiting = append(g.waiting, waiting)
	g.wakeSender()
	return true
}

// wakeSender makes the stream send, and opens one if there is none. Needs the mutex.
func (g *gatherer) wakeSender() {
	if g.stream == nil {
		stream := &gatheredStream{wake: make(chan struct{}, 1), open: map[int64]*gatheredCall{}}
		stream.ctx, stream.cancel = context.WithCancel(context.Background())
		g.stream = stream
		go g.run(stream)
	}
	select {
	case g.stream.wake <- struct{}{}:
	default:
	}
}

// run opens the stream and sends frames until it is over.
func (g *gatherer) run(stream *gatheredStream) {
	defer stream.cancel()
	calls, err := g.MessagesClient.CallStream(stream.ctx)
	if err != nil {
		g.onNotOpened(stream, err)
		return
	}
	go g.receive(stream, calls)
	for {
		select {
		case <-stream.wake:
		case <-stream.ctx.Done():
			return
		}
		// Lets the goroutines run that a frame of answers has just woken, so that their next calls share a frame.
		runtime.Gosched()
		for frame := g.nextFrame(stream); frame != nil; frame = g.nextFrame(stream) {
			if calls.Send(frame) != nil {
				return // receive gets the error
			}
		}
	}
}

// nextFrame takes waiting calls. nil: there are none.
func (g *gatherer) nextFrame(stream *gatheredStream) *pb.CallStreamRequest {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.stream != stream {
		return nil
	}
	frame := &pb.CallStreamRequest{}
	bytes, taken := 0, 0
	for _, waiting := range g.waiting {
		if len(frame.Calls) == frameCallsMax || bytes > frameBytesMax {
			break
		}
		taken++
		if waiting.gone {
			continue
		}
		stream.sent++
		waiting.call.Number = stream.sent
		if deadline, ok := waiting.ctx.Deadline(); ok && time.Now().Before(deadline) {
			waiting.call.Timeout = durationpb.New(time.Until(deadline))
		}
		stream.open[stream.sent] = waiting
		frame.Calls = append(frame.Calls, waiting.call)
		bytes += waiting.size
	}
	g.waiting = g.waiting[taken:]
	if len(g.waiting) == 0 {
		g.waiting = nil
	}
	if len(frame.Calls) == 0 {
		return nil
	}
	return frame
}

// receive passes answers on until the stream is over.
func (g *gatherer) receive(stream *gatheredStream, calls pb.Messages_CallStreamClient) {
	defer stream.cancel()
	var callsTaken *int64
	for {
		response, err := calls.Recv()
		if err != nil {
			g.onEnd(stream, err, callsTaken)
			return
		}
		callsTaken = response.CallsTaken
		g.mutex.Lock()
		stream.served = stream.served || len(response.Answers) > 0
		for _, answer := range response.Answers {
			if waiting := stream.open[answer.Number]; waiting != nil {
				delete(stream.open, answer.Number)
				waiting.answered <- gatheredAnswer{answer: answer}
			}
		}
		g.mutex.Unlock()
	}
}

// onNotOpened ends all waiting calls as they would end without a stream.
func (g *gatherer) onNotOpened(stream *gatheredStream, err error) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.stream = nil
	for _, waiting := range g.waiting {
		waiting.answered <- gatheredAnswer{err: err}
	}
	g.waiting = nil
}

// onEnd ends the calls that were sent, or sends them again if the server has not taken them.
func (g *gatherer) onEnd(stream *gatheredStream, err error, callsTaken *int64) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.stream = nil
	refusal, reason := status.Code(err), errorOf(context.Background(), err).Reason
	// The server knows no such stream, has too many, or allows only smaller frames.
	refused := refusal == codes.InvalidArgument && callsTaken != nil ||
		!stream.served && (refusal == codes.Unimplemented || refusal == codes.ResourceExhausted)
	if refused {
		g.separateUntil = time.Now().Add(separatePause)
		for _, waiting := range g.waiting {
			waiting.answered <- gatheredAnswer{err: errSeparate}
		}
		g.waiting = nil
	}
	noneTaken := !stream.served && (refusal == codes.Unimplemented || reason == "STREAM_LIMIT")
	switch {
	case err == io.EOF:
		err = status.Error(codes.Unavailable, "the server ended the stream of calls before it answered")
	case stream.served && reason == "NOT_LEADER", refusal == codes.ResourceExhausted:
		// Of a call, these say that it changed nothing. The stream may have begun the call.
		err = status.Error(codes.Unavailable, status.Convert(err).Message())
	}
	var again []*gatheredCall
	for number, waiting := range stream.open {
		notTaken := noneTaken || callsTaken != nil && number > *callsTaken
		switch {
		case notTaken && refused:
			waiting.answered <- gatheredAnswer{err: errSeparate}
		case notTaken && stream.served:
			again = append(again, waiting)
		default:
			// A stream that answered nothing would be followed by others like it.
			waiting.answered <- gatheredAnswer{err: err}
		}
	}
	sort.Slice(again, func(a, b int) bool { return again[a].call.Number < again[b].call.Number })
	g.waiting = append(again, g.waiting...)
	if len(g.waiting) > 0 {
		g.wakeSender()
	}
}

// statusOf returns the status that a call of its own would have had.
func statusOf(failure *pb.Failure) *status.Status {
	code := codes.Code(failure.Code)
	if code == codes.OK || code > codes.Unauthenticated {
		code = codes.Unknown
	}
	details := []protoiface.MessageV1{
		&errdetails.ErrorInfo{Reason: failure.Reason, Domain: "duetime", Metadata: failure.Metadata}}
	if failure.Field != "" {
		details = append(details, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: failure.Field, Description: failure.Message}}})
	}
	if failure.RetryDelay != nil {
		details = append(details, &errdetails.RetryInfo{RetryDelay: failure.RetryDelay})
	}
	plain := status.New(code, failure.Message)
	if detailed, err := plain.WithDetails(details...); err == nil {
		return detailed
	}
	return plain
}
