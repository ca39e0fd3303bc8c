// SPDX-License-Identifier: Apache-2.0
//
// AdminClient: topics, subscriptions, forecasts, operations on many messages, recurrences.
#pragma once

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"

#include "client/cpp/client_options.h"
#include "duetime/v1/admin.pb.h"
#include "duetime/v1/messages.pb.h"
#include "duetime/v1/test_clock.pb.h"

namespace duetime::client {

// A client of one server for operators and tools. Every call takes and returns the proto's own
// types. The protos document each field, its bounds and the errors: admin.proto, topic.proto,
// subscription.proto, forecast.proto, operation.proto and recurrence.proto.
//
// A call blocks until its answer or its deadline. Errors and retries are those of Client. A call is
// tried again on UNAVAILABLE unless its comment says otherwise.
//
// Thread-safe; calls of several threads share the connection.
class AdminClient {
 public:
  // Does not connect; the first call does. Errors as OpenChannel.
  static absl::StatusOr<std::unique_ptr<AdminClient>> Create(const ClientOptions& options);
  ~AdminClient();
  AdminClient(const AdminClient&) = delete;
  AdminClient& operator=(const AdminClient&) = delete;

  // Makes the call of the service Admin that has such a request, and writes its answer to
  // `response`. The methods below are short forms of such calls. INVALID_ARGUMENT if no call has
  // such a request and response.
  absl::Status Call(const google::protobuf::Message& request, google::protobuf::Message* response);

  // ---- Topics
  absl::StatusOr<v1::Topic> CreateTopic(const v1::Topic& topic) {
    v1::CreateTopicRequest request;
    *request.mutable_topic() = topic;
    return Get(&v1::CreateTopicResponse::mutable_topic, request);
  }
  absl::StatusOr<v1::Topic> GetTopic(const v1::GetTopicRequest& request) {
    return Get(&v1::GetTopicResponse::mutable_topic, request);
  }
  absl::StatusOr<v1::ListTopicsResponse> ListTopics(const v1::ListTopicsRequest& request) {
    return Answer<v1::ListTopicsResponse>(request);
  }
  absl::StatusOr<v1::Topic> UpdateTopic(const v1::UpdateTopicRequest& request) {
    return Get(&v1::UpdateTopicResponse::mutable_topic, request);
  }
  // Not tried again: a repeat would answer NOT_FOUND although the first try deleted the topic.
  absl::StatusOr<v1::DeleteTopicResponse> DeleteTopic(const v1::DeleteTopicRequest& request) {
    return Answer<v1::DeleteTopicResponse>(request);
  }
  absl::StatusOr<v1::Topic> PauseTopic(const v1::PauseTopicRequest& request) {
    return Get(&v1::PauseTopicResponse::mutable_topic, request);
  }
  absl::StatusOr<v1::Topic> ResumeTopic(const v1::ResumeTopicRequest& request) {
    return Get(&v1::ResumeTopicResponse::mutable_topic, request);
  }

  // ---- Subscriptions
  absl::StatusOr<v1::Subscription> CreateSubscription(
      const v1::CreateSubscriptionRequest& request) {
    return Get(&v1::CreateSubscriptionResponse::mutable_subscription, request);
  }
  absl::StatusOr<v1::Subscription> GetSubscription(const v1::GetSubscriptionRequest& request) {
    return Get(&v1::GetSubscriptionResponse::mutable_subscription, request);
  }
  absl::StatusOr<v1::ListSubscriptionsResponse> ListSubscriptions(
      const v1::ListSubscriptionsRequest& request) {
    return Answer<v1::ListSubscriptionsResponse>(request);
  }
  // To pause a subscription, update settings.paused.
  absl::StatusOr<v1::Subscription> UpdateSubscription(
      const v1::UpdateSubscriptionRequest& request) {
    return Get(&v1::UpdateSubscriptionResponse::mutable_subscription, request);
  }
  // Not tried again, as DeleteTopic.
  absl::StatusOr<v1::DeleteSubscriptionResponse> DeleteSubscription(
      const v1::DeleteSubscriptionRequest& request) {
    return Answer<v1::DeleteSubscriptionResponse>(request);
  }

  // ---- Streams of subscribers
  absl::StatusOr<v1::ListStreamsResponse> ListStreams(const v1::ListStreamsRequest& request) {
    return Answer<v1::ListStreamsResponse>(request);
  }
  // Not tried again, as DeleteTopic.
  absl::StatusOr<v1::EndStreamResponse> EndStream(const v1::EndStreamRequest& request) {
    return Answer<v1::EndStreamResponse>(request);
  }

  // ---- Access
  absl::StatusOr<v1::CheckAccessResponse> CheckAccess(const v1::CheckAccessRequest& request) {
    return Answer<v1::CheckAccessResponse>(request);
  }

  // ---- Backups. StartBackup is not tried again: a lost answer leaves a backup that ends by
  // itself. EndBackup is not tried again, as DeleteTopic.
  absl::StatusOr<v1::Backup> StartBackup(const v1::StartBackupRequest& request) {
    return Get(&v1::StartBackupResponse::mutable_backup, request);
  }
  absl::StatusOr<v1::ReadBackupResponse> ReadBackup(const v1::ReadBackupRequest& request) {
    return Answer<v1::ReadBackupResponse>(request);
  }
  absl::StatusOr<v1::EndBackupResponse> EndBackup(const v1::EndBackupRequest& request) {
    return Answer<v1::EndBackupResponse>(request);
  }

  // ---- The clock of a server with a test clock (test_clock.proto); UNIMPLEMENTED by others.
  // Advance and AdvanceToNext are not tried again. Their deadline must be later than the timeout in
  // the request.
  absl::StatusOr<v1::GetClockResponse> GetClock(const v1::GetClockRequest& request) {
    return Answer<v1::GetClockResponse>(request);
  }
  absl::StatusOr<v1::SetClockResponse> SetClock(const v1::SetClockRequest& request) {
    return Answer<v1::SetClockResponse>(request);
  }
  absl::StatusOr<v1::AdvanceResponse> Advance(const v1::AdvanceRequest& request) {
    return Answer<v1::AdvanceResponse>(request);
  }
  absl::StatusOr<v1::AdvanceToNextResponse> AdvanceToNext(const v1::AdvanceToNextRequest& request) {
    return Answer<v1::AdvanceToNextResponse>(request);
  }

  // ---- Cells
  // Not tried again: the next leader would give the lead away, too.
  absl::StatusOr<v1::HandOverResponse> HandOver(const v1::HandOverRequest& request) {
    return Answer<v1::HandOverResponse>(request);
  }

  // ---- Forecasts
  absl::StatusOr<v1::ForecastResponse> Forecast(const v1::ForecastRequest& request) {
    return Answer<v1::ForecastResponse>(request);
  }

  // ---- Operations on many messages. An operation without a name gets a random one, so that the
  // server recognises a repeat.
  absl::StatusOr<v1::Operation> StartBulk(const v1::StartBulkRequest& request) {
    return Get(&v1::StartBulkResponse::mutable_operation, request);
  }
  absl::StatusOr<v1::Operation> GetOperation(const v1::GetOperationRequest& request) {
    return Get(&v1::GetOperationResponse::mutable_operation, request);
  }
  absl::StatusOr<v1::ListOperationsResponse> ListOperations(
      const v1::ListOperationsRequest& request) {
    return Answer<v1::ListOperationsResponse>(request);
  }
  absl::StatusOr<v1::Operation> CancelOperation(const v1::CancelOperationRequest& request) {
    return Get(&v1::CancelOperationResponse::mutable_operation, request);
  }

  // ---- Recurrences
  absl::StatusOr<v1::Recurrence> CreateRecurrence(const v1::CreateRecurrenceRequest& request) {
    return Get(&v1::CreateRecurrenceResponse::mutable_recurrence, request);
  }
  absl::StatusOr<v1::Recurrence> GetRecurrence(const v1::GetRecurrenceRequest& request) {
    return Get(&v1::GetRecurrenceResponse::mutable_recurrence, request);
  }
  absl::StatusOr<v1::ListRecurrencesResponse> ListRecurrences(
      const v1::ListRecurrencesRequest& request) {
    return Answer<v1::ListRecurrencesResponse>(request);
  }
  // Not tried again with an etag: the change of the first try would look like another client's.
  absl::StatusOr<v1::Recurrence> UpdateRecurrence(const v1::UpdateRecurrenceRequest& request) {
    return Get(&v1::UpdateRecurrenceResponse::mutable_recurrence, request);
  }
  absl::StatusOr<v1::Recurrence> PauseRecurrence(const v1::PauseRecurrenceRequest& request) {
    return Get(&v1::PauseRecurrenceResponse::mutable_recurrence, request);
  }
  absl::StatusOr<v1::Recurrence> ResumeRecurrence(const v1::ResumeRecurrenceRequest& request) {
    return Get(&v1::ResumeRecurrenceResponse::mutable_recurrence, request);
  }
  // Not tried again, as DeleteTopic.
  absl::StatusOr<v1::DeleteRecurrenceResponse> DeleteRecurrence(
      const v1::DeleteRecurrenceRequest& request) {
    return Answer<v1::DeleteRecurrenceResponse>(request);
  }
  absl::StatusOr<v1::PreviewRecurrenceResponse> PreviewRecurrence(
      const v1::PreviewRecurrenceRequest& request) {
    return Answer<v1::PreviewRecurrenceResponse>(request);
  }

 private:
  class Impl;
  explicit AdminClient(std::unique_ptr<Impl> impl);

  // As Call, for calls of any service.
  absl::Status Run(const google::protobuf::Message& request, google::protobuf::Message* response);

  template <typename Response>
  absl::StatusOr<Response> Answer(const google::protobuf::Message& request) {
    Response response;
    if (absl::Status status = Run(request, &response); !status.ok()) return status;
    return response;
  }

  // The resource inside an answer.
  template <typename Response, typename Resource>
  absl::StatusOr<Resource> Get(Resource* (Response::*resource)(),
                               const google::protobuf::Message& request) {
    absl::StatusOr<Response> response = Answer<Response>(request);
    if (!response.ok()) return response.status();
    return std::move(*((*response).*resource)());
  }

  std::unique_ptr<Impl> impl_;
};

}  // namespace duetime::client
