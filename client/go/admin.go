// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "github.com/duetime/duetime/client/go/duetimepb"
)

// adminConn is the client's connection for the generated stub: each unary call of the stub is a call of this library.
type adminConn struct{ client *Client }

// Invoke makes a unary call by the rules of Options.
func (a adminConn) Invoke(ctx context.Context, method string, request, response any, options ...grpc.CallOption) error {
	invoke := func(ctx context.Context, request proto.Message, _ ...grpc.CallOption) (*struct{}, error) {
		return nil, a.client.conn.Invoke(ctx, method, request, response, options...)
	}
	_, err := simple(ctx, a.client.caller, invoke, named(request.(proto.Message)))
	return err
}

// TestClock has the calls of the service TestClock, of a server with a test clock. Those that move it may take longer than
// Options.Timeout allows. Package duetimetest starts such servers.
func (c *Client) TestClock() pb.TestClockClient { return pb.NewTestClockClient(adminConn{c}) }

// NewStream opens a stream, which is not repeated.
func (a adminConn) NewStream(ctx context.Context, stream *grpc.StreamDesc, method string,
	options ...grpc.CallOption) (grpc.ClientStream, error) {
	return a.client.conn.NewStream(ctx, stream, method, options...)
}

// named returns the request with a random name, if the server recognises a repeat by the name and the request has none. A
// dry run is not stored, so it needs none.
func named(request proto.Message) proto.Message {
	bulk, ok := request.(*pb.StartBulkRequest)
	if !ok || bulk.GetName() != "" || bulk.GetDryRun() {
		return request
	}
	bulk = proto.Clone(bulk).(*pb.StartBulkRequest)
	bulk.Name = newID()
	return bulk
}

// ---- Lists. Client.AdminClient has the calls for one page.

// ListTopics reads topics in the order of their names.
func (c *Client) ListTopics(request *pb.ListTopicsRequest) *Iterator[*pb.Topic] {
	return listOf(request, c.AdminClient.ListTopics, (*pb.ListTopicsResponse).GetTopics)
}

// ListSubscriptions reads the subscriptions of a topic in the order of their names.
func (c *Client) ListSubscriptions(request *pb.ListSubscriptionsRequest) *Iterator[*pb.Subscription] {
	return listOf(request, c.AdminClient.ListSubscriptions, (*pb.ListSubscriptionsResponse).GetSubscriptions)
}

// ListOperations reads operations in the order of their names.
func (c *Client) ListOperations(request *pb.ListOperationsRequest) *Iterator[*pb.Operation] {
	return listOf(request, c.AdminClient.ListOperations, (*pb.ListOperationsResponse).GetOperations)
}

// ---- Recurrences

// CreateRecurrence creates a recurrence and schedules its first occurrence.
func (c *Client) CreateRecurrence(ctx context.Context, request *pb.CreateRecurrenceRequest) (*pb.Recurrence, error) {
	response, err := simple(ctx, c.caller, c.messages.CreateRecurrence, request)
	return response.GetRecurrence(), err
}

// GetRecurrence returns a recurrence.
func (c *Client) GetRecurrence(ctx context.Context, name string) (*pb.Recurrence, error) {
	response, err := simple(ctx, c.caller, c.messages.GetRecurrence, &pb.GetRecurrenceRequest{Name: name})
	return response.GetRecurrence(), err
}

// ListRecurrences reads recurrences in the order of their names.
func (c *Client) ListRecurrences(request *pb.ListRecurrencesRequest) *Iterator[*pb.Recurrence] {
	return listOf(request, repeated(c.caller, c.messages.ListRecurrences), (*pb.ListRecurrencesResponse).GetRecurrences)
}

// UpdateRecurrence changes the parts that the mask names. A call with an etag is not repeated, because the change of
// the first try would look like another client's.
func (c *Client) UpdateRecurrence(ctx context.Context, request *pb.UpdateRecurrenceRequest) (*pb.Recurrence, error) {
	response, err := simple(ctx, c.caller, c.messages.UpdateRecurrence, request)
	return response.GetRecurrence(), err
}

// PauseRecurrence stops a recurrence, and cancels its pending occurrence if that was never delivered.
func (c *Client) PauseRecurrence(ctx context.Context, name string) (*pb.Recurrence, error) {
	response, err := simple(ctx, c.caller, c.messages.PauseRecurrence, &pb.PauseRecurrenceRequest{Name: name})
	return response.GetRecurrence(), err
}

// ResumeRecurrence resumes a paused recurrence.
func (c *Client) ResumeRecurrence(ctx context.Context, name string) (*pb.Recurrence, error) {
	response, err := simple(ctx, c.caller, c.messages.ResumeRecurrence, &pb.ResumeRecurrenceRequest{Name: name})
	return response.GetRecurrence(), err
}

// DeleteRecurrence deletes a recurrence. occurrenceCancelled is true if the call cancelled a pending occurrence. The
// call is not repeated, as DeleteTopic.
func (c *Client) DeleteRecurrence(ctx context.Context, name string) (occurrenceCancelled bool, err error) {
	response, err := simple(ctx, c.caller, c.messages.DeleteRecurrence, &pb.DeleteRecurrenceRequest{Name: name})
	return response.GetOccurrenceCancelled(), err
}

// PreviewRecurrence returns the times of the occurrences of a schedule or of a recurrence. It changes nothing.
func (c *Client) PreviewRecurrence(ctx context.Context, request *pb.PreviewRecurrenceRequest) (*pb.PreviewRecurrenceResponse, error) {
	return simple(ctx, c.caller, c.messages.PreviewRecurrence, request)
}
