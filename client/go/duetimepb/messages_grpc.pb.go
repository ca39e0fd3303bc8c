// SPDX-License-Identifier: Apache-2.0
//
// The Messages service: services schedule messages, find, move and cancel them, and receive due messages.
//
// Compatibility. Within v1, fields, values and calls are only added. A `reserved` number is kept for the feature named
// beside it, so that a client built today keeps its meaning.
//
// Times. The server works in whole milliseconds of UTC. It rounds a finer time or delay UP, so no message is ever
// delivered before the requested moment. The server's own clock decides when messages are due. If it is set back, the
// corrected clock decides from then on (CLOCK_STATE_SET_BACK in admin.proto).
//
// Names. Comments name a value of an enum without the prefix of its enum: DUE is STATE_DUE.
//
// Errors. Every error is a canonical gRPC code with one google.rpc.ErrorInfo {reason, domain "duetime", metadata} in
// its details (the trailer grpc-status-details-bin). An invalid field adds google.rpc.BadRequest. A temporary refusal
// adds google.rpc.RetryInfo. An error inside an answer is a Failure (failure.proto), which holds the same. A request
// that fails with any code but UNAVAILABLE, DEADLINE_EXCEEDED or CANCELLED has changed nothing, with one exception:
// before OVERLOADED, a call that creates topics by use may have created them. After these three codes the outcome is
// unknown: the change may have been made. A Schedule with a request_id, or with ONCE, can then be repeated safely.
//
// Errors that every call can return, beside its own:
//   INVALID_ARGUMENT   MALFORMED_REQUEST   the bytes are not the protobuf message of this call, a string is not UTF-8,
//                                          or there are more than 1 KiB of fields that this version does not know
//   RESOURCE_EXHAUSTED OVERLOADED          the server's mailbox is full, or mailbox_commands_max calls of Settle, or as
//                                          many that start or stop bulk operations, are open, or the payloads and pages
//                                          of all open answers reach open_answers_bytes_max; RetryInfo says when to retry
//   UNAUTHENTICATED    CREDENTIALS_REQUIRED   the client showed no token, client certificate or Unix socket, and may not
//                                          do this without
//   UNAUTHENTICATED    INVALID_CREDENTIALS    the token is unknown, revoked or expired, the JWT is not accepted, or the
//                                          client certificate has expired since the connection began. A stream ends
//                                          with this within a second after its token or certificate has expired
//   PERMISSION_DENIED  ACCESS_DENIED       no rule of access_file allows this (metadata: principal, verb, topic). A client
//                                          may ask for a topic that does not exist; the answer is the same. What a
//                                          request names by id, or by the name of a recurrence or an operation, is
//                                          NOT_FOUND if the client has no right to its topic, and lists leave it out
//   RESOURCE_EXHAUSTED QUOTA_EXCEEDED      the client or the topic has used up its quota (metadata: quota, limit, of);
//                                          RetryInfo says when to retry. A client that is refused more than 200
//                                          times per second gets the further answers at this rate, each at most 5 s late
//   RESOURCE_EXHAUSTED TOO_MANY_REFUSED_CREDENTIALS   too many refused credentials came from the client's address
//   UNAVAILABLE        STARTING, DRAINING  the server does not serve yet, or no longer; RetryInfo says when to retry
//   UNAVAILABLE        NOT_LEADER          another member of the cell serves (metadata: leader, its address, empty if no
//                                          member leads); try it there, or again after RetryInfo. Nothing was changed; of
//                                          a stream that ends with it, frames without an answer may have been accepted
//   UNAVAILABLE        CELL_UNAVAILABLE    a gateway got no answer from a cell (metadata: cell, its name); as after other
//                                          UNAVAILABLE, the outcome is unknown. Errors of a gateway name the cell they
//                                          come from
//   UNAVAILABLE        STORAGE_FAILED      a write to the journal failed, and the outcome is unknown; the server accepts
//                                          nothing until a restart. In a cell, another member serves soon
//   DATA_LOSS          CHECKSUM_MISMATCH   bytes on disk that the answer needs are damaged; nothing was
//                                          changed. Metadata: file, offset, family, first_key, last_key, if a block of
//                                          a table is damaged. Other messages are not concerned
//   RESOURCE_EXHAUSTED                     WITHOUT an ErrorInfo: the request has over 1 MiB more bytes than the largest
//                                          batch, so gRPC itself refused it. A stream ends. A repeat does not help.
//
// Errors that every call with a message_id or key can return:
//   INVALID_ARGUMENT   TARGET_MISSING      neither message_id nor key is set
//   INVALID_ARGUMENT   INVALID_MESSAGE_ID  the server never gives such an id
//   INVALID_ARGUMENT   INVALID_TOPIC, INVALID_KEY   no message can have this topic or key

// Code generated by protoc-gen-go-grpc. DO NOT EDIT.
// versions:
// - protoc-gen-go-grpc v1.3.0
// - protoc             v3.21.12
// source: duetime/v1/messages.proto

package duetimepb

import (
	context "context"
	grpc "google.golang.org/grpc"
	codes "google.golang.org/grpc/codes"
	status "google.golang.org/grpc/status"
)

// This is a compile-time assertion to ensure that this generated file
// is compatible with the grpc package it is being compiled against.
// Requires gRPC-Go v1.32.0 or later.
const _ = grpc.SupportPackageIsVersion7

const (
	Messages_Schedule_FullMethodName          = "/duetime.v1.Messages/Schedule"
	Messages_ScheduleBatch_FullMethodName     = "/duetime.v1.Messages/ScheduleBatch"
	Messages_ScheduleStream_FullMethodName    = "/duetime.v1.Messages/ScheduleStream"
	Messages_CallStream_FullMethodName        = "/duetime.v1.Messages/CallStream"
	Messages_Cancel_FullMethodName            = "/duetime.v1.Messages/Cancel"
	Messages_CancelBatch_FullMethodName       = "/duetime.v1.Messages/CancelBatch"
	Messages_Reschedule_FullMethodName        = "/duetime.v1.Messages/Reschedule"
	Messages_Get_FullMethodName               = "/duetime.v1.Messages/Get"
	Messages_List_FullMethodName              = "/duetime.v1.Messages/List"
	Messages_Explain_FullMethodName           = "/duetime.v1.Messages/Explain"
	Messages_CreateRecurrence_FullMethodName  = "/duetime.v1.Messages/CreateRecurrence"
	Messages_GetRecurrence_FullMethodName     = "/duetime.v1.Messages/GetRecurrence"
	Messages_ListRecurrences_FullMethodName   = "/duetime.v1.Messages/ListRecurrences"
	Messages_UpdateRecurrence_FullMethodName  = "/duetime.v1.Messages/UpdateRecurrence"
	Messages_PauseRecurrence_FullMethodName   = "/duetime.v1.Messages/PauseRecurrence"
	Messages_ResumeRecurrence_FullMethodName  = "/duetime.v1.Messages/ResumeRecurrence"
	Messages_DeleteRecurrence_FullMethodName  = "/duetime.v1.Messages/DeleteRecurrence"
	Messages_PreviewRecurrence_FullMethodName = "/duetime.v1.Messages/PreviewRecurrence"
	Messages_Subscribe_FullMethodName         = "/duetime.v1.Messages/Subscribe"
	Messages_Pull_FullMethodName              = "/duetime.v1.Messages/Pull"
	Messages_Settle_FullMethodName            = "/duetime.v1.Messages/Settle"
)

// MessagesClient is the client API for Messages service.
//
// For semantics around ctx use and closing/ending streaming RPCs, please refer to https://pkg.go.dev/google.golang.org/grpc/?tab=doc#ClientConn.NewStream.
type MessagesClient interface {
	// Schedules one message. When the call returns OK, the message is on disk (written and synced). The server will
	// deliver it at least once to each of the topic's subscriptions, at or after its deliver_time and through any crash,
	// until it is acknowledged, cancelled, or ended by its late_policy or by a subscription's settings
	// (subscription.proto).
	//
	// A deliver_time in the past, or a delay of zero, is allowed: the message is due at once, and `state` in the answer
	// is DUE. If the topic does not exist, the server creates it, unless topics_auto_create is off. on_conflict says what
	// happens if the topic already has a pending message with the same key. Without a request_id the call is not
	// idempotent: a repeat after an unknown outcome may create a second message. With a key it does so only if the first
	// one has ended, and with ONCE not even then.
	//
	//	INVALID_ARGUMENT   INVALID_TOPIC, INVALID_ATTRIBUTES, PAYLOAD_TOO_LARGE, DELIVER_TIME_MISSING,
	//	                   DELIVER_TIME_OUT_OF_RANGE (malformed, negative, or beyond the horizon, default 10 years),
	//	                   INVALID_CIVIL_TIME, INVALID_TIME_ZONE, INVALID_KEY, INVALID_ON_CONFLICT, INVALID_REQUEST_ID,
	//	                   INVALID_TTL, INVALID_LATE_POLICY, INVALID_SPREAD, INVALID_LABELS, INVALID_ORDERING_KEY
	//	ALREADY_EXISTS     CONTENT_MISMATCH    the key has a pending message with other content, or with ONCE an ended
	//	                                       one (metadata: topic, key, message_id, state)
	//	ALREADY_EXISTS     REQUEST_ID_REUSED   the request_id was used for other content in its scope (metadata: topic;
	//	                                       key or ordering_key, if it is a part of the scope; request_id, message_id)
	//	NOT_FOUND          MESSAGE_NOT_FOUND   only_if_exists is set and there is no message to replace (metadata: topic,
	//	                                       key)
	//	NOT_FOUND          TOPIC_NOT_FOUND     the topic does not exist, and topics_auto_create is off
	//	FAILED_PRECONDITION NO_DEAD_LETTER_TOPIC   late_policy is DEAD_LETTER, the topic's settings name no dead-letter
	//	                                       topic, and the topic's name is too long to derive one
	//	RESOURCE_EXHAUSTED TOPIC_LIMIT         there are too many topics
	//	RESOURCE_EXHAUSTED TOPIC_FULL          the topic has max_pending messages
	//	RESOURCE_EXHAUSTED MINUTE_FULL         the minute of the deliver_time has as many messages as the topic allows;
	//	                                       RetryInfo: its messages may be cancelled or moved
	//	RESOURCE_EXHAUSTED DISK_LOW            the disk is nearly full; acks and cancels still work
	Schedule(ctx context.Context, in *ScheduleRequest, opts ...grpc.CallOption) (*ScheduleResponse, error)
	// Schedules many messages with one call and one sync of the journal. Results are in request order, a message or an
	// error each. NOT atomic: the server may refuse some items and accept others. Each accepted item is durable when the
	// call returns. The call returns when its slowest item is decided.
	//
	// An item has the errors of Schedule, also those of access control, of a full mailbox (OVERLOADED), and of a cell behind
	// a gateway. A quota takes items in request order until it refuses one (QUOTA_EXCEEDED); then it refuses the later ones,
	// too. After an item's UNAVAILABLE, the outcome of that item is unknown. If a client is refused too often, its answers
	// with refused items come up to 5 s later.
	//
	//	INVALID_ARGUMENT   BATCH_TOO_LARGE     more items or bytes than the limits (default 10,000 and 16 MiB); no item was
	//	                                       accepted. One item has only the limits of Schedule. An empty batch is OK
	//	                                       and returns no results.
	//	PERMISSION_DENIED  ACCESS_DENIED       the client may schedule to no topic at all
	//	RESOURCE_EXHAUSTED DISK_LOW            as Schedule; no item was accepted
	ScheduleBatch(ctx context.Context, in *ScheduleBatchRequest, opts ...grpc.CallOption) (*ScheduleBatchResponse, error)
	// Schedules any number of messages on one stream. The client sends frames of messages. The server answers each frame
	// once, in the order of the frames, when all its messages are durable or refused. The client need not wait for an
	// answer before it sends the next frame. The server stops reading while 16 frames, or the bytes of one batch, wait
	// for their answer; gRPC's flow control then slows the client. After its last frame the client half-closes, and the
	// stream ends with OK when every frame is answered.
	//
	// A frame is answered as a ScheduleBatch is: a refused message has an error in its result, and the stream goes on. A
	// message that waits, for instance for others with its key, holds up the answer of its frame and of the later frames.
	// Smaller frames, or a stream of its own for slow messages, keep the others from waiting. If the stream ends with an
	// error, each message of an unanswered frame may or may not have been accepted: repeat these frames. With request ids or
	// ONCE a repeat is safe.
	//
	//	INVALID_ARGUMENT   BATCH_TOO_LARGE, MALFORMED_REQUEST   of a frame; the stream ends when the earlier frames are
	//	                                       answered
	//	PERMISSION_DENIED  ACCESS_DENIED       the client may schedule to no topic at all
	//	RESOURCE_EXHAUSTED STREAM_LIMIT        there are too many streams
	//	UNAVAILABLE        DRAINING, STORAGE_FAILED   the server ended the stream; connect again
	ScheduleStream(ctx context.Context, opts ...grpc.CallOption) (Messages_ScheduleStreamClient, error)
	// Makes any number of calls of Schedule, Cancel, Reschedule and Get on one stream. Each call has the rights, errors,
	// quotas, metrics and lines in the audit log that it has by itself. It costs both sides less, because the calls that are
	// ready together travel in one frame. Libraries make these calls on it. For a program that schedules in
	// bulk, ScheduleBatch and ScheduleStream cost less.
	//
	// The server answers each call as soon as it is decided, so no call waits for another. It begins the calls of a
	// stream in the order in which they were sent; two calls whose order matters must still wait for each other, as calls
	// of their own must. The stream reads nothing while call_stream_calls_max calls, or the bytes of one batch, are open,
	// and for up to 5 s after a call whose client is refused too often; gRPC's flow control then slows the client. After
	// its last frame the client half-closes, and the stream ends with OK when every call is answered. If the client
	// cancels or the connection breaks, the outcome of the open calls is unknown.
	//
	//	INVALID_ARGUMENT   BATCH_TOO_LARGE, MALFORMED_REQUEST   of a frame, also if a call has no request or the number of a call
	//	                                       that is open; the stream ends when the earlier calls are answered
	//	RESOURCE_EXHAUSTED STREAM_LIMIT        there are too many streams
	//	UNAUTHENTICATED    INVALID_CREDENTIALS    the token or certificate has expired; connect again with another one
	//	DEADLINE_EXCEEDED                      of a gateway: no frame within 10 s of the opening
	//	UNAVAILABLE        DRAINING, NOT_LEADER, STORAGE_FAILED   the server ended the stream; connect again
	CallStream(ctx context.Context, opts ...grpc.CallOption) (Messages_CallStreamClient, error)
	// Cancels a message. CancelResponse.Outcome is the result, and is durable when the call returns. CANCELLED means that
	// the message was never delivered to any subscriber and never will be, across crashes of the server too. A repeat
	// gets ALREADY_CANCELLED for the topic's tombstone_retention.
	Cancel(ctx context.Context, in *CancelRequest, opts ...grpc.CallOption) (*CancelResponse, error)
	// Cancels many messages with one call. Results are in request order, an answer or an error each. NOT atomic. The
	// limits are those of ScheduleBatch.
	//
	//	INVALID_ARGUMENT   BATCH_TOO_LARGE     no message was cancelled. An empty batch is OK and returns no results.
	//	PERMISSION_DENIED  ACCESS_DENIED       the client may cancel in no topic at all. An item whose key names a topic that
	//	                                       the client has no right to has this error in its result
	CancelBatch(ctx context.Context, in *CancelBatchRequest, opts ...grpc.CallOption) (*CancelBatchResponse, error)
	// Moves a pending message to an earlier or later time. Its id, key and content stay. Durable when the call returns.
	// As with Cancel, the outcome says if the message can no longer be moved.
	//
	//	INVALID_ARGUMENT   DELIVER_TIME_MISSING, DELIVER_TIME_OUT_OF_RANGE, INVALID_CIVIL_TIME, INVALID_TIME_ZONE,
	//	                   INVALID_ETAG
	//	ABORTED            ETAG_MISMATCH       the message has changed or is another one (metadata: message_id, etag: the
	//	                                       current one)
	Reschedule(ctx context.Context, in *RescheduleRequest, opts ...grpc.CallOption) (*RescheduleResponse, error)
	// Reads a pending message, or the tombstone of an ended message.
	//
	//	INVALID_ARGUMENT   INVALID_VIEW
	//	NOT_FOUND          MESSAGE_NOT_FOUND   it never existed, or it ended longer than tombstone_retention ago
	Get(ctx context.Context, in *GetRequest, opts ...grpc.CallOption) (*GetResponse, error)
	// Lists a topic's pending messages in pages, without payloads. Does not delay writers.
	//
	// A message that is pending, matches, and is neither moved nor replaced from the first page to the last appears
	// exactly once. A message that is accepted, ends or moves meanwhile may or may not appear, and a moved one may appear
	// twice. `state` is the state when the server read the page.
	//
	//	INVALID_ARGUMENT   INVALID_TOPIC, INVALID_FILTER, INVALID_LABELS, INVALID_KEY (of key_prefix), INVALID_PAGE_SIZE,
	//	                   INVALID_PAGE_TOKEN (not from this server's List, or the filter has changed)
	//	NOT_FOUND          TOPIC_NOT_FOUND
	List(ctx context.Context, in *ListRequest, opts ...grpc.CallOption) (*ListResponse, error)
	// Returns the history of one message: the causes of its lateness, and how its last attempts ended.
	//
	//	NOT_FOUND          MESSAGE_NOT_FOUND
	Explain(ctx context.Context, in *ExplainRequest, opts ...grpc.CallOption) (*ExplainResponse, error)
	// Creates a recurrence and schedules its first occurrence. Durable when the call returns. A repeat with the same
	// content returns the existing recurrence.
	//
	//	INVALID_ARGUMENT   INVALID_CRON, INVALID_TIME_ZONE, INVALID_RECURRENCE (interval, start_time, end_time, max_count or
	//	                   jitter is invalid, or there is no occurrence at all), and as Schedule for the template
	//	ALREADY_EXISTS     CONTENT_MISMATCH    a recurrence of this name has other content
	//	RESOURCE_EXHAUSTED RECURRENCE_LIMIT    there are too many recurrences
	CreateRecurrence(ctx context.Context, in *CreateRecurrenceRequest, opts ...grpc.CallOption) (*CreateRecurrenceResponse, error)
	// Reads a recurrence.
	GetRecurrence(ctx context.Context, in *GetRecurrenceRequest, opts ...grpc.CallOption) (*GetRecurrenceResponse, error)
	// Lists recurrences in the order of their names. Pages as in List.
	//
	//	INVALID_ARGUMENT   INVALID_PAGE_SIZE, INVALID_PAGE_TOKEN
	ListRecurrences(ctx context.Context, in *ListRecurrencesRequest, opts ...grpc.CallOption) (*ListRecurrencesResponse, error)
	// Changes the fields that the mask names. If the pending occurrence was never delivered, it is moved or replaced to
	// match. Otherwise the next occurrence is the first with the new content.
	//
	//	INVALID_ARGUMENT   INVALID_UPDATE_MASK, and as CreateRecurrence
	//	ABORTED            ETAG_MISMATCH
	UpdateRecurrence(ctx context.Context, in *UpdateRecurrenceRequest, opts ...grpc.CallOption) (*UpdateRecurrenceResponse, error)
	// Pauses a recurrence: it makes no more occurrences. Cancels its pending occurrence, if that was never delivered.
	// Pausing a paused recurrence changes nothing.
	PauseRecurrence(ctx context.Context, in *PauseRecurrenceRequest, opts ...grpc.CallOption) (*PauseRecurrenceResponse, error)
	// Resumes a paused recurrence. `misfire` says what happens to occurrences missed during the pause. Resuming an active
	// recurrence changes nothing.
	ResumeRecurrence(ctx context.Context, in *ResumeRecurrenceRequest, opts ...grpc.CallOption) (*ResumeRecurrenceResponse, error)
	// Deletes a recurrence. Cancels its pending occurrence, if that was never delivered. A repeat is NOT_FOUND.
	DeleteRecurrence(ctx context.Context, in *DeleteRecurrenceRequest, opts ...grpc.CallOption) (*DeleteRecurrenceResponse, error)
	// Returns the times and numbers of a schedule's occurrences, as CreateRecurrence would make them. The schedule need
	// not exist. Changes nothing.
	//
	//	INVALID_ARGUMENT   INVALID_CRON, INVALID_TIME_ZONE, INVALID_RECURRENCE, INVALID_PAGE_SIZE
	PreviewRecurrence(ctx context.Context, in *PreviewRecurrenceRequest, opts ...grpc.CallOption) (*PreviewRecurrenceResponse, error)
	// Receives a subscription's due messages, and settles them, on one stream. The first request must hold `start`; all
	// later ones hold settlements. The server sends deliveries, confirmations, a heartbeat when there is nothing else,
	// and a drain notice before it ends the stream to shut down.
	//
	// Credit controls the flow: at most max_outstanding_messages messages, and max_outstanding_bytes bytes, are delivered
	// and not settled. A settlement, or the end of a lease, returns credit.
	//
	// Each delivery is a lease. While the lease lasts, the subscription delivers the message to no other subscriber. If
	// the lease ends unsettled, the subscription delivers the message again (attempt + 1) when the retry policy says, to
	// any of its subscribers. When the stream ends for any reason, its leases end at once. Which of these ends count as
	// failed attempts: RetryPolicy.max_attempts.
	//
	// End. A client that wants no more messages half-closes the stream and reads on until its end. The server decides every
	// settlement that the client sent before the half-close, and sends their confirmations. It ends the other leases of the
	// stream at once, and delivers nothing more; deliveries that it has sent before may still arrive, and their leases have
	// ended too. It then ends the stream with OK, after 5 s at the latest. A settlement without a confirmation may or may
	// not have taken effect. If the client cancels the call or closes the connection instead, that is so for all
	// settlements that it has sent since the last confirmation, and the server may never have read them.
	//
	// Order. Within a shard of the server, first deliveries of a subscription start in the order of (deliver_time,
	// acceptance). A message that was already due at its acceptance takes its place at that moment. Messages with the
	// same ordering_key are in one shard, and at most one of them is in flight in the subscription. The next message
	// waits until that one is settled, even while that one waits for its next attempt. After a step back of the server's
	// clock, a message that is not due any more takes its place by its deliver_time again, whether it was delivered before
	// or not.
	//
	//	INVALID_ARGUMENT   INVALID_TOPIC, INVALID_SUBSCRIPTION, INVALID_SUBSCRIBE (no `start` first, a second `start`, a
	//	                   limit out of range, more settlements in one request than a stream may have outstanding, or a token
	//	                   over 64 bytes)
	//	NOT_FOUND          TOPIC_NOT_FOUND, SUBSCRIPTION_NOT_FOUND   it does not exist, and topics_auto_create is off.
	//	                                       SUBSCRIPTION_NOT_FOUND also ends the stream when the subscription is deleted
	//	RESOURCE_EXHAUSTED STREAM_LIMIT (there are too many streams), TOPIC_LIMIT, SUBSCRIPTION_LIMIT
	//	UNAVAILABLE        DRAINING, STORAGE_FAILED   the server ended the stream; connect again
	//	UNAVAILABLE        STREAM_ENDED      an operator ended the stream (EndStream); connect again after a delay
	Subscribe(ctx context.Context, opts ...grpc.CallOption) (Messages_SubscribeClient, error)
	// Receives due messages with one call, for clients that cannot hold a stream. With `wait` it waits for messages. Works
	// like Subscribe with credit for one answer, but its leases outlive the call: settle them with Settle. A client that
	// cancels a waiting Pull leaves no leases. If the client cancels after the server has sent the answer, the leases stay
	// until they end by themselves.
	//
	//	INVALID_ARGUMENT   INVALID_TOPIC, INVALID_SUBSCRIPTION, INVALID_PULL (a limit out of range)
	//	NOT_FOUND          TOPIC_NOT_FOUND, SUBSCRIPTION_NOT_FOUND   as in Subscribe
	//	RESOURCE_EXHAUSTED STREAM_LIMIT (a waiting Pull counts as a stream), TOPIC_LIMIT, SUBSCRIPTION_LIMIT
	Pull(ctx context.Context, in *PullRequest, opts ...grpc.CallOption) (*PullResponse, error)
	// Settles leases with one call. NOT atomic: the server settles or refuses each lease by itself, and the answer lists
	// each. A confirmed settlement is as durable as on a stream. A repeat after an unknown outcome is safe: a settlement
	// that took effect is then refused with LEASE_LOST.
	//
	//	INVALID_ARGUMENT   INVALID_SETTLE      more settlements than a stream may have outstanding, or a token over
	//	                                       64 bytes; no lease was settled
	Settle(ctx context.Context, in *SettleRequest, opts ...grpc.CallOption) (*SettleResponse, error)
}

type messagesClient struct {
	cc grpc.ClientConnInterface
}

func NewMessagesClient(cc grpc.ClientConnInterface) MessagesClient {
	return &messagesClient{cc}
}

func (c *messagesClient) Schedule(ctx context.Context, in *ScheduleRequest, opts ...grpc.CallOption) (*ScheduleResponse, error) {
	out := new(ScheduleResponse)
	err := c.cc.Invoke(ctx, Messages_Schedule_FullMethodName, in, out, opts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *messagesClient) ScheduleBatch(ctx context.Context, in *ScheduleBatchRequest, opts ...grpc.CallOption) (*ScheduleBatchResponse, error) {
	out := new(ScheduleBatchResponse)
	err := c.cc.Invoke(ctx, Messages_ScheduleBatch_FullMethodName, in, out, opts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *messagesClient) ScheduleStream(ctx context.Context, opts ...grpc.CallOption) (Messages_ScheduleStreamClient, error) {
	stream, err := c.cc.NewStream(ctx, &Messages_ServiceDesc.Streams[0], Messages_ScheduleStream_FullMethodName, opts...)
	if err != nil {
		return nil, err
	}
	x := &messagesScheduleStreamClient{stream}
	return x, nil
}

type Messages_ScheduleStreamClient interface {
	Send(*ScheduleStreamRequest) error
	Recv() (*ScheduleStreamResponse, error)
	grpc.ClientStream
}

type messagesScheduleStreamClient struct {
	grpc.ClientStream
}

func (x *messagesScheduleStreamClient) Send(m *ScheduleStreamRequest) error {
	return x.ClientStream.SendMsg(m)
}

func (x *messagesScheduleStreamClient) Recv() (*ScheduleStreamResponse, error) {
	m := new(ScheduleStreamResponse)
	if err := x.ClientStream.RecvMsg(m); err != nil {
		return nil, err
	}
	return m, nil
}

func (c *messagesClient) CallStream(ctx context.Context, opts ...grpc.CallOption) (Messages_CallStreamClient, error) {
	stream, err := c.cc.NewStream(ctx, &Messages_ServiceDesc.Streams[1], Messages_CallStream_FullMethodName, opts...)
	if err != nil {
		return nil, err
	}
	x := &messagesCallStreamClient{stream}
	return x, nil
}

type Messages_CallStreamClient interface {
	Send(*CallStreamRequest) error
	Recv() (*CallStreamResponse, error)
	grpc.ClientStream
}

type messagesCallStreamClient struct {
	grpc.ClientStream
}

func (x *messagesCallStreamClient) Send(m *CallStreamRequest) error {
	return x.ClientStream.SendMsg(m)
}

func (x *messagesCallStreamClient) Recv() (*CallStreamResponse, error) {
	m := new(CallStreamResponse)
	if err := x.ClientStream.RecvMsg(m); err != nil {
		return nil, err
	}
	return m, nil
}

func (c *messagesClient) Cancel(ctx context.Context, in *CancelRequest, opts ...grpc.CallOption) (*CancelResponse, error) {
	out := new(CancelResponse)
	err := c.cc.Invoke(ctx, Messages_Cancel_FullMethodName, in, out, opts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *messagesClient) CancelBatch(ctx context.Context, in *CancelBatchRequest, opts ...grpc.CallOption) (*CancelBatchResponse, error) {
	out := new(CancelBatchResponse)
	err := c.cc.Invoke(ctx, Messages_CancelBatch_FullMethodName, in, out, opts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *messagesClient) Reschedule(ctx context.Context, in *RescheduleRequest, opts ...grpc.CallOption) (*RescheduleResponse, error) {
	out := new(RescheduleResponse)
	err := c.cc.Invoke(ctx, Messages_Reschedule_FullMethodName, in, out, opts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *messagesClient) Get(ctx context.Context, in *GetRequest, opts ...grpc.CallOption) (*GetResponse, error) {
	out := new(GetResponse)
	err := c.cc.Invoke(ctx, Messages_Get_FullMethodName, in, out, opts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *messagesClient) List(ctx context.Context, in *ListRequest, opts ...grpc.CallOption) (*ListResponse, error) {
	out := new(ListResponse)
	err := c.cc.Invoke(ctx, Messages_List_FullMethodName, in, out, opts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *messagesClient) Explain(ctx context.Context, in *ExplainRequest, opts ...grpc.CallOption) (*ExplainResponse, error) {
	out := new(ExplainResponse)
	err := c.cc.Invoke(ctx, Messages_Explain_FullMethodName, in, out, opts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *messagesClient) CreateRecurrence(ctx context.Context, in *CreateRecurrenceRequest, opts ...grpc.CallOption) (*CreateRecurrenceResponse, error) {
	out := new(CreateRecurrenceResponse)
	err := c.cc.Invoke(ctx, Messages_CreateRecurrence_FullMethodName, in, out, opts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *messagesClient) GetRecurrence(ctx context.Context, in *GetRecurrenceRequest, opts ...grpc.CallOption) (*GetRecurrenceResponse, error) {
	out := new(GetRecurrenceResponse)
	err := c.cc.Invoke(ctx, Messages_GetRecurrence_FullMethodName, in, out, opts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *messagesClient) ListRecurrences(ctx context.Context, in *ListRecurrencesRequest, opts ...grpc.CallOption) (*ListRecurrencesResponse, error) {
	out := new(ListRecurrencesResponse)
	err := c.cc.Invoke(ctx, Messages_ListRecurrences_FullMethodName, in, out, opts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *messagesClient) UpdateRecurrence(ctx context.Context, in *UpdateRecurrenceRequest, opts ...grpc.CallOption) (*UpdateRecurrenceResponse, error) {
	out := new(UpdateRecurrenceResponse)
	err := c.cc.Invoke(ctx, Messages_UpdateRecurrence_FullMethodName, in, out, opts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *messagesClient) PauseRecurrence(ctx context.Context, in *PauseRecurrenceRequest, opts ...grpc.CallOption) (*PauseRecurrenceResponse, error) {
	out := new(PauseRecurrenceResponse)
	err := c.cc.Invoke(ctx, Messages_PauseRecurrence_FullMethodName, in, out, opts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *messagesClient) ResumeRecurrence(ctx context.Context, in *ResumeRecurrenceRequest, opts ...grpc.CallOption) (*ResumeRecurrenceResponse, error) {
	out := new(ResumeRecurrenceResponse)
	err := c.cc.Invoke(ctx, Messages_ResumeRecurrence_FullMethodName, in, out, opts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *messagesClient) DeleteRecurrence(ctx context.Context, in *DeleteRecurrenceRequest, opts ...grpc.CallOption) (*DeleteRecurrenceResponse, error) {
	out := new(DeleteRecurrenceResponse)
	err := c.cc.Invoke(ctx, Messages_DeleteRecurrence_FullMethodName, in, out, opts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *messagesClient) PreviewRecurrence(ctx context.Context, in *PreviewRecurrenceRequest, opts ...grpc.CallOption) (*PreviewRecurrenceResponse, error) {
	out := new(PreviewRecurrenceResponse)
	err := c.cc.Invoke(ctx, Messages_PreviewRecurrence_FullMethodName, in, out, opts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *messagesClient) Subscribe(ctx context.Context, opts ...grpc.CallOption) (Messages_SubscribeClient, error) {
	stream, err := c.cc.NewStream(ctx, &Messages_ServiceDesc.Streams[2], Messages_Subscribe_FullMethodName, opts...)
	if err != nil {
		return nil, err
	}
	x := &messagesSubscribeClient{stream}
	return x, nil
}

type Messages_SubscribeClient interface {
	Send(*SubscribeRequest) error
	Recv() (*SubscribeResponse, error)
	grpc.ClientStream
}

type messagesSubscribeClient struct {
	grpc.ClientStream
}

func (x *messagesSubscribeClient) Send(m *SubscribeRequest) error {
	return x.ClientStream.SendMsg(m)
}

func (x *messagesSubscribeClient) Recv() (*SubscribeResponse, error) {
	m := new(SubscribeResponse)
	if err := x.ClientStream.RecvMsg(m); err != nil {
		return nil, err
	}
	return m, nil
}

func (c *messagesClient) Pull(ctx context.Context, in *PullRequest, opts ...grpc.CallOption) (*PullResponse, error) {
	out := new(PullResponse)
	err := c.cc.Invoke(ctx, Messages_Pull_FullMethodName, in, out, opts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *messagesClient) Settle(ctx context.Context, in *SettleRequest, opts ...grpc.CallOption) (*SettleResponse, error) {
	out := new(SettleResponse)
	err := c.cc.Invoke(ctx, Messages_Settle_FullMethodName, in, out, opts...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// MessagesServer is the server API for Messages service.
// All implementations must embed UnimplementedMessagesServer
// for forward compatibility
type MessagesServer interface {
	// Schedules one message. When the call returns OK, the message is on disk (written and synced). The server will
	// deliver it at least once to each of the topic's subscriptions, at or after its deliver_time and through any crash,
	// until it is acknowledged, cancelled, or ended by its late_policy or by a subscription's settings
	// (subscription.proto).
	//
	// A deliver_time in the past, or a delay of zero, is allowed: the message is due at once, and `state` in the answer
	// is DUE. If the topic does not exist, the server creates it, unless topics_auto_create is off. on_conflict says what
	// happens if the topic already has a pending message with the same key. Without a request_id the call is not
	// idempotent: a repeat after an unknown outcome may create a second message. With a key it does so only if the first
	// one has ended, and with ONCE not even then.
	//
	//	INVALID_ARGUMENT   INVALID_TOPIC, INVALID_ATTRIBUTES, PAYLOAD_TOO_LARGE, DELIVER_TIME_MISSING,
	//	                   DELIVER_TIME_OUT_OF_RANGE (malformed, negative, or beyond the horizon, default 10 years),
	//	                   INVALID_CIVIL_TIME, INVALID_TIME_ZONE, INVALID_KEY, INVALID_ON_CONFLICT, INVALID_REQUEST_ID,
	//	                   INVALID_TTL, INVALID_LATE_POLICY, INVALID_SPREAD, INVALID_LABELS, INVALID_ORDERING_KEY
	//	ALREADY_EXISTS     CONTENT_MISMATCH    the key has a pending message with other content, or with ONCE an ended
	//	                                       one (metadata: topic, key, message_id, state)
	//	ALREADY_EXISTS     REQUEST_ID_REUSED   the request_id was used for other content in its scope (metadata: topic;
	//	                                       key or ordering_key, if it is a part of the scope; request_id, message_id)
	//	NOT_FOUND          MESSAGE_NOT_FOUND   only_if_exists is set and there is no message to replace (metadata: topic,
	//	                                       key)
	//	NOT_FOUND          TOPIC_NOT_FOUND     the topic does not exist, and topics_auto_create is off
	//	FAILED_PRECONDITION NO_DEAD_LETTER_TOPIC   late_policy is DEAD_LETTER, the topic's settings name no dead-letter
	//	                                       topic, and the topic's name is too long to derive one
	//	RESOURCE_EXHAUSTED TOPIC_LIMIT         there are too many topics
	//	RESOURCE_EXHAUSTED TOPIC_FULL          the topic has max_pending messages
	//	RESOURCE_EXHAUSTED MINUTE_FULL         the minute of the deliver_time has as many messages as the topic allows;
	//	                                       RetryInfo: its messages may be cancelled or moved
	//	RESOURCE_EXHAUSTED DISK_LOW            the disk is nearly full; acks and cancels still work
	Schedule(context.Context, *ScheduleRequest) (*ScheduleResponse, error)
	// Schedules many messages with one call and one sync of the journal. Results are in request order, a message or an
	// error each. NOT atomic: the server may refuse some items and accept others. Each accepted item is durable when the
	// call returns. The call returns when its slowest item is decided.
	//
	// An item has the errors of Schedule, also those of access control, of a full mailbox (OVERLOADED), and of a cell behind
	// a gateway. A quota takes items in request order until it refuses one (QUOTA_EXCEEDED); then it refuses the later ones,
	// too. After an item's UNAVAILABLE, the outcome of that item is unknown. If a client is refused too often, its answers
	// with refused items come up to 5 s later.
	//
	//	INVALID_ARGUMENT   BATCH_TOO_LARGE     more items or bytes than the limits (default 10,000 and 16 MiB); no item was
	//	                                       accepted. One item has only the limits of Schedule. An empty batch is OK
	//	                                       and returns no results.
	//	PERMISSION_DENIED  ACCESS_DENIED       the client may schedule to no topic at all
	//	RESOURCE_EXHAUSTED DISK_LOW            as Schedule; no item was accepted
	ScheduleBatch(context.Context, *ScheduleBatchRequest) (*ScheduleBatchResponse, error)
	// Schedules any number of messages on one stream. The client sends frames of messages. The server answers each frame
	// once, in the order of the frames, when all its messages are durable or refused. The client need not wait for an
	// answer before it sends the next frame. The server stops reading while 16 frames, or the bytes of one batch, wait
	// for their answer; gRPC's flow control then slows the client. After its last frame the client half-closes, and the
	// stream ends with OK when every frame is answered.
	//
	// A frame is answered as a ScheduleBatch is: a refused message has an error in its result, and the stream goes on. A
	// message that waits, for instance for others with its key, holds up the answer of its frame and of the later frames.
	// Smaller frames, or a stream of its own for slow messages, keep the others from waiting. If the stream ends with an
	// error, each message of an unanswered frame may or may not have been accepted: repeat these frames. With request ids or
	// ONCE a repeat is safe.
	//
	//	INVALID_ARGUMENT   BATCH_TOO_LARGE, MALFORMED_REQUEST   of a frame; the stream ends when the earlier frames are
	//	                                       answered
	//	PERMISSION_DENIED  ACCESS_DENIED       the client may schedule to no topic at all
	//	RESOURCE_EXHAUSTED STREAM_LIMIT        there are too many streams
	//	UNAVAILABLE        DRAINING, STORAGE_FAILED   the server ended the stream; connect again
	ScheduleStream(Messages_ScheduleStreamServer) error
	// Makes any number of calls of Schedule, Cancel, Reschedule and Get on one stream. Each call has the rights, errors,
	// quotas, metrics and lines in the audit log that it has by itself. It costs both sides less, because the calls that are
	// ready together travel in one frame. Libraries make these calls on it. For a program that schedules in
	// bulk, ScheduleBatch and ScheduleStream cost less.
	//
	// The server answers each call as soon as it is decided, so no call waits for another. It begins the calls of a
	// stream in the order in which they were sent; two calls whose order matters must still wait for each other, as calls
	// of their own must. The stream reads nothing while call_stream_calls_max calls, or the bytes of one batch, are open,
	// and for up to 5 s after a call whose client is refused too often; gRPC's flow control then slows the client. After
	// its last frame the client half-closes, and the stream ends with OK when every call is answered. If the client
	// cancels or the connection breaks, the outcome of the open calls is unknown.
	//
	//	INVALID_ARGUMENT   BATCH_TOO_LARGE, MALFORMED_REQUEST   of a frame, also if a call has no request or the number of a call
	//	                                       that is open; the stream ends when the earlier calls are answered
	//	RESOURCE_EXHAUSTED STREAM_LIMIT        there are too many streams
	//	UNAUTHENTICATED    INVALID_CREDENTIALS    the token or certificate has expired; connect again with another one
	//	DEADLINE_EXCEEDED                      of a gateway: no frame within 10 s of the opening
	//	UNAVAILABLE        DRAINING, NOT_LEADER, STORAGE_FAILED   the server ended the stream; connect again
	CallStream(Messages_CallStreamServer) error
	// Cancels a message. CancelResponse.Outcome is the result, and is durable when the call returns. CANCELLED means that
	// the message was never delivered to any subscriber and never will be, across crashes of the server too. A repeat
	// gets ALREADY_CANCELLED for the topic's tombstone_retention.
	Cancel(context.Context, *CancelRequest) (*CancelResponse, error)
	// Cancels many messages with one call. Results are in request order, an answer or an error each. NOT atomic. The
	// limits are those of ScheduleBatch.
	//
	//	INVALID_ARGUMENT   BATCH_TOO_LARGE     no message was cancelled. An empty batch is OK and returns no results.
	//	PERMISSION_DENIED  ACCESS_DENIED       the client may cancel in no topic at all. An item whose key names a topic that
	//	                                       the client has no right to has this error in its result
	CancelBatch(context.Context, *CancelBatchRequest) (*CancelBatchResponse, error)
	// Moves a pending message to an earlier or later time. Its id, key and content stay. Durable when the call returns.
	// As with Cancel, the outcome says if the message can no longer be moved.
	//
	//	INVALID_ARGUMENT   DELIVER_TIME_MISSING, DELIVER_TIME_OUT_OF_RANGE, INVALID_CIVIL_TIME, INVALID_TIME_ZONE,
	//	                   INVALID_ETAG
	//	ABORTED            ETAG_MISMATCH       the message has changed or is another one (metadata: message_id, etag: the
	//	                                       current one)
	Reschedule(context.Context, *RescheduleRequest) (*RescheduleResponse, error)
	// Reads a pending message, or the tombstone of an ended message.
	//
	//	INVALID_ARGUMENT   INVALID_VIEW
	//	NOT_FOUND          MESSAGE_NOT_FOUND   it never existed, or it ended longer than tombstone_retention ago
	Get(context.Context, *GetRequest) (*GetResponse, error)
	// Lists a topic's pending messages in pages, without payloads. Does not delay writers.
	//
	// A message that is pending, matches, and is neither moved nor replaced from the first page to the last appears
	// exactly once. A message that is accepted, ends or moves meanwhile may or may not appear, and a moved one may appear
	// twice. `state` is the state when the server read the page.
	//
	//	INVALID_ARGUMENT   INVALID_TOPIC, INVALID_FILTER, INVALID_LABELS, INVALID_KEY (of key_prefix), INVALID_PAGE_SIZE,
	//	                   INVALID_PAGE_TOKEN (not from this server's List, or the filter has changed)
	//	NOT_FOUND          TOPIC_NOT_FOUND
	List(context.Context, *ListRequest) (*ListResponse, error)
	// Returns the history of one message: the causes of its lateness, and how its last attempts ended.
	//
	//	NOT_FOUND          MESSAGE_NOT_FOUND
	Explain(context.Context, *ExplainRequest) (*ExplainResponse, error)
	// Creates a recurrence and schedules its first occurrence. Durable when the call returns. A repeat with the same
	// content returns the existing recurrence.
	//
	//	INVALID_ARGUMENT   INVALID_CRON, INVALID_TIME_ZONE, INVALID_RECURRENCE (interval, start_time, end_time, max_count or
	//	                   jitter is invalid, or there is no occurrence at all), and as Schedule for the template
	//	ALREADY_EXISTS     CONTENT_MISMATCH    a recurrence of this name has other content
	//	RESOURCE_EXHAUSTED RECURRENCE_LIMIT    there are too many recurrences
	CreateRecurrence(context.Context, *CreateRecurrenceRequest) (*CreateRecurrenceResponse, error)
	// Reads a recurrence.
	GetRecurrence(context.Context, *GetRecurrenceRequest) (*GetRecurrenceResponse, error)
	// Lists recurrences in the order of their names. Pages as in List.
	//
	//	INVALID_ARGUMENT   INVALID_PAGE_SIZE, INVALID_PAGE_TOKEN
	ListRecurrences(context.Context, *ListRecurrencesRequest) (*ListRecurrencesResponse, error)
	// Changes the fields that the mask names. If the pending occurrence was never delivered, it is moved or replaced to
	// match. Otherwise the next occurrence is the first with the new content.
	//
	//	INVALID_ARGUMENT   INVALID_UPDATE_MASK, and as CreateRecurrence
	//	ABORTED            ETAG_MISMATCH
	UpdateRecurrence(context.Context, *UpdateRecurrenceRequest) (*UpdateRecurrenceResponse, error)
	// Pauses a recurrence: it makes no more occurrences. Cancels its pending occurrence, if that was never delivered.
	// Pausing a paused recurrence changes nothing.
	PauseRecurrence(context.Context, *PauseRecurrenceRequest) (*PauseRecurrenceResponse, error)
	// Resumes a paused recurrence. `misfire` says what happens to occurrences missed during the pause. Resuming an active
	// recurrence changes nothing.
	ResumeRecurrence(context.Context, *ResumeRecurrenceRequest) (*ResumeRecurrenceResponse, error)
	// Deletes a recurrence. Cancels its pending occurrence, if that was never delivered. A repeat is NOT_FOUND.
	DeleteRecurrence(context.Context, *DeleteRecurrenceRequest) (*DeleteRecurrenceResponse, error)
	// Returns the times and numbers of a schedule's occurrences, as CreateRecurrence would make them. The schedule need
	// not exist. Changes nothing.
	//
	//	INVALID_ARGUMENT   INVALID_CRON, INVALID_TIME_ZONE, INVALID_RECURRENCE, INVALID_PAGE_SIZE
	PreviewRecurrence(context.Context, *PreviewRecurrenceRequest) (*PreviewRecurrenceResponse, error)
	// Receives a subscription's due messages, and settles them, on one stream. The first request must hold `start`; all
	// later ones hold settlements. The server sends deliveries, confirmations, a heartbeat when there is nothing else,
	// and a drain notice before it ends the stream to shut down.
	//
	// Credit controls the flow: at most max_outstanding_messages messages, and max_outstanding_bytes bytes, are delivered
	// and not settled. A settlement, or the end of a lease, returns credit.
	//
	// Each delivery is a lease. While the lease lasts, the subscription delivers the message to no other subscriber. If
	// the lease ends unsettled, the subscription delivers the message again (attempt + 1) when the retry policy says, to
	// any of its subscribers. When the stream ends for any reason, its leases end at once. Which of these ends count as
	// failed attempts: RetryPolicy.max_attempts.
	//
	// End. A client that wants no more messages half-closes the stream and reads on until its end. The server decides every
	// settlement that the client sent before the half-close, and sends their confirmations. It ends the other leases of the
	// stream at once, and delivers nothing more; deliveries that it has sent before may still arrive, and their leases have
	// ended too. It then ends the stream with OK, after 5 s at the latest. A settlement without a confirmation may or may
	// not have taken effect. If the client cancels the call or closes the connection instead, that is so for all
	// settlements that it has sent since the last confirmation, and the server may never have read them.
	//
	// Order. Within a shard of the server, first deliveries of a subscription start in the order of (deliver_time,
	// acceptance). A message that was already due at its acceptance takes its place at that moment. Messages with the
	// same ordering_key are in one shard, and at most one of them is in flight in the subscription. The next message
	// waits until that one is settled, even while that one waits for its next attempt. After a step back of the server's
	// clock, a message that is not due any more takes its place by its deliver_time again, whether it was delivered before
	// or not.
	//
	//	INVALID_ARGUMENT   INVALID_TOPIC, INVALID_SUBSCRIPTION, INVALID_SUBSCRIBE (no `start` first, a second `start`, a
	//	                   limit out of range, more settlements in one request than a stream may have outstanding, or a token
	//	                   over 64 bytes)
	//	NOT_FOUND          TOPIC_NOT_FOUND, SUBSCRIPTION_NOT_FOUND   it does not exist, and topics_auto_create is off.
	//	                                       SUBSCRIPTION_NOT_FOUND also ends the stream when the subscription is deleted
	//	RESOURCE_EXHAUSTED STREAM_LIMIT (there are too many streams), TOPIC_LIMIT, SUBSCRIPTION_LIMIT
	//	UNAVAILABLE        DRAINING, STORAGE_FAILED   the server ended the stream; connect again
	//	UNAVAILABLE        STREAM_ENDED      an operator ended the stream (EndStream); connect again after a delay
	Subscribe(Messages_SubscribeServer) error
	// Receives due messages with one call, for clients that cannot hold a stream. With `wait` it waits for messages. Works
	// like Subscribe with credit for one answer, but its leases outlive the call: settle them with Settle. A client that
	// cancels a waiting Pull leaves no leases. If the client cancels after the server has sent the answer, the leases stay
	// until they end by themselves.
	//
	//	INVALID_ARGUMENT   INVALID_TOPIC, INVALID_SUBSCRIPTION, INVALID_PULL (a limit out of range)
	//	NOT_FOUND          TOPIC_NOT_FOUND, SUBSCRIPTION_NOT_FOUND   as in Subscribe
	//	RESOURCE_EXHAUSTED STREAM_LIMIT (a waiting Pull counts as a stream), TOPIC_LIMIT, SUBSCRIPTION_LIMIT
	Pull(context.Context, *PullRequest) (*PullResponse, error)
	// Settles leases with one call. NOT atomic: the server settles or refuses each lease by itself, and the answer lists
	// each. A confirmed settlement is as durable as on a stream. A repeat after an unknown outcome is safe: a settlement
	// that took effect is then refused with LEASE_LOST.
	//
	//	INVALID_ARGUMENT   INVALID_SETTLE      more settlements than a stream may have outstanding, or a token over
	//	                                       64 bytes; no lease was settled
	Settle(context.Context, *SettleRequest) (*SettleResponse, error)
	mustEmbedUnimplementedMessagesServer()
}

// UnimplementedMessagesServer must be embedded to have forward compatible implementations.
type UnimplementedMessagesServer struct {
}

func (UnimplementedMessagesServer) Schedule(context.Context, *ScheduleRequest) (*ScheduleResponse, error) {
	return nil, status.Errorf(codes.Unimplemented, "method Schedule not implemented")
}
func (UnimplementedMessagesServer) ScheduleBatch(context.Context, *ScheduleBatchRequest) (*ScheduleBatchResponse, error) {
	return nil, status.Errorf(codes.Unimplemented, "method ScheduleBatch not implemented")
}
func (UnimplementedMessagesServer) ScheduleStream(Messages_ScheduleStreamServer) error {
	return status.Errorf(codes.Unimplemented, "method ScheduleStream not implemented")
}
func (UnimplementedMessagesServer) CallStream(Messages_CallStreamServer) error {
	return status.Errorf(codes.Unimplemented, "method CallStream not implemented")
}
func (UnimplementedMessagesServer) Cancel(context.Context, *CancelRequest) (*CancelResponse, error) {
	return nil, status.Errorf(codes.Unimplemented, "method Cancel not implemented")
}
func (UnimplementedMessagesServer) CancelBatch(context.Context, *CancelBatchRequest) (*CancelBatchResponse, error) {
	return nil, status.Errorf(codes.Unimplemented, "method CancelBatch not implemented")
}
func (UnimplementedMessagesServer) Reschedule(context.Context, *RescheduleRequest) (*RescheduleResponse, error) {
	return nil, status.Errorf(codes.Unimplemented, "method Reschedule not implemented")
}
func (UnimplementedMessagesServer) Get(context.Context, *GetRequest) (*GetResponse, error) {
	return nil, status.Errorf(codes.Unimplemented, "method Get not implemented")
}
func (UnimplementedMessagesServer) List(context.Context, *ListRequest) (*ListResponse, error) {
	return nil, status.Errorf(codes.Unimplemented, "method List not implemented")
}
func (UnimplementedMessagesServer) Explain(context.Context, *ExplainRequest) (*ExplainResponse, error) {
	return nil, status.Errorf(codes.Unimplemented, "method Explain not implemented")
}
func (UnimplementedMessagesServer) CreateRecurrence(context.Context, *CreateRecurrenceRequest) (*CreateRecurrenceResponse, error) {
	return nil, status.Errorf(codes.Unimplemented, "method CreateRecurrence not implemented")
}
func (UnimplementedMessagesServer) GetRecurrence(context.Context, *GetRecurrenceRequest) (*GetRecurrenceResponse, error) {
	return nil, status.Errorf(codes.Unimplemented, "method GetRecurrence not implemented")
}
func (UnimplementedMessagesServer) ListRecurrences(context.Context, *ListRecurrencesRequest) (*ListRecurrencesResponse, error) {
	return nil, status.Errorf(codes.Unimplemented, "method ListRecurrences not implemented")
}
func (UnimplementedMessagesServer) UpdateRecurrence(context.Context, *UpdateRecurrenceRequest) (*UpdateRecurrenceResponse, error) {
	return nil, status.Errorf(codes.Unimplemented, "method UpdateRecurrence not implemented")
}
func (UnimplementedMessagesServer) PauseRecurrence(context.Context, *PauseRecurrenceRequest) (*PauseRecurrenceResponse, error) {
	return nil, status.Errorf(codes.Unimplemented, "method PauseRecurrence not implemented")
}
func (UnimplementedMessagesServer) ResumeRecurrence(context.Context, *ResumeRecurrenceRequest) (*ResumeRecurrenceResponse, error) {
	return nil, status.Errorf(codes.Unimplemented, "method ResumeRecurrence not implemented")
}
func (UnimplementedMessagesServer) DeleteRecurrence(context.Context, *DeleteRecurrenceRequest) (*DeleteRecurrenceResponse, error) {
	return nil, status.Errorf(codes.Unimplemented, "method DeleteRecurrence not implemented")
}
func (UnimplementedMessagesServer) PreviewRecurrence(context.Context, *PreviewRecurrenceRequest) (*PreviewRecurrenceResponse, error) {
	return nil, status.Errorf(codes.Unimplemented, "method PreviewRecurrence not implemented")
}
func (UnimplementedMessagesServer) Subscribe(Messages_SubscribeServer) error {
	return status.Errorf(codes.Unimplemented, "method Subscribe not implemented")
}
func (UnimplementedMessagesServer) Pull(context.Context, *PullRequest) (*PullResponse, error) {
	return nil, status.Errorf(codes.Unimplemented, "method Pull not implemented")
}
func (UnimplementedMessagesServer) Settle(context.Context, *SettleRequest) (*SettleResponse, error) {
	return nil, status.Errorf(codes.Unimplemented, "method Settle not implemented")
}
func (UnimplementedMessagesServer) mustEmbedUnimplementedMessagesServer() {}

// UnsafeMessagesServer may be embedded to opt out of forward compatibility for this service.
// Use of this interface is not recommended, as added methods to MessagesServer will
// result in compilation errors.
type UnsafeMessagesServer interface {
	mustEmbedUnimplementedMessagesServer()
}

func RegisterMessagesServer(s grpc.ServiceRegistrar, srv MessagesServer) {
	s.RegisterService(&Messages_ServiceDesc, srv)
}

func _Messages_Schedule_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(ScheduleRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(MessagesServer).Schedule(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: Messages_Schedule_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(MessagesServer).Schedule(ctx, req.(*ScheduleRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _Messages_ScheduleBatch_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(ScheduleBatchRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(MessagesServer).ScheduleBatch(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: Messages_ScheduleBatch_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(MessagesServer).ScheduleBatch(ctx, req.(*ScheduleBatchRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _Messages_ScheduleStream_Handler(srv interface{}, stream grpc.ServerStream) error {
	return srv.(MessagesServer).ScheduleStream(&messagesScheduleStreamServer{stream})
}

type Messages_ScheduleStreamServer interface {
	Send(*ScheduleStreamResponse) error
	Recv() (*ScheduleStreamRequest, error)
	grpc.ServerStream
}

type messagesScheduleStreamServer struct {
	grpc.ServerStream
}

func (x *messagesScheduleStreamServer) Send(m *ScheduleStreamResponse) error {
	return x.ServerStream.SendMsg(m)
}

func (x *messagesScheduleStreamServer) Recv() (*ScheduleStreamRequest, error) {
	m := new(ScheduleStreamRequest)
	if err := x.ServerStream.RecvMsg(m); err != nil {
		return nil, err
	}
	return m, nil
}

func _Messages_CallStream_Handler(srv interface{}, stream grpc.ServerStream) error {
	return srv.(MessagesServer).CallStream(&messagesCallStreamServer{stream})
}

type Messages_CallStreamServer interface {
	Send(*CallStreamResponse) error
	Recv() (*CallStreamRequest, error)
	grpc.ServerStream
}

type messagesCallStreamServer struct {
	grpc.ServerStream
}

func (x *messagesCallStreamServer) Send(m *CallStreamResponse) error {
	return x.ServerStream.SendMsg(m)
}

func (x *messagesCallStreamServer) Recv() (*CallStreamRequest, error) {
	m := new(CallStreamRequest)
	if err := x.ServerStream.RecvMsg(m); err != nil {
		return nil, err
	}
	return m, nil
}

func _Messages_Cancel_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(CancelRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(MessagesServer).Cancel(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: Messages_Cancel_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(MessagesServer).Cancel(ctx, req.(*CancelRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _Messages_CancelBatch_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(CancelBatchRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(MessagesServer).CancelBatch(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: Messages_CancelBatch_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(MessagesServer).CancelBatch(ctx, req.(*CancelBatchRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _Messages_Reschedule_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(RescheduleRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(MessagesServer).Reschedule(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: Messages_Reschedule_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(MessagesServer).Reschedule(ctx, req.(*RescheduleRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _Messages_Get_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(GetRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(MessagesServer).Get(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: Messages_Get_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(MessagesServer).Get(ctx, req.(*GetRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _Messages_List_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(ListRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(MessagesServer).List(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: Messages_List_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(MessagesServer).List(ctx, req.(*ListRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _Messages_Explain_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(ExplainRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(MessagesServer).Explain(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: Messages_Explain_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(MessagesServer).Explain(ctx, req.(*ExplainRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _Messages_CreateRecurrence_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(CreateRecurrenceRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(MessagesServer).CreateRecurrence(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: Messages_CreateRecurrence_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(MessagesServer).CreateRecurrence(ctx, req.(*CreateRecurrenceRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _Messages_GetRecurrence_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(GetRecurrenceRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(MessagesServer).GetRecurrence(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: Messages_GetRecurrence_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(MessagesServer).GetRecurrence(ctx, req.(*GetRecurrenceRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _Messages_ListRecurrences_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(ListRecurrencesRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(MessagesServer).ListRecurrences(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: Messages_ListRecurrences_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(MessagesServer).ListRecurrences(ctx, req.(*ListRecurrencesRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _Messages_UpdateRecurrence_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(UpdateRecurrenceRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(MessagesServer).UpdateRecurrence(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: Messages_UpdateRecurrence_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(MessagesServer).UpdateRecurrence(ctx, req.(*UpdateRecurrenceRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _Messages_PauseRecurrence_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(PauseRecurrenceRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(MessagesServer).PauseRecurrence(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: Messages_PauseRecurrence_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(MessagesServer).PauseRecurrence(ctx, req.(*PauseRecurrenceRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _Messages_ResumeRecurrence_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(ResumeRecurrenceRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(MessagesServer).ResumeRecurrence(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: Messages_ResumeRecurrence_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(MessagesServer).ResumeRecurrence(ctx, req.(*ResumeRecurrenceRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _Messages_DeleteRecurrence_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(DeleteRecurrenceRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(MessagesServer).DeleteRecurrence(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: Messages_DeleteRecurrence_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(MessagesServer).DeleteRecurrence(ctx, req.(*DeleteRecurrenceRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _Messages_PreviewRecurrence_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(PreviewRecurrenceRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(MessagesServer).PreviewRecurrence(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: Messages_PreviewRecurrence_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(MessagesServer).PreviewRecurrence(ctx, req.(*PreviewRecurrenceRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _Messages_Subscribe_Handler(srv interface{}, stream grpc.ServerStream) error {
	return srv.(MessagesServer).Subscribe(&messagesSubscribeServer{stream})
}

type Messages_SubscribeServer interface {
	Send(*SubscribeResponse) error
	Recv() (*SubscribeRequest, error)
	grpc.ServerStream
}

type messagesSubscribeServer struct {
	grpc.ServerStream
}

func (x *messagesSubscribeServer) Send(m *SubscribeResponse) error {
	return x.ServerStream.SendMsg(m)
}

func (x *messagesSubscribeServer) Recv() (*SubscribeRequest, error) {
	m := new(SubscribeRequest)
	if err := x.ServerStream.RecvMsg(m); err != nil {
		return nil, err
	}
	return m, nil
}

func _Messages_Pull_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(PullRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(MessagesServer).Pull(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: Messages_Pull_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(MessagesServer).Pull(ctx, req.(*PullRequest))
	}
	return interceptor(ctx, in, info, handler)
}

func _Messages_Settle_Handler(srv interface{}, ctx context.Context, dec func(interface{}) error, interceptor grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(SettleRequest)
	if err := dec(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return srv.(MessagesServer).Settle(ctx, in)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: Messages_Settle_FullMethodName,
	}
	handler := func(ctx context.Context, req interface{}) (interface{}, error) {
		return srv.(MessagesServer).Settle(ctx, req.(*SettleRequest))
	}
	return interceptor(ctx, in, info, handler)
}

// Messages_ServiceDesc is the grpc.ServiceDesc for Messages service.
// It's only intended for direct use with grpc.RegisterService,
// and not to be introspected or modified (even as a copy)
var Messages_ServiceDesc = grpc.ServiceDesc{
	ServiceName: "duetime.v1.Messages",
	HandlerType: (*MessagesServer)(nil),
	Methods: []grpc.MethodDesc{
		{
			MethodName: "Schedule",
			Handler:    _Messages_Schedule_Handler,
		},
		{
			MethodName: "ScheduleBatch",
			Handler:    _Messages_ScheduleBatch_Handler,
		},
		{
			MethodName: "Cancel",
			Handler:    _Messages_Cancel_Handler,
		},
		{
			MethodName: "CancelBatch",
			Handler:    _Messages_CancelBatch_Handler,
		},
		{
			MethodName: "Reschedule",
			Handler:    _Messages_Reschedule_Handler,
		},
		{
			MethodName: "Get",
			Handler:    _Messages_Get_Handler,
		},
		{
			MethodName: "List",
			Handler:    _Messages_List_Handler,
		},
		{
			MethodName: "Explain",
			Handler:    _Messages_Explain_Handler,
		},
		{
			MethodName: "CreateRecurrence",
			Handler:    _Messages_CreateRecurrence_Handler,
		},
		{
			MethodName: "GetRecurrence",
			Handler:    _Messages_GetRecurrence_Handler,
		},
		{
			MethodName: "ListRecurrences",
			Handler:    _Messages_ListRecurrences_Handler,
		},
		{
			MethodName: "UpdateRecurrence",
			Handler:    _Messages_UpdateRecurrence_Handler,
		},
		{
			MethodName: "PauseRecurrence",
			Handler:    _Messages_PauseRecurrence_Handler,
		},
		{
			MethodName: "ResumeRecurrence",
			Handler:    _Messages_ResumeRecurrence_Handler,
		},
		{
			MethodName: "DeleteRecurrence",
			Handler:    _Messages_DeleteRecurrence_Handler,
		},
		{
			MethodName: "PreviewRecurrence",
			Handler:    _Messages_PreviewRecurrence_Handler,
		},
		{
			MethodName: "Pull",
			Handler:    _Messages_Pull_Handler,
		},
		{
			MethodName: "Settle",
			Handler:    _Messages_Settle_Handler,
		},
	},
	Streams: []grpc.StreamDesc{
		{
			StreamName:    "ScheduleStream",
			Handler:       _Messages_ScheduleStream_Handler,
			ServerStreams: true,
			ClientStreams: true,
		},
		{
			StreamName:    "CallStream",
			Handler:       _Messages_CallStream_Handler,
			ServerStreams: true,
			ClientStreams: true,
		},
		{
			StreamName:    "Subscribe",
			Handler:       _Messages_Subscribe_Handler,
			ServerStreams: true,
			ClientStreams: true,
		},
	},
	Metadata: "duetime/v1/messages.proto",
}
