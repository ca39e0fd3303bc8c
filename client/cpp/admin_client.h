// SPDX-License-Identifier: Apache-2.0
//
// AdminClient: topics, subscriptions, forecasts, operations on many messages, recurrences.
#pragma once

#include <memory>

#include "absl/status/statusor.h"

#include "client/cpp/client_options.h"
#include "duetime/v1/admin.pb.h"
#include "duetime/v1/messages.pb.h"

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

  // ---- Topics
  absl::StatusOr<v1::Topic> CreateTopic(const v1::Topic& topic);
  absl::StatusOr<v1::Topic> GetTopic(const v1::GetTopicRequest& request);
  absl::StatusOr<v1::ListTopicsResponse> ListTopics(const v1::ListTopicsRequest& request);
  absl::StatusOr<v1::Topic> UpdateTopic(const v1::UpdateTopicRequest& request);
  // Not tried again: a repeat would answer NOT_FOUND although the first try deleted the topic.
  absl::StatusOr<v1::DeleteTopicResponse> DeleteTopic(const v1::DeleteTopicRequest& request);
  absl::StatusOr<v1::Topic> PauseTopic(const v1::PauseTopicRequest& request);
  absl::StatusOr<v1::Topic> ResumeTopic(const v1::ResumeTopicRequest& request);

  // ---- Subscriptions
  absl::StatusOr<v1::Subscription> CreateSubscription(const v1::CreateSubscriptionRequest& request);
  absl::StatusOr<v1::Subscription> GetSubscription(const v1::GetSubscriptionRequest& request);
  absl::StatusOr<v1::ListSubscriptionsResponse> ListSubscriptions(
      const v1::ListSubscriptionsRequest& request);
  // To pause a subscription, update settings.paused.
  absl::StatusOr<v1::Subscription> UpdateSubscription(const v1::UpdateSubscriptionRequest& request);
  // Not tried again, as DeleteTopic.
  absl::StatusOr<v1::DeleteSubscriptionResponse> DeleteSubscription(
      const v1::DeleteSubscriptionRequest& request);

  // ---- Access
  absl::StatusOr<v1::CheckAccessResponse> CheckAccess(const v1::CheckAccessRequest& request);

  // ---- Backups. StartBackup is not tried again: a lost answer leaves a backup that ends by
  // itself. EndBackup is not tried again, as DeleteTopic.
  absl::StatusOr<v1::Backup> StartBackup(const v1::StartBackupRequest& request);
  absl::StatusOr<v1::ReadBackupResponse> ReadBackup(const v1::ReadBackupRequest& request);
  absl::StatusOr<v1::EndBackupResponse> EndBackup(const v1::EndBackupRequest& request);

  // ---- Cells
  // Not tried again: the next leader would give the lead away, too.
  absl::StatusOr<v1::HandOverResponse> HandOver(const v1::HandOverRequest& request);

  // ---- Forecasts
  absl::StatusOr<v1::ForecastResponse> Forecast(const v1::ForecastRequest& request);

  // ---- Operations on many messages. An operation without a name gets a random one, so that the
  // server recognises a repeat.
  absl::StatusOr<v1::Operation> StartBulk(const v1::StartBulkRequest& request);
  absl::StatusOr<v1::Operation> GetOperation(const v1::GetOperationRequest& request);
  absl::StatusOr<v1::ListOperationsResponse> ListOperations(
      const v1::ListOperationsRequest& request);
  absl::StatusOr<v1::Operation> CancelOperation(const v1::CancelOperationRequest& request);

  // ---- Recurrences
  absl::StatusOr<v1::Recurrence> CreateRecurrence(const v1::CreateRecurrenceRequest& request);
  absl::StatusOr<v1::Recurrence> GetRecurrence(const v1::GetRecurrenceRequest& request);
  absl::StatusOr<v1::ListRecurrencesResponse> ListRecurrences(
      const v1::ListRecurrencesRequest& request);
  // Not tried again with an etag: the change of the first try would look like another client's.
  absl::StatusOr<v1::Recurrence> UpdateRecurrence(const v1::UpdateRecurrenceRequest& request);
  absl::StatusOr<v1::Recurrence> PauseRecurrence(const v1::PauseRecurrenceRequest& request);
  absl::StatusOr<v1::Recurrence> ResumeRecurrence(const v1::ResumeRecurrenceRequest& request);
  // Not tried again, as DeleteTopic.
  absl::StatusOr<v1::DeleteRecurrenceResponse> DeleteRecurrence(
      const v1::DeleteRecurrenceRequest& request);
  absl::StatusOr<v1::PreviewRecurrenceResponse> PreviewRecurrence(
      const v1::PreviewRecurrenceRequest& request);

 private:
  class Impl;
  explicit AdminClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace duetime::client
