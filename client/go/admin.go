// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	pb "github.com/duetime/duetime/client/go/duetimepb"
)

// ---- Topics

// CreateTopic creates a topic. If the topic exists with the same settings, the call returns it.
func (c *Client) CreateTopic(ctx context.Context, topic *pb.Topic) (*pb.Topic, error) {
	response, err := simple(ctx, c.caller, c.admin.CreateTopic, &pb.CreateTopicRequest{Topic: topic})
	return response.GetTopic(), err
}

// GetTopic returns a topic with its settings and counts.
func (c *Client) GetTopic(ctx context.Context, name string) (*pb.Topic, error) {
	response, err := simple(ctx, c.caller, c.admin.GetTopic, &pb.GetTopicRequest{Name: name})
	return response.GetTopic(), err
}

// ListTopics reads topics in the order of their names.
func (c *Client) ListTopics(request *pb.ListTopicsRequest) *Iterator[*pb.Topic] {
	return listOf(request, func(ctx context.Context, request *pb.ListTopicsRequest) ([]*pb.Topic, string, error) {
		page, err := simple(ctx, c.caller, c.admin.ListTopics, request)
		return page.GetTopics(), page.GetNextPageToken(), err
	})
}

// UpdateTopic changes the settings that the paths name, like "settings.max_pending". topic.Name is the topic to change.
func (c *Client) UpdateTopic(ctx context.Context, topic *pb.Topic, paths ...string) (*pb.Topic, error) {
	request := &pb.UpdateTopicRequest{Topic: topic, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}}
	response, err := simple(ctx, c.caller, c.admin.UpdateTopic, request)
	return response.GetTopic(), err
}

// DeleteTopic deletes an empty topic. With force, a topic with messages is not refused: the call starts an operation
// that ends all of them, and returns the operation's name. When the operation is done, delete the topic again. The call
// is not repeated: a repeat would answer NotFound although the first try deleted the topic.
func (c *Client) DeleteTopic(ctx context.Context, name string, force bool) (operation string, err error) {
	response, err := simple(ctx, c.caller, c.admin.DeleteTopic, &pb.DeleteTopicRequest{Name: name, Force: force})
	return response.GetOperation(), err
}

// PauseTopic stops all deliveries of a topic.
func (c *Client) PauseTopic(ctx context.Context, name string) (*pb.Topic, error) {
	response, err := simple(ctx, c.caller, c.admin.PauseTopic, &pb.PauseTopicRequest{Name: name})
	return response.GetTopic(), err
}

// ResumeTopic resumes the deliveries of a topic.
func (c *Client) ResumeTopic(ctx context.Context, name string) (*pb.Topic, error) {
	response, err := simple(ctx, c.caller, c.admin.ResumeTopic, &pb.ResumeTopicRequest{Name: name})
	return response.GetTopic(), err
}

// ---- Subscriptions. An empty name means "default".

// CreateSubscription creates a subscription. If it exists with the same settings, the call returns it.
func (c *Client) CreateSubscription(ctx context.Context, request *pb.CreateSubscriptionRequest) (*pb.Subscription, error) {
	response, err := simple(ctx, c.caller, c.admin.CreateSubscription, request)
	return response.GetSubscription(), err
}

// GetSubscription returns a subscription with its settings and counts.
func (c *Client) GetSubscription(ctx context.Context, topic, name string) (*pb.Subscription, error) {
	response, err := simple(ctx, c.caller, c.admin.GetSubscription, &pb.GetSubscriptionRequest{Topic: topic, Name: name})
	return response.GetSubscription(), err
}

// ListSubscriptions reads the subscriptions of a topic in the order of their names.
func (c *Client) ListSubscriptions(request *pb.ListSubscriptionsRequest) *Iterator[*pb.Subscription] {
	return listOf(request, func(ctx context.Context, request *pb.ListSubscriptionsRequest) ([]*pb.Subscription, string, error) {
		page, err := simple(ctx, c.caller, c.admin.ListSubscriptions, request)
		return page.GetSubscriptions(), page.GetNextPageToken(), err
	})
}

// UpdateSubscription changes the settings that the paths name, like "settings.paused". The topic and the name of the
// subscription say which one to change.
func (c *Client) UpdateSubscription(ctx context.Context, subscription *pb.Subscription,
	paths ...string) (*pb.Subscription, error) {
	request := &pb.UpdateSubscriptionRequest{Subscription: subscription, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}}
	response, err := simple(ctx, c.caller, c.admin.UpdateSubscription, request)
	return response.GetSubscription(), err
}

// DeleteSubscription deletes a subscription. Its subscribers end with SUBSCRIPTION_NOT_FOUND. The call is not repeated,
// as DeleteTopic.
func (c *Client) DeleteSubscription(ctx context.Context, topic, name string) error {
	_, err := simple(ctx, c.caller, c.admin.DeleteSubscription, &pb.DeleteSubscriptionRequest{Topic: topic, Name: name})
	return err
}

// ---- Forecasts

// Forecast returns how many messages become due in each bucket of time.
func (c *Client) Forecast(ctx context.Context, request *pb.ForecastRequest) (*pb.ForecastResponse, error) {
	return simple(ctx, c.caller, c.admin.Forecast, request)
}

// ---- Bulk operations

// StartBulk starts an operation on all messages of a topic that match a filter. An operation without a name gets a
// random one, so that the server recognises a repeat.
func (c *Client) StartBulk(ctx context.Context, request *pb.StartBulkRequest) (*pb.Operation, error) {
	if request.GetName() == "" && !request.GetDryRun() {
		request = proto.Clone(request).(*pb.StartBulkRequest)
		request.Name = newID()
	}
	response, err := simple(ctx, c.caller, c.admin.StartBulk, request)
	return response.GetOperation(), err
}

// GetOperation returns an operation and its progress.
func (c *Client) GetOperation(ctx context.Context, name string) (*pb.Operation, error) {
	response, err := simple(ctx, c.caller, c.admin.GetOperation, &pb.GetOperationRequest{Name: name})
	return response.GetOperation(), err
}

// ListOperations reads operations in the order of their names.
func (c *Client) ListOperations(request *pb.ListOperationsRequest) *Iterator[*pb.Operation] {
	return listOf(request, func(ctx context.Context, request *pb.ListOperationsRequest) ([]*pb.Operation, string, error) {
		page, err := simple(ctx, c.caller, c.admin.ListOperations, request)
		return page.GetOperations(), page.GetNextPageToken(), err
	})
}

// CancelOperation stops an operation. Its changes so far stay.
func (c *Client) CancelOperation(ctx context.Context, name string) (*pb.Operation, error) {
	response, err := simple(ctx, c.caller, c.admin.CancelOperation, &pb.CancelOperationRequest{Name: name})
	return response.GetOperation(), err
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
	return listOf(request, func(ctx context.Context, request *pb.ListRecurrencesRequest) ([]*pb.Recurrence, string, error) {
		page, err := simple(ctx, c.caller, c.messages.ListRecurrences, request)
		return page.GetRecurrences(), page.GetNextPageToken(), err
	})
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
