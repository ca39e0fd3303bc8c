// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/admin_client.h"

#include <utility>

#include "client/cpp/caller.h"
#include "client/cpp/random_id.h"
#include "duetime/v1/admin.grpc.pb.h"
#include "duetime/v1/messages.grpc.pb.h"

namespace duetime::client {
namespace {

using AdminStub = v1::Admin::Stub;
using MessagesStub = v1::Messages::Stub;

// The resource inside an answer, or the error.
template <typename Response>
absl::StatusOr<v1::Topic> TopicIn(absl::StatusOr<Response> response) {
  if (!response.ok()) return response.status();
  return std::move(*response->mutable_topic());
}

template <typename Response>
absl::StatusOr<v1::Subscription> SubscriptionIn(absl::StatusOr<Response> response) {
  if (!response.ok()) return response.status();
  return std::move(*response->mutable_subscription());
}

template <typename Response>
absl::StatusOr<v1::Recurrence> RecurrenceIn(absl::StatusOr<Response> response) {
  if (!response.ok()) return response.status();
  return std::move(*response->mutable_recurrence());
}

template <typename Response>
absl::StatusOr<v1::Operation> OperationIn(absl::StatusOr<Response> response) {
  if (!response.ok()) return response.status();
  return std::move(*response->mutable_operation());
}

}  // namespace

class AdminClient::Impl {
 public:
  Impl(const ClientOptions& options, const std::shared_ptr<grpc::Channel>& channel)
      : caller_(options, channel),
        admin_(v1::Admin::NewStub(channel)),
        messages_(v1::Messages::NewStub(channel)) {}

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (AdminStub::*method)(grpc::ClientContext*,
                                                                  const Request&, Response*),
                                const Request& request) {
    return caller_.Call(admin_.get(), method, request);
  }

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (MessagesStub::*method)(grpc::ClientContext*,
                                                                     const Request&, Response*),
                                const Request& request) {
    return caller_.Call(messages_.get(), method, request);
  }

 private:
  const Caller caller_;
  const std::unique_ptr<AdminStub> admin_;
  const std::unique_ptr<MessagesStub> messages_;
};

AdminClient::AdminClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AdminClient::~AdminClient() = default;

absl::StatusOr<std::unique_ptr<AdminClient>> AdminClient::Create(const ClientOptions& options) {
  auto channel = OpenChannel(options.server);
  if (!channel.ok()) return channel.status();
  return std::unique_ptr<AdminClient>(new AdminClient(std::make_unique<Impl>(options, *channel)));
}

absl::StatusOr<v1::Topic> AdminClient::CreateTopic(const v1::Topic& topic) {
  v1::CreateTopicRequest request;
  *request.mutable_topic() = topic;
  return TopicIn(impl_->Call(&AdminStub::CreateTopic, request));
}

absl::StatusOr<v1::Topic> AdminClient::GetTopic(const v1::GetTopicRequest& request) {
  return TopicIn(impl_->Call(&AdminStub::GetTopic, request));
}

absl::StatusOr<v1::ListTopicsResponse> AdminClient::ListTopics(
    const v1::ListTopicsRequest& request) {
  return impl_->Call(&AdminStub::ListTopics, request);
}

absl::StatusOr<v1::Topic> AdminClient::UpdateTopic(const v1::UpdateTopicRequest& request) {
  return TopicIn(impl_->Call(&AdminStub::UpdateTopic, request));
}

absl::StatusOr<v1::DeleteTopicResponse> AdminClient::DeleteTopic(
    const v1::DeleteTopicRequest& request) {
  return impl_->Call(&AdminStub::DeleteTopic, request);
}

absl::StatusOr<v1::Topic> AdminClient::PauseTopic(const v1::PauseTopicRequest& request) {
  return TopicIn(impl_->Call(&AdminStub::PauseTopic, request));
}

absl::StatusOr<v1::Topic> AdminClient::ResumeTopic(const v1::ResumeTopicRequest& request) {
  return TopicIn(impl_->Call(&AdminStub::ResumeTopic, request));
}

absl::StatusOr<v1::Subscription> AdminClient::CreateSubscription(
    const v1::CreateSubscriptionRequest& request) {
  return SubscriptionIn(impl_->Call(&AdminStub::CreateSubscription, request));
}

absl::StatusOr<v1::Subscription> AdminClient::GetSubscription(
    const v1::GetSubscriptionRequest& request) {
  return SubscriptionIn(impl_->Call(&AdminStub::GetSubscription, request));
}

absl::StatusOr<v1::ListSubscriptionsResponse> AdminClient::ListSubscriptions(
    const v1::ListSubscriptionsRequest& request) {
  return impl_->Call(&AdminStub::ListSubscriptions, request);
}

absl::StatusOr<v1::Subscription> AdminClient::UpdateSubscription(
    const v1::UpdateSubscriptionRequest& request) {
  return SubscriptionIn(impl_->Call(&AdminStub::UpdateSubscription, request));
}

absl::StatusOr<v1::DeleteSubscriptionResponse> AdminClient::DeleteSubscription(
    const v1::DeleteSubscriptionRequest& request) {
  return impl_->Call(&AdminStub::DeleteSubscription, request);
}

absl::StatusOr<v1::CheckAccessResponse> AdminClient::CheckAccess(
    const v1::CheckAccessRequest& request) {
  return impl_->Call(&AdminStub::CheckAccess, request);
}

absl::StatusOr<v1::Backup> AdminClient::StartBackup(const v1::StartBackupRequest& request) {
  auto response = impl_->Call(&AdminStub::StartBackup, request);
  if (!response.ok()) return response.status();
  return std::move(*response->mutable_backup());
}

absl::StatusOr<v1::ReadBackupResponse> AdminClient::ReadBackup(
    const v1::ReadBackupRequest& request) {
  return impl_->Call(&AdminStub::ReadBackup, request);
}

absl::StatusOr<v1::EndBackupResponse> AdminClient::EndBackup(const v1::EndBackupRequest& request) {
  return impl_->Call(&AdminStub::EndBackup, request);
}

absl::StatusOr<v1::HandOverResponse> AdminClient::HandOver(const v1::HandOverRequest& request) {
  return impl_->Call(&AdminStub::HandOver, request);
}

absl::StatusOr<v1::ForecastResponse> AdminClient::Forecast(const v1::ForecastRequest& request) {
  return impl_->Call(&AdminStub::Forecast, request);
}

absl::StatusOr<v1::Operation> AdminClient::StartBulk(const v1::StartBulkRequest& request) {
  v1::StartBulkRequest named = request;
  if (named.name().empty() && !named.dry_run()) named.set_name(RandomId().Next());
  return OperationIn(impl_->Call(&AdminStub::StartBulk, named));
}

absl::StatusOr<v1::Operation> AdminClient::GetOperation(const v1::GetOperationRequest& request) {
  return OperationIn(impl_->Call(&AdminStub::GetOperation, request));
}

absl::StatusOr<v1::ListOperationsResponse> AdminClient::ListOperations(
    const v1::ListOperationsRequest& request) {
  return impl_->Call(&AdminStub::ListOperations, request);
}

absl::StatusOr<v1::Operation> AdminClient::CancelOperation(
    const v1::CancelOperationRequest& request) {
  return OperationIn(impl_->Call(&AdminStub::CancelOperation, request));
}

absl::StatusOr<v1::Recurrence> AdminClient::CreateRecurrence(
    const v1::CreateRecurrenceRequest& request) {
  return RecurrenceIn(impl_->Call(&MessagesStub::CreateRecurrence, request));
}

absl::StatusOr<v1::Recurrence> AdminClient::GetRecurrence(const v1::GetRecurrenceRequest& request) {
  return RecurrenceIn(impl_->Call(&MessagesStub::GetRecurrence, request));
}

absl::StatusOr<v1::ListRecurrencesResponse> AdminClient::ListRecurrences(
    const v1::ListRecurrencesRequest& request) {
  return impl_->Call(&MessagesStub::ListRecurrences, request);
}

absl::StatusOr<v1::Recurrence> AdminClient::UpdateRecurrence(
    const v1::UpdateRecurrenceRequest& request) {
  return RecurrenceIn(impl_->Call(&MessagesStub::UpdateRecurrence, request));
}

absl::StatusOr<v1::Recurrence> AdminClient::PauseRecurrence(
    const v1::PauseRecurrenceRequest& request) {
  return RecurrenceIn(impl_->Call(&MessagesStub::PauseRecurrence, request));
}

absl::StatusOr<v1::Recurrence> AdminClient::ResumeRecurrence(
    const v1::ResumeRecurrenceRequest& request) {
  return RecurrenceIn(impl_->Call(&MessagesStub::ResumeRecurrence, request));
}

absl::StatusOr<v1::DeleteRecurrenceResponse> AdminClient::DeleteRecurrence(
    const v1::DeleteRecurrenceRequest& request) {
  return impl_->Call(&MessagesStub::DeleteRecurrence, request);
}

absl::StatusOr<v1::PreviewRecurrenceResponse> AdminClient::PreviewRecurrence(
    const v1::PreviewRecurrenceRequest& request) {
  return impl_->Call(&MessagesStub::PreviewRecurrence, request);
}

}  // namespace duetime::client
