// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/delay_client.h"

#include <algorithm>
#include <string>
#include <utility>

#include "client/cpp/caller.h"
#include "client/cpp/convert.h"
#include "client/cpp/error.h"
#include "client/cpp/gatherer.h"
#include "client/cpp/random_id.h"
#include "client/cpp/schedule_result.h"
#include "duetime/v1/admin.grpc.pb.h"
#include "duetime/v1/messages.grpc.pb.h"

namespace duetime::client {
namespace {

// A request with validate_only changes nothing, so a repeat needs no id.
void NameRequest(RandomId* ids, v1::ScheduleRequest* request) {
  if (request->request_id().empty() && !request->validate_only()) {
    request->set_request_id(ids->Next());
  }
}

bool MayRepeat(Repeat repeat) { return repeat != Repeat::kNever; }

absl::Status WrongResultCount() {
  return absl::InternalError("the server answered a batch with another number of results");
}

}  // namespace

class Client::Impl {
 public:
  Impl(const ClientOptions& options, const std::shared_ptr<grpc::Channel>& channel,
       const std::shared_ptr<grpc::Channel>& pull_channel)
      : caller_(options, channel),
        gatherer_(options, channel),
        messages_(v1::Messages::NewStub(channel)),
        admin_(v1::Admin::NewStub(channel)),
        waiting_pulls_(v1::Messages::NewStub(pull_channel)) {}

  const Caller& caller() const { return caller_; }
  // For the calls that share a stream.
  Gatherer* gatherer() { return &gatherer_; }
  v1::Messages::Stub* messages() { return messages_.get(); }
  v1::Admin::Stub* admin() { return admin_.get(); }
  v1::Messages::Stub* waiting_pulls() { return waiting_pulls_.get(); }

 private:
  const Caller caller_;
  Gatherer gatherer_;
  const std::unique_ptr<v1::Messages::Stub> messages_;
  const std::unique_ptr<v1::Admin::Stub> admin_;
  // Has its own connection, which opens with its first call.
  const std::unique_ptr<v1::Messages::Stub> waiting_pulls_;
};

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

absl::StatusOr<std::unique_ptr<Client>> Client::Create(const ClientOptions& options) {
  auto channel = OpenChannel(options.server);
  if (!channel.ok()) return channel.status();
  auto pull_channel = OpenChannel(options.server);
  if (!pull_channel.ok()) return pull_channel.status();
  return std::unique_ptr<Client>(
      new Client(std::make_unique<Impl>(options, *channel, *pull_channel)));
}

absl::StatusOr<v1::ScheduleResponse> Client::Schedule(const NewMessage& message, Repeat repeat) {
  return Schedule(ToProto(message), repeat);
}

absl::StatusOr<v1::ScheduleResponse> Client::Schedule(v1::ScheduleRequest request, Repeat repeat) {
  if (repeat == Repeat::kSafely) {
    RandomId ids;
    NameRequest(&ids, &request);
  }
  return impl_->caller().Call(impl_->gatherer(), &Gatherer::Schedule, request, nullptr,
                              absl::ZeroDuration(), MayRepeat(repeat));
}

absl::StatusOr<std::vector<absl::StatusOr<v1::ScheduleResponse>>> Client::ScheduleBatch(
    absl::Span<const NewMessage> messages, Repeat repeat) {
  v1::ScheduleBatchRequest request;
  for (const NewMessage& message : messages) *request.add_messages() = ToProto(message);
  return ScheduleBatch(std::move(request), repeat);
}

absl::StatusOr<std::vector<absl::StatusOr<v1::ScheduleResponse>>> Client::ScheduleBatch(
    v1::ScheduleBatchRequest request, Repeat repeat) {
  if (repeat == Repeat::kSafely) {
    RandomId ids;
    for (v1::ScheduleRequest& item : *request.mutable_messages()) NameRequest(&ids, &item);
  }
  auto response = impl_->caller().Call(impl_->messages(), &v1::Messages::Stub::ScheduleBatch,
                                       request, nullptr, absl::ZeroDuration(), MayRepeat(repeat));
  if (!response.ok()) return response.status();
  if (response->results_size() != request.messages_size()) return WrongResultCount();
  std::vector<absl::StatusOr<v1::ScheduleResponse>> results;
  results.reserve(static_cast<size_t>(response->results_size()));
  for (v1::ScheduleResult& result : *response->mutable_results()) {
    results.push_back(FromProto(std::move(result)));
  }
  return results;
}

absl::StatusOr<CancelResult> Client::Cancel(const Target& target, bool stop_redelivery) {
  v1::CancelRequest request;
  target.FillIn(&request);
  request.set_stop_redelivery(stop_redelivery);
  int tries = 0;
  auto answer = impl_->caller().Call(impl_->gatherer(), &Gatherer::Cancel, request, &tries);
  if (!answer.ok()) return answer.status();
  return CancelResult{.answer = *std::move(answer), .tried_before = tries > 1};
}

absl::StatusOr<std::vector<absl::StatusOr<CancelResult>>> Client::CancelBatch(
    absl::Span<const Target> targets, bool stop_redelivery) {
  v1::CancelBatchRequest request;
  for (const Target& target : targets) {
    v1::CancelRequest* item = request.add_cancels();
    target.FillIn(item);
    item->set_stop_redelivery(stop_redelivery);
  }
  int tries = 0;
  auto response =
      impl_->caller().Call(impl_->messages(), &v1::Messages::Stub::CancelBatch, request, &tries);
  if (!response.ok()) return response.status();
  if (static_cast<size_t>(response->results_size()) != targets.size()) return WrongResultCount();
  std::vector<absl::StatusOr<CancelResult>> results;
  results.reserve(targets.size());
  for (v1::CancelResult& result : *response->mutable_results()) {
    if (result.has_cancel()) {
      results.emplace_back(
          CancelResult{.answer = std::move(*result.mutable_cancel()), .tried_before = tries > 1});
    } else {
      results.emplace_back(ItemError(result.error()));
    }
  }
  return results;
}

absl::StatusOr<v1::RescheduleResponse> Client::Reschedule(const Target& target, const When& when,
                                                          absl::string_view etag) {
  v1::RescheduleRequest request;
  target.FillIn(&request);
  SetWhen(when, &request);
  request.set_etag(std::string(etag));
  return Reschedule(request);
}

absl::StatusOr<v1::RescheduleResponse> Client::Reschedule(const v1::RescheduleRequest& request) {
  return impl_->caller().Call(impl_->gatherer(), &Gatherer::Reschedule, request);
}

absl::StatusOr<v1::GetResponse> Client::Get(const Target& target, View view) {
  v1::GetRequest request;
  target.FillIn(&request);
  request.set_view(view == View::kFull ? v1::MESSAGE_VIEW_FULL : v1::MESSAGE_VIEW_BASIC);
  return Get(request);
}

absl::StatusOr<v1::GetResponse> Client::Get(const v1::GetRequest& request) {
  return impl_->caller().Call(impl_->gatherer(), &Gatherer::Get, request);
}

absl::StatusOr<v1::ExplainResponse> Client::Explain(const Target& target) {
  v1::ExplainRequest request;
  target.FillIn(&request);
  return Explain(request);
}

absl::StatusOr<v1::ExplainResponse> Client::Explain(const v1::ExplainRequest& request) {
  return impl_->caller().Call(impl_->messages(), &v1::Messages::Stub::Explain, request);
}

absl::StatusOr<v1::ListResponse> Client::List(const v1::ListRequest& request) {
  return impl_->caller().Call(impl_->messages(), &v1::Messages::Stub::List, request);
}

absl::StatusOr<v1::PullResponse> Client::Pull(const v1::PullRequest& request) {
  const absl::Duration wait = std::max(FromProto(request.wait()), absl::ZeroDuration());
  v1::Messages::Stub* const stub =
      wait > absl::ZeroDuration() ? impl_->waiting_pulls() : impl_->messages();
  return impl_->caller().Call(stub, &v1::Messages::Stub::Pull, request, nullptr, wait);
}

absl::StatusOr<SettleResult> Client::Settle(const v1::SettleRequest& request) {
  int tries = 0;
  auto answer =
      impl_->caller().Call(impl_->messages(), &v1::Messages::Stub::Settle, request, &tries);
  if (!answer.ok()) return answer.status();
  return SettleResult{.answer = *std::move(answer), .tried_before = tries > 1};
}

absl::StatusOr<v1::ServerInfoResponse> Client::ServerInfo() {
  return impl_->caller().Call(impl_->admin(), &v1::Admin::Stub::ServerInfo,
                              v1::ServerInfoRequest());
}

}  // namespace duetime::client
