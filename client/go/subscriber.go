// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/duetime/duetime/client/go/duetimepb"
)

// Delivery is one delivered message, as the server sent it. subscribe.proto documents its fields.
type Delivery = pb.Delivery

// Handler handles one delivery and says how to settle it. Up to SubscriberOptions.Handlers goroutines call it at once.
//
// ctx is done when the lease is known to have ended (the stream ended, or the server refused to extend the lease or to
// note the handler's begin), and when Stop gives up waiting. The settlement then has no effect, and the message comes again. A handler that panics
// nacks its message with the text of the panic. A handler must not call Stop.
type Handler func(ctx context.Context, delivery *Delivery) Settlement

// SubscriberOptions are the options of a Subscriber. Only Topic is required.
type SubscriberOptions struct {
	// Topic to read.
	Topic string
	// Subscription to read; empty means "default". The first use creates it, unless the server is configured otherwise.
	// Subscribers of one subscription share its messages.
	Subscription string
	// ClientID names this subscriber in the server's logs.
	ClientID string
	// MaxOutstandingMessages and MaxOutstandingBytes are the credit: the most messages and bytes that are delivered and
	// not settled. 0: the server's default (1,000 messages, 64 MiB).
	MaxOutstandingMessages int32
	MaxOutstandingBytes    int64
	// Lease is the lease of a delivery. 0: that of the subscription (by default 30 s). When this program dies, other
	// subscribers get its messages after this time. Handlers may take longer, see ExtendMax.
	Lease time.Duration
	// ExtendMax is for how long after the begin of its handler the subscriber extends the lease of a delivery, each time
	// that a third of the lease has passed. Afterwards the lease ends, and the message goes to another subscriber. A
	// delivery that waits for a handler for this long is given back, which is no failed attempt. 0: 1 h. Negative: the
	// subscriber extends no lease, and gives a waiting delivery back when two thirds of its lease have passed.
	ExtendMax time.Duration
	// Handlers is how many calls of the handler may run at once. 0: 1. One handler gets deliveries in the order of the
	// stream.
	Handlers int
	// BatchMax is the most deliveries in one call of a BatchHandler. 0: 100. The credit bounds a batch as well.
	BatchMax int
	// Backoff sets the waits before the subscriber connects again.
	Backoff Backoff
	// SilenceMax: a stream ends if the server is silent for this long; the server sends a heartbeat every 15 s by
	// default. This detects servers that vanish without closing the connection. 0: 1 minute.
	SilenceMax time.Duration
	// OnDisconnect, if set, gets the error of a stream that ended and will be opened again; nil if the server ended it
	// without an error. It must be brief. If it panics, the panic is logged, and the subscriber goes on.
	OnDisconnect func(err error)
	// OnPanic, if set, gets the value and the stack of a handler that panicked. nil: they are logged (Options.Logger).
	OnPanic func(value any, stack []byte)
}

// Counts since the start of a subscriber. Each delivery ends in one of Acked, Nacked, DeadLettered, Released, Left,
// Refused, Lost or Skipped.
type Counts struct {
	// Deliveries that the handler got, and has returned from.
	Delivered int64
	// Settlements that the server confirmed.
	Acked, Nacked, DeadLettered, Released int64
	// The handler returned Leave.
	Left int64
	// Settlements that the server refused: too late, or invalid.
	Refused int64
	// Settlements without confirmation when the stream ended. The message may come again.
	Lost int64
	// Deliveries that the handler did not get, because the stream or the lease ended, they waited too long for a handler
	// (ExtendMax), or Stop was called. The messages come again, and this is no failed attempt.
	Skipped int64
	// Streams that the server opened.
	Streams int64
	// Requests with settlements. Under load fewer than settlements.
	SettleRequests int64
	// Leases that the server extended.
	Extended int64
	// Leases that had ended before the server could extend them or note the begin of the handler, so that another
	// subscriber may have the message while a handler works on it; and leases that had ended before the handler got the
	// delivery (Skipped).
	LeasesLost int64
}

// Subscriber keeps one stream to the server open, over its own connection, until Stop, until its context is done, or
// until the server refuses the stream for good.
//
// Settlements that wait are sent as one request. The subscriber also reports which handlers have begun, so that a message
// that ends this program is the only one that counts as failed. When a stream ends, deliveries without a handler are
// dropped, because the server delivers them again, and a new stream opens after a backoff. After a drain notice the subscriber first
// handles and settles its deliveries. The credit bounds the memory. A message can come more than once. A Subscriber is
// safe for concurrent use.
type Subscriber struct {
	options  SubscriberOptions
	client   Options
	run      runner
	batchMax int
	messages pb.MessagesClient
	state    *subscriberState
	log      connectionLog
	ctx      context.Context
	cancel   context.CancelFunc
	// Closed when the connection's goroutine has ended. err is set before that.
	done chan struct{}
	err  error

	// Makes Stop safe for several callers.
	stopMutex sync.Mutex
	stopped   bool
	stopErr   error
}

// Subscribe starts a subscriber. A server that cannot be reached is no error: the subscriber tries until it connects.
// If ctx is done, the subscriber ends at once, without waiting for handlers and confirmations; use Stop to end it
// gracefully. ctx is the parent of the contexts of handlers.
func (c *Client) Subscribe(ctx context.Context, options SubscriberOptions, handler Handler) (*Subscriber, error) {
	return c.subscribe(ctx, options, 1, handler.run)
}

func (c *Client) subscribe(ctx context.Context, options SubscriberOptions, batchMax int, run runner) (*Subscriber, error) {
	if options.ExtendMax == 0 {
		options.ExtendMax = time.Hour
	}
	if options.Handlers <= 0 {
		options.Handlers = 1
	}
	if options.SilenceMax <= 0 {
		options.SilenceMax = time.Minute
	}
	options.Backoff = options.Backoff.withDefaults()
	conn, err := c.options.dial()
	if err != nil {
		return nil, err
	}
	s := &Subscriber{
		options:  options,
		client:   c.options,
		run:      run,
		batchMax: batchMax,
		messages: pb.NewMessagesClient(conn),
		state:    newSubscriberState(options.ExtendMax),
		done:     make(chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(ctx)
	for i := 0; i < options.Handlers; i++ {
		go s.handle()
	}
	go s.keepConnected(conn)
	return s, nil
}

// Done is closed when the subscriber has ended: by Stop, by its context, or by a permanent error.
func (s *Subscriber) Done() <-chan struct{} { return s.done }

// Err returns nil while the subscriber runs and after Stop. Otherwise it returns the error that ended the subscriber,
// for example InvalidArgument, or the error of its context.
func (s *Subscriber) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Counts returns the counts since the start.
func (s *Subscriber) Counts() Counts { return s.state.getCounts() }

// Stop ends the subscriber gracefully, for as long as ctx lasts. It starts no further handler, and gives back the
// deliveries without one; waits for running handlers; waits for the server to confirm the settlements; then closes the
// stream. It returns nil if every handler returned and every settlement was confirmed, else DeadlineExceeded: those
// messages come again. It then ends the contexts of handlers that still run; their settlements are not sent. A repeat
// returns the same.
func (s *Subscriber) Stop(ctx context.Context) error {
	s.stopMutex.Lock()
	defer s.stopMutex.Unlock()
	if s.stopped {
		return s.stopErr
	}
	s.stopped = true
	s.state.requestStop()
	handled := s.state.waitHandled(ctx)
	confirmed := s.state.waitConfirmed(ctx)
	s.cancel()
	<-s.done
	if !handled {
		s.stopErr = newError(codes.DeadlineExceeded, "stopped while handlers were running; their messages come again")
	} else if !confirmed {
		s.stopErr = newError(codes.DeadlineExceeded,
			"stopped before the server had confirmed every settlement; those messages may come again")
	}
	return s.stopErr
}

// keepConnected keeps a stream open.
func (s *Subscriber) keepConnected(conn *grpc.ClientConn) {
	defer close(s.done)
	defer conn.Close()
	defer s.cancel()
	waits := newWaits(s.options.Backoff)
	for {
		opened := time.Now()
		err := s.runStream()
		if !s.state.running() {
			return
		}
		if s.ctx.Err() != nil {
			s.err = s.ctx.Err()
			break
		}
		var retryDelay time.Duration
		refusedByStandby := false
		if err != nil {
			failure := s.client.errorOf(s.ctx, err)
			if !mayPass(failure.Code) {
				s.client.logf("the server %s refuses the subscriber of %q, which has ended: %v", s.client.Server, s.options.Topic, failure)
				s.err = failure
				break
			}
			err, retryDelay = failure, failure.RetryDelay
			refusedByStandby = s.client.refusedByStandby(failure)
		}
		// A stream that lived longer than the longest wait starts the backoff anew.
		if time.Since(opened) > s.options.Backoff.Max {
			waits.reset()
		}
		s.logFailure(err)
		s.callOnDisconnect(err)
		wait := leaderPause
		if !refusedByStandby {
			wait = waits.next(retryDelay)
		}
		if !s.state.pause(s.ctx, wait) {
			if s.state.running() {
				s.err = s.ctx.Err()
			}
			break
		}
	}
	// Ends the handlers' goroutines.
	s.state.requestStop()
}

// mayPass returns true if a new stream may succeed. An error about the request itself is permanent. Other errors may
// pass: a restart, a full table, a broken connection (for which gRPC has several codes).
func mayPass(code codes.Code) bool {
	switch code {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented:
		return false
	}
	return true
}

// runStream runs one stream from its opening to its end. It returns how the stream ended; nil if with OK.
func (s *Subscriber) runStream() error {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	s.state.beginStream(ctx)
	overdue := time.AfterFunc(overdueAfter, func() {
		if s.log.onOverdue(time.Now()) {
			s.client.logf("the subscriber of %q has waited for the server %s for %v, and waits on", s.options.Topic, s.client.Server,
				overdueAfter)
		}
	})
	defer overdue.Stop()
	watched := make(chan bool, 1)
	go func() {
		silent := s.state.watchStream(ctx, s.options.SilenceMax)
		if silent {
			cancel()
		}
		watched <- silent
	}()
	written := make(chan struct{})
	stream, err := s.messages.Subscribe(ctx)
	if err != nil {
		close(written)
	} else {
		go func() {
			defer close(written)
			s.write(stream)
		}()
		err = s.read(stream)
	}
	s.state.onReadEnd()
	silent := <-watched
	// Ends a write that waits for the server to read.
	cancel()
	s.state.endStream()
	<-written
	switch {
	case silent:
		return newError(codes.Unavailable, fmt.Sprintf("no sign of life from the server for %v", s.options.SilenceMax))
	case err == io.EOF:
		return nil
	}
	return err
}

func (s *Subscriber) read(stream pb.Messages_SubscribeClient) error {
	for {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		if response.Started != nil {
			if logs, again := s.log.onOpened(time.Now()); logs {
				text := "the subscriber of %q is connected to the server %s"
				if again {
					text += " again"
				}
				s.client.logf(text, s.options.Topic, s.client.Server)
			}
		}
		s.state.onFrame(response)
	}
}

// write sends until the stream is over. It ignores errors, because the reader gets the stream's error.
func (s *Subscriber) write(stream pb.Messages_SubscribeClient) {
	start := &pb.SubscribeStart{
		Topic:                  s.options.Topic,
		Subscription:           s.options.Subscription,
		ClientId:               s.options.ClientID,
		MaxOutstandingMessages: s.options.MaxOutstandingMessages,
		MaxOutstandingBytes:    s.options.MaxOutstandingBytes,
		ReportsBegun:           true,
	}
	if s.options.Lease != 0 {
		start.LeaseDuration = durationpb.New(s.options.Lease)
	}
	for request := (&pb.SubscribeRequest{Start: start}); stream.Send(request) == nil; {
		// Lets handlers that are ready run first, so that their settlements share a request.
		runtime.Gosched()
		var halfClose bool
		request, halfClose = s.state.nextWrite()
		if halfClose {
			_ = stream.CloseSend()
		}
		if request == nil {
			return
		}
	}
}

// handle runs handlers, one at a time.
func (s *Subscriber) handle() {
	over := false
	defer func() {
		// A handler has ended the goroutine by runtime.Goexit, as the functions of package testing do.
		if !over {
			go s.handle()
		}
	}()
	call := &handlerCall{max: s.batchMax}
	for s.state.takeWork(call) {
		s.call(call)
	}
	over = true
}

// call runs one handler, and settles its deliveries. A panic nacks them.
func (s *Subscriber) call(call *handlerCall) {
	var each []Settlement
	var all Settlement
	returned := false
	defer func() {
		if !returned {
			value := recover()
			if value == nil {
				value = "the handler panicked with nil, or called runtime.Goexit"
			}
			each, all = nil, Nack(fmt.Sprint(value))
			s.onPanic(value, debug.Stack())
		}
		s.state.settle(call, each, all)
	}()
	each, all = s.run(call)
	returned = true
	if len(each) > 0 && len(each) != len(call.leases) {
		wrong := fmt.Sprintf("%d settlements for %d deliveries", len(each), len(call.leases))
		s.client.logf("a handler of the topic %q returned %s, which are nacked", s.options.Topic, wrong)
		each, all = nil, Nack("the handler returned "+wrong)
	}
}

func (s *Subscriber) onPanic(value any, stack []byte) {
	if s.options.OnPanic == nil {
		s.client.logf("a handler of the topic %q panicked: %v\n%s", s.options.Topic, value, stack)
		return
	}
	defer s.client.logPanic("OnPanic")
	s.options.OnPanic(value, stack)
}

func (s *Subscriber) callOnDisconnect(err error) {
	if s.options.OnDisconnect == nil {
		return
	}
	defer s.client.logPanic("OnDisconnect")
	s.options.OnDisconnect(err)
}

// logFailure logs that a stream has ended, or was not opened, unless the log says so already.
func (s *Subscriber) logFailure(err error) {
	logs, wasOpen := s.log.onFailed(time.Now())
	if !logs {
		return
	}
	happened := "cannot reach"
	if wasOpen {
		happened = "lost"
	}
	if err == nil {
		err = errors.New("the server ended the stream")
	}
	s.client.logf("the subscriber of %q %s the server %s, and tries again: %v", s.options.Topic, happened, s.client.Server, err)
}
