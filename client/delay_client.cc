// SPDX-License-Identifier: Apache-2.0
#include "client/delay_client.h"

#include <algorithm>
#include <chrono>
#include <grpcpp/grpcpp.h>
#include <random>
#include <thread>
#include <utility>

#include "client/convert.h"
#include "client/error.h"
#include "duetime/v1/admin.grpc.pb.h"
#include "duetime/v1/messages.grpc.pb.h"

namespace duetime::client {
namespace {

void FillRequest(const NewMessage& message, v1::ScheduleRequest* request) {
  request->set_topic(message.topic);
  request->set_payload(message.payload);
  request->mutable_attributes()->insert(message.attributes.begin(), message.attributes.end());
  if (const auto* delay = std::get_if<absl::Duration>(&message.when)) {
    *request->mutable_delay() = ToProto(*delay);
  } else {
    *request->mutable_deliver_time() = ToProto(std::get<absl::Time>(message.when));
  }
}

Message FromProto(const v1::Message& proto) {
  Message message;
  message.id = proto.id();
  message.topic = proto.topic();
  message.payload = proto.payload();
  message.attributes.insert(proto.attributes().begin(), proto.attributes().end());
  message.deliver_time = client::FromProto(proto.deliver_time());
  message.accept_time = client::FromProto(proto.accept_time());
  message.state = proto.state();
  message.attempts = proto.attempts();
  message.payload_bytes = proto.payload_bytes();
  return message;
}

// A steady clock underneath: a step of the wall clock does not move a call's deadline.
using SteadyTime = std::chrono::steady_clock::time_point;

// "For ever", far from where the clocks' arithmetic overflows.
constexpr absl::Duration kDeadlineMax = absl::Hours(24 * 365);

absl::Duration Until(SteadyTime time) {
  return absl::FromChrono(time - std::chrono::steady_clock::now());
}

}  // namespace

class Client::Impl {
 public:
  Impl(const ClientOptions& options, const std::shared_ptr<grpc::Channel>& channel)
      : options_(options),
        messages_(v1::Messages::NewStub(channel)),
        admin_(v1::Admin::NewStub(channel)) {}

  // Runs `call(context)` until it is answered, may not be tried again, or time is up. `tries` tells
  // how often it ran.
  template <typename Call>
  absl::Status Run(bool may_repeat, const Call& call, int* tries) {
    const SteadyTime deadline =
        std::chrono::steady_clock::now() +
        absl::ToChronoNanoseconds(std::min(options_.deadline, kDeadlineMax));
    Backoff backoff(options_.backoff, std::random_device{}());
    // gRPC would answer this one or the other way, as its timer and the connection happen to race.
    if (options_.deadline <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError("the deadline of the call is not in the future");
    }
    for (*tries = 1;; ++*tries) {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() +
                           absl::ToChronoMicroseconds(Until(deadline)));
      absl::Status status = ToAbslStatus(call(&context));
      if (!absl::IsUnavailable(status) || !may_repeat || *tries >= options_.attempts_max) {
        return status;
      }
      const absl::Duration wait =
          backoff.Next(GetErrorInfo(status).retry_delay.value_or(absl::ZeroDuration()));
      if (wait >= Until(deadline)) return status;
      std::this_thread::sleep_for(absl::ToChronoNanoseconds(wait));
    }
  }

  v1::Messages::Stub* messages() { return messages_.get(); }
  v1::Admin::Stub* admin() { return admin_.get(); }

 private:
  const ClientOptions options_;
  const std::unique_ptr<v1::Messages::Stub> messages_;
  const std::unique_ptr<v1::Admin::Stub> admin_;
};

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

absl::StatusOr<std::unique_ptr<Client>> Client::Create(const ClientOptions& options) {
  auto channel = OpenChannel(options.server);
  if (!channel.ok()) return channel.status();
  return std::unique_ptr<Client>(new Client(std::make_unique<Impl>(options, *channel)));
}

absl::StatusOr<Message> Client::Schedule(const NewMessage& message, Repeat repeat) {
  v1::ScheduleRequest request;
  v1::ScheduleResponse response;
  FillRequest(message, &request);
  int tries = 0;
  const absl::Status status = impl_->Run(
      repeat == Repeat::kAllowDuplicates,
      [&](grpc::ClientContext* context) {
        return impl_->messages()->Schedule(context, request, &response);
      },
      &tries);
  if (!status.ok()) return status;
  return FromProto(response.message());
}

absl::StatusOr<std::vector<absl::StatusOr<Message>>> Client::ScheduleBatch(
    absl::Span<const NewMessage> messages, Repeat repeat) {
  v1::ScheduleBatchRequest request;
  v1::ScheduleBatchResponse response;
  for (const NewMessage& message : messages) FillRequest(message, request.add_messages());
  int tries = 0;
  const absl::Status status = impl_->Run(
      repeat == Repeat::kAllowDuplicates,
      [&](grpc::ClientContext* context) {
        return impl_->messages()->ScheduleBatch(context, request, &response);
      },
      &tries);
  if (!status.ok()) return status;
  if (static_cast<size_t>(response.results_size()) != messages.size()) {
    return absl::InternalError("the server answered a batch with another number of results");
  }
  std::vector<absl::StatusOr<Message>> results;
  results.reserve(messages.size());
  for (const v1::ScheduleResult& result : response.results()) {
    absl::Status error = ToAbslStatus(result.error());
    if (!result.has_message() && error.ok()) error = absl::InternalError("an empty result");
    if (error.ok()) {
      results.emplace_back(FromProto(result.message()));
    } else {
      results.emplace_back(std::move(error));
    }
  }
  return results;
}

absl::StatusOr<CancelResult> Client::Cancel(absl::string_view message_id, bool stop_redelivery) {
  v1::CancelRequest request;
  v1::CancelResponse response;
  request.set_message_id(std::string(message_id));
  request.set_stop_redelivery(stop_redelivery);
  int tries = 0;
  const absl::Status status = impl_->Run(
      /*may_repeat=*/true,
      [&](grpc::ClientContext* context) {
        return impl_->messages()->Cancel(context, request, &response);
      },
      &tries);
  if (!status.ok()) return status;
  return CancelResult{.outcome = response.outcome(),
                      .state = response.state(),
                      .redelivery_stopped = response.redelivery_stopped(),
                      .delivery_uncertain = response.delivery_uncertain(),
                      .tried_before = tries > 1};
}

absl::StatusOr<Message> Client::Get(absl::string_view message_id, View view) {
  v1::GetRequest request;
  v1::GetResponse response;
  request.set_message_id(std::string(message_id));
  request.set_view(view == View::kFull ? v1::FULL : v1::BASIC);
  int tries = 0;
  const absl::Status status = impl_->Run(
      /*may_repeat=*/true,
      [&](grpc::ClientContext* context) {
        return impl_->messages()->Get(context, request, &response);
      },
      &tries);
  if (!status.ok()) return status;
  return FromProto(response.message());
}

absl::StatusOr<v1::ServerInfoResponse> Client::ServerInfo() {
  v1::ServerInfoResponse response;
  int tries = 0;
  const absl::Status status = impl_->Run(
      /*may_repeat=*/true,
      [&](grpc::ClientContext* context) {
        return impl_->admin()->ServerInfo(context, v1::ServerInfoRequest(), &response);
      },
      &tries);
  if (!status.ok()) return status;
  return response;
}

}  // namespace duetime::client
