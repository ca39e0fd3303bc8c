// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/duetime/duetime/client/go/duetimepb"
)

// Client is a client of one server or one cell, over one connection to each. Pulls that wait have another one, so that no
// other call waits behind them. It is safe for concurrent use.
//
// A call returns with its answer, or when its context or Options.Timeout ends it.
type Client struct {
	// AdminClient has the calls of the service Admin, for topics, subscriptions, forecasts and bulk operations, as the protos
	// define them. They are repeated and fail as all calls of a Client. A StartBulk without a name gets a random one, so that
	// the server recognises a repeat.
	pb.AdminClient

	caller
	conn     *grpc.ClientConn
	messages pb.MessagesClient

	// Guards the next two.
	pullMutex sync.Mutex
	// The connection of Pulls that wait. nil until the first one.
	pullConn *grpc.ClientConn
	closed   bool
}

// New makes a client. It does not connect; the first call does. A broken connection is restored within seconds.
func New(options Options) (*Client, error) {
	options = options.withDefaults()
	conn, err := options.dial()
	if err != nil {
		return nil, err
	}
	client := &Client{
		caller:   caller{options, newRetryBudget(time.Now())},
		conn:     conn,
		messages: pb.NewMessagesClient(conn),
	}
	// Interceptors expect to see each call.
	if !options.SeparateCalls && len(options.DialOptions) == 0 {
		client.messages = &gatherer{MessagesClient: client.messages, traceContext: options.TraceContext}
	}
	client.AdminClient = pb.NewAdminClient(adminConn{client})
	return client, nil
}

// Close ends the calls of the client and closes its connections. Subscribers and streams have their own connections.
func (c *Client) Close() error {
	c.pullMutex.Lock()
	defer c.pullMutex.Unlock()
	c.closed = true
	if c.pullConn != nil {
		_ = c.pullConn.Close()
	}
	return c.conn.Close()
}

// forPull returns the stub for a Pull that waits.
func (c *Client) forPull() (pb.MessagesClient, error) {
	c.pullMutex.Lock()
	defer c.pullMutex.Unlock()
	if c.closed {
		return c.messages, nil // its calls fail, because it is closed
	}
	if c.pullConn == nil {
		conn, err := c.options.dial()
		if err != nil {
			return nil, err
		}
		c.pullConn = conn
	}
	return pb.NewMessagesClient(c.pullConn), nil
}

// Repeat says what Schedule does if an answer is lost.
type Repeat int

const (
	// RepeatSafely is the default. A message without a request id gets a random one, and the call is made again on
	// Unavailable. The server recognises the repeat, so there is one message. This costs the server a small record per
	// message for an hour.
	RepeatSafely Repeat = iota
	// RepeatNever sends the request as it is, once.
	RepeatNever
	// RepeatAllowDuplicates sends the request as it is, and again on Unavailable. Without key and request id there may
	// be two messages.
	RepeatAllowDuplicates
)

// ScheduleOption changes how Schedule and ScheduleBatch make their call.
type ScheduleOption func(*scheduleOptions)

type scheduleOptions struct{ repeat Repeat }

// WithRepeat sets what happens if an answer is lost.
func WithRepeat(repeat Repeat) ScheduleOption {
	return func(options *scheduleOptions) { options.repeat = repeat }
}

// repeatOf returns the chosen value, and whether the call may be repeated.
func repeatOf(options []ScheduleOption) (Repeat, bool) {
	var chosen scheduleOptions
	for _, option := range options {
		option(&chosen)
	}
	return chosen.repeat, chosen.repeat != RepeatNever
}

// nameRequest gives the request an id, if it needs one. A request with validate_only changes nothing, so it needs none.
func nameRequest(request *pb.ScheduleRequest) {
	if request.RequestId == "" && !request.ValidateOnly {
		request.RequestId = newID()
	}
}

// Schedule schedules one message. When it returns without an error, the message is on the server's disk. The answer
// holds the message, without payload and attributes, and the outcome. If MessageEnded is true, the call was a repeat,
// and nothing is pending: the message has ended, as its state says.
func (c *Client) Schedule(ctx context.Context, message Message, options ...ScheduleOption) (*pb.ScheduleResponse, error) {
	return c.schedule(ctx, message.Proto(), options)
}

// ScheduleRequest is Schedule with a request of the protos, which it does not change.
func (c *Client) ScheduleRequest(ctx context.Context, request *pb.ScheduleRequest,
	options ...ScheduleOption) (*pb.ScheduleResponse, error) {
	return c.schedule(ctx, proto.Clone(request).(*pb.ScheduleRequest), options)
}

func (c *Client) schedule(ctx context.Context, request *pb.ScheduleRequest,
	options []ScheduleOption) (*pb.ScheduleResponse, error) {
	repeat, rule := repeatOf(options)
	if repeat == RepeatSafely {
		nameRequest(request)
	}
	response, _, err := call(ctx, c.caller, rule, 0, c.messages.Schedule, request)
	return response, err
}

// ScheduleResult is the result of one message of a batch: Response, or Err if the server refused the message.
type ScheduleResult struct {
	Response *pb.ScheduleResponse
	Err      error
}

// ScheduleBatch schedules many messages with one call. It returns one result per message, in order: the server may
// refuse some and accept others. After an error of the call itself, the outcome of all messages is unknown.
func (c *Client) ScheduleBatch(ctx context.Context, messages []Message, options ...ScheduleOption) ([]ScheduleResult, error) {
	repeat, rule := repeatOf(options)
	request := &pb.ScheduleBatchRequest{Messages: make([]*pb.ScheduleRequest, len(messages))}
	for i, message := range messages {
		request.Messages[i] = message.Proto()
		if repeat == RepeatSafely {
			nameRequest(request.Messages[i])
		}
	}
	response, _, err := call(ctx, c.caller, rule, 0, c.messages.ScheduleBatch, request)
	if err != nil {
		return nil, err
	}
	if len(response.Results) != len(messages) {
		return nil, errWrongResultCount()
	}
	results := make([]ScheduleResult, len(messages))
	for i, result := range response.Results {
		results[i] = scheduleResult(result)
	}
	return results, nil
}

func errWrongResultCount() error {
	return newError(codes.Internal, "the server answered a batch with another number of results")
}

// scheduleResult returns the result that a Schedule of this item alone would return.
func scheduleResult(result *pb.ScheduleResult) ScheduleResult {
	if result.GetMessage() == nil {
		return ScheduleResult{Err: errorOfItem(result.GetError())}
	}
	return ScheduleResult{Response: &pb.ScheduleResponse{
		Message:             result.GetMessage(),
		Outcome:             result.Outcome,
		OldDeliverTime:      result.OldDeliverTime,
		PreviousMessageId:   result.PreviousMessageId,
		MinuteLimitExceeded: result.MinuteLimitExceeded,
		RequestRepeated:     result.RequestRepeated,
		MessageEnded:        result.MessageEnded,
	}}
}

// CancelOption changes a cancel.
type CancelOption func(*pb.CancelRequest)

// StopRedelivery also ends a message that was delivered and is not settled.
func StopRedelivery() CancelOption {
	return func(request *pb.CancelRequest) { request.StopRedelivery = true }
}

// CancelResult is the result of a cancel.
type CancelResult struct {
	// CancelResponse is the answer. The proto explains each outcome. nil in an item of a batch that was refused.
	*pb.CancelResponse
	// TriedBefore is true if an earlier try of this call ended without an answer. OUTCOME_ALREADY_CANCELLED may then be
	// the effect of that try; so may OUTCOME_NOT_FOUND, in a topic that does not keep ended messages.
	TriedBefore bool
	// Err is the error of an item of a batch. Always nil in the result of Cancel.
	Err error
}

func cancelRequest(target Target, options []CancelOption) *pb.CancelRequest {
	request := &pb.CancelRequest{Target: &pb.CancelRequest_MessageId{MessageId: target.id}}
	if target.key != nil {
		request.Target = &pb.CancelRequest_Key{Key: target.key}
	}
	for _, option := range options {
		option(request)
	}
	return request
}

// Cancel cancels a message. Every outcome is a result without an error; OUTCOME_NOT_FOUND is an outcome.
func (c *Client) Cancel(ctx context.Context, target Target, options ...CancelOption) (*CancelResult, error) {
	response, tries, err := call(ctx, c.caller, true, 0, c.messages.Cancel, cancelRequest(target, options))
	if err != nil {
		return nil, err
	}
	return &CancelResult{CancelResponse: response, TriedBefore: tries > 1}, nil
}

// CancelBatch cancels several messages. It returns one result per target, in order.
func (c *Client) CancelBatch(ctx context.Context, targets []Target, options ...CancelOption) ([]CancelResult, error) {
	request := &pb.CancelBatchRequest{}
	for _, target := range targets {
		request.Cancels = append(request.Cancels, cancelRequest(target, options))
	}
	response, tries, err := call(ctx, c.caller, true, 0, c.messages.CancelBatch, request)
	if err != nil {
		return nil, err
	}
	if len(response.Results) != len(targets) {
		return nil, errWrongResultCount()
	}
	results := make([]CancelResult, len(targets))
	for i, result := range response.Results {
		if cancel := result.GetCancel(); cancel != nil {
			results[i] = CancelResult{CancelResponse: cancel, TriedBefore: tries > 1}
		} else {
			results[i].Err = errorOfItem(result.GetError())
		}
	}
	return results, nil
}

// RescheduleOption changes a reschedule.
type RescheduleOption func(*pb.RescheduleRequest)

// IfEtag moves the message only if this is still its etag (Message.Etag); otherwise the call returns Aborted. Such a
// call is not repeated, because the change of the first try would look like another client's.
func IfEtag(etag string) RescheduleOption {
	return func(request *pb.RescheduleRequest) { request.Etag = etag }
}

// Reschedule moves a pending message to an earlier or later time. As with Cancel, every outcome is a result.
func (c *Client) Reschedule(ctx context.Context, target Target, when When,
	options ...RescheduleOption) (*pb.RescheduleResponse, error) {
	request := &pb.RescheduleRequest{Target: &pb.RescheduleRequest_MessageId{MessageId: target.id}}
	if target.key != nil {
		request.Target = &pb.RescheduleRequest_Key{Key: target.key}
	}
	if when != nil {
		when.setReschedule(request)
	}
	for _, option := range options {
		option(request)
	}
	return simple(ctx, c.caller, c.messages.Reschedule, request)
}

// GetOption changes a get.
type GetOption func(*pb.GetRequest)

// WithContent also returns the payload and the attributes of a pending message.
func WithContent() GetOption {
	return func(request *pb.GetRequest) { request.View = pb.MessageView_MESSAGE_VIEW_FULL }
}

// Get returns a pending message and its state in each subscription, or the record of an ended message. NotFound if
// there is neither.
func (c *Client) Get(ctx context.Context, target Target, options ...GetOption) (*pb.GetResponse, error) {
	request := &pb.GetRequest{Target: &pb.GetRequest_MessageId{MessageId: target.id}}
	if target.key != nil {
		request.Target = &pb.GetRequest_Key{Key: target.key}
	}
	for _, option := range options {
		option(request)
	}
	return simple(ctx, c.caller, c.messages.Get, request)
}

// Explain returns the history of a message and the causes of its lateness. NotFound as with Get.
func (c *Client) Explain(ctx context.Context, target Target) (*pb.ExplainResponse, error) {
	request := &pb.ExplainRequest{Target: &pb.ExplainRequest_MessageId{MessageId: target.id}}
	if target.key != nil {
		request.Target = &pb.ExplainRequest_Key{Key: target.key}
	}
	return simple(ctx, c.caller, c.messages.Explain, request)
}

// List reads the pending messages of a topic, without payloads.
func (c *Client) List(request *pb.ListRequest) *Iterator[*pb.Message] {
	return listOf(request, repeated(c.caller, c.messages.List), (*pb.ListResponse).GetMessages)
}

// Pull returns due messages, each with a lease for Settle. The request's wait extends the timeout. The call is not
// repeated: messages that the first try leased stay leased until their leases end. If no message comes in time, the
// answer is empty.
func (c *Client) Pull(ctx context.Context, request *pb.PullRequest) (*pb.PullResponse, error) {
	wait := request.GetWait().AsDuration()
	messages := c.messages
	if wait > 0 {
		var err error
		if messages, err = c.forPull(); err != nil {
			return nil, err
		}
	} else {
		wait = 0
	}
	response, _, err := call(ctx, c.caller, true, wait, messages.Pull, request)
	return response, err
}

// SettleResult is the result of settlements.
type SettleResult struct {
	*pb.SettleResponse
	// TriedBefore is true if an earlier try of this call ended without an answer. REASON_LEASE_LOST may then be the
	// effect of that try.
	TriedBefore bool
}

// Settle settles leases of Pull or of streams, of any topics, in the order of the request. A settlement without an action
// is an ack. The answer says which settlements took effect.
func (c *Client) Settle(ctx context.Context, request *pb.SettleRequest) (*SettleResult, error) {
	response, tries, err := call(ctx, c.caller, true, 0, c.messages.Settle, request)
	if err != nil {
		return nil, err
	}
	return &SettleResult{SettleResponse: response, TriedBefore: tries > 1}, nil
}
