// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/subscriber_fan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "server/api/messages/settle_routing.h"
#include "server/api/proto_time.h"
#include "server/api/request_validation.h"
#include "server/api/subscriptions/subscription_settings.h"
#include "server/api/validation_error.h"
#include "server/base/error.h"
#include "server/gateway/lease_handlers.h"
#include "server/rpc/client_credentials.h"
#include "server/rpc/cq_worker.h"
#include "server/rpc/grpc_status.h"

namespace duetime::gateway {
namespace {

// An error after which the stream to the cell is opened again.
bool Passes(const absl::Status& status) {
  return status.ok() || absl::IsUnavailable(status) || absl::IsCancelled(status);
}

}  // namespace

SubscriberFan::SubscriberFan(GatewayWorker* worker, rpc::CqWorker* shell)
    : rpc::BidiStream(shell), worker_(worker) {}

void SubscriberFan::OnOpened() {
  GatewayContext& context = worker_->context();
  absl::Status status = context.Admit(/*begins_work=*/true);
  if (status.ok()) status = Count(&context.streams, context.streams_max);
  if (!status.ok()) return Fail(status);
  opened_mono_ms_ = last_write_mono_ms_ = context.clock->Read().mono_ms;
  StartRead();
}

void SubscriberFan::OnServingState() {
  if (ended()) return;
  if (worker().ending()) return Fail(base::DrainingError());
  if (worker_->context().state.load() != rpc::ServingState::kDraining || !start_.has_value() ||
      std::exchange(drain_sent_, true)) {
    return;
  }
  api::SetDuration(worker_->context().drain_grace_ms, unsent_.mutable_drain()->mutable_grace());
  has_unsent_ = true;
  Pump();
}

void SubscriberFan::OnMessage(grpc::ByteBuffer* buffer) {
  if (absl::Status status = HandleRequest(buffer); !status.ok()) return Fail(status);
  ReadClient();
}

absl::Status SubscriberFan::HandleRequest(grpc::ByteBuffer* buffer) {
  v1::SubscribeRequest request;
  absl::Status status = api::ParseSettles(worker_->context().limits, buffer, &request);
  if (!status.ok()) return status;
  if (start_.has_value() && request.has_start()) {
    return api::InvalidSubscribeError("start", "allowed in the first request only");
  }
  if (!start_.has_value()) {
    if (!request.has_start()) {
      return api::InvalidSubscribeError("start", "required in the first request");
    }
    if (status = Start(request.start()); !status.ok()) return status;
    request.clear_start();
  }
  Settle(&request);
  Pump();
  return absl::OkStatus();
}

absl::Status SubscriberFan::Start(const v1::SubscribeStart& start) {
  api::ValidStart valid;
  absl::Status status = api::ValidateStart(start, worker_->context().limits, &valid);
  if (!status.ok()) return status;
  start_ = start;
  start_->set_max_outstanding_messages(valid.max_outstanding_messages);
  start_->set_max_outstanding_bytes(valid.max_outstanding_bytes);
  share_ = *start_;
  const auto cells = static_cast<int32_t>(worker_->map().size());
  if (start_->max_outstanding_messages() < cells) {
    return api::Invalid(
        "INVALID_SUBSCRIBE", "max_outstanding_messages",
        absl::StrCat("at least ", cells, ", because each of the gateway's cells needs one"),
        {{"min", absl::StrCat(cells)}});
  }
  share_.set_max_outstanding_bytes(std::max<int64_t>(start_->max_outstanding_bytes() / cells, 1));
  members_.resize(worker_->map().size());
  Show();
  for (size_t cell = 0; cell < members_.size() && !ended(); ++cell) Open(cell);
  return absl::OkStatus();
}

void SubscriberFan::Show() {
  shown_ = std::make_shared<rpc::OpenStream>();
  shown_->topic = start_->topic();
  shown_->subscription = start_->subscription().empty() ? std::string(api::kDefaultSubscription)
                                                        : start_->subscription();
  shown_->client_id = start_->client_id();
  shown_->peer = rpc::PeerAddress(*server_context());
  shown_->messages_max = start_->max_outstanding_messages();
  shown_->bytes_max = start_->max_outstanding_bytes();
  shown_->start_ms = worker_->context().clock->Read().wall_ms;
  shown_->in_flight = [in_flight = in_flight_] { return in_flight->load(); };
  shown_->worker = &worker();
  shown_->end = [this] { Fail(base::StreamEndedError()); };
  worker_->context().open_streams.Add(shown_);
}

void SubscriberFan::AddInFlight(int64_t messages, Member* member) {
  // A settlement may be of a lease that ended with an earlier stream.
  messages = std::max(messages, -member->in_flight);
  member->in_flight += messages;
  in_flight_->fetch_add(messages);
}

void SubscriberFan::Open(size_t cell) {
  Passed passed = PassedOf(*worker_, *server_context());
  // The first cells get what does not divide.
  const auto cells = static_cast<int32_t>(members_.size());
  const int32_t messages = start_->max_outstanding_messages();
  share_.set_max_outstanding_messages(messages / cells +
                                      (static_cast<int32_t>(cell) < messages % cells ? 1 : 0));
  members_[cell].stream =
      std::make_unique<CellStream>(this, worker_, cell, std::move(passed), share_);
  members_[cell].unread = true;
  if (no_more_) {
    v1::SubscribeRequest request;
    request.set_no_more_deliveries(true);
    members_[cell].stream->Send(request);
  }
  ReadCells();
}

void SubscriberFan::Settle(v1::SubscribeRequest* request) {
  no_more_ = no_more_ || request->no_more_deliveries();
  auto split = Split(worker_->map(), request);
  for (const std::string& token : split.lost) Lose(token);
  for (size_t cell = 0; cell < members_.size(); ++cell) {
    Member& member = members_[cell];
    v1::SubscribeRequest& part = split.parts[cell];
    part.set_no_more_deliveries(request->no_more_deliveries());
    if (part.ByteSizeLong() == 0) continue;
    AddOpen(part, &member);
    if (member.stream != nullptr) {
      member.stream->Send(part);
    } else {
      // The leases have ended with the stream.
      LoseOpen(cell);
    }
  }
}

void SubscriberFan::AddOpen(const v1::SubscribeRequest& request, Member* member) {
  const auto add = [member](const std::string& token) {
    ++member->open[token];
    ++member->open_count;
  };
  for (const std::string& token : request.begun()) add(token);
  for (const auto& settlement : request.settlements()) add(settlement.lease_token());
}

void SubscriberFan::LoseOpen(size_t cell) {
  Member& member = members_[cell];
  member.open_count = 0;
  for (const auto& [token, count] : std::exchange(member.open, {})) {
    const std::string tagged = worker_->map().Tag(cell, token);
    for (size_t i = given_back_.erase(tagged); i < count; ++i) Lose(tagged);
  }
}

void SubscriberFan::Lose(const std::string& token) {
  v1::SettleRefusal* const refused = unsent_.add_refused();
  refused->set_lease_token(token);
  refused->set_reason(v1::SettleRefusal::REASON_LEASE_LOST);
  AddUnsent(token.size());
}

void SubscriberFan::OnResponse(size_t cell, v1::SubscribeResponse* response) {
  if (ended()) return;
  members_[cell].unread = true;
  members_[cell].started = true;
  if (response->has_started() && !std::exchange(started_sent_, true)) {
    v1::SubscribeStarted* const started = unsent_.mutable_started();
    started->set_max_outstanding_messages(start_->max_outstanding_messages());
    started->set_max_outstanding_bytes(start_->max_outstanding_bytes());
    *started->mutable_lease_duration() = response->started().lease_duration();
    has_unsent_ = true;
  }
  TakeAnswers(cell, response);
  TakeDeliveries(cell, response);
  Pump();
  if (ended()) return;
  ReadCells();
  ReadClient();
}

void SubscriberFan::AddUnsent(size_t bytes) {
  // Beside the text, about what a field costs in memory.
  constexpr size_t kFieldBytes = 64;
  unsent_bytes_ += bytes + kFieldBytes;
  has_unsent_ = true;
}

void SubscriberFan::TakeAnswers(size_t cell, v1::SubscribeResponse* response) {
  Member& member = members_[cell];
  // True if the client waits for this answer.
  const auto is_for_client = [&](const std::string& tagged) {
    const auto located = worker_->map().Locate(tagged);
    if (!located.ok()) return false;
    if (const auto it = member.open.find(located->text); it != member.open.end()) {
      --member.open_count;
      if (--it->second == 0) member.open.erase(it);
    }
    if (!given_back_.empty() && given_back_.erase(tagged) > 0) return false;
    AddUnsent(tagged.size());
    return true;
  };
  for (std::string& token : *response->mutable_settled()) {
    if (!is_for_client(token)) continue;
    AddInFlight(-1, &member);
    unsent_.add_settled(std::move(token));
  }
  if (unsent_.settled_size() > 0) {
    shown_->settled_ms.store(worker_->context().clock->Read().wall_ms);
  }
  for (std::string& token : *response->mutable_extended()) {
    if (is_for_client(token)) unsent_.add_extended(std::move(token));
  }
  for (std::string& token : *response->mutable_begun()) {
    if (is_for_client(token)) unsent_.add_begun(std::move(token));
  }
  for (v1::SettleRefusal& refused : *response->mutable_refused()) {
    if (!is_for_client(refused.lease_token())) continue;
    if (refused.reason() == v1::SettleRefusal::REASON_LEASE_LOST) AddInFlight(-1, &member);
    unsent_.add_refused()->Swap(&refused);
  }
}

void SubscriberFan::TakeDeliveries(size_t cell, v1::SubscribeResponse* response) {
  v1::SubscribeRequest back;
  const int64_t max = start_->max_deliveries();
  for (v1::Delivery& delivery : *response->mutable_deliveries()) {
    if (max > 0 && delivered_ >= max) {
      const auto located = worker_->map().Locate(delivery.lease_token());
      if (!located.ok()) continue;
      given_back_.insert(delivery.lease_token());
      AddRelease(located->text, &back);
      continue;
    }
    ++delivered_;
    AddInFlight(1, &members_[cell]);
    AddUnsent(delivery.ByteSizeLong());
    unsent_.add_deliveries()->Swap(&delivery);
  }
  if (back.settlements_size() > 0) {
    AddOpen(back, &members_[cell]);
    members_[cell].stream->Send(back);
  }
  if (max > 0 && delivered_ >= max && !std::exchange(no_more_, true)) {
    v1::SubscribeRequest stop;
    stop.set_no_more_deliveries(true);
    for (const Member& member : members_) {
      if (member.stream != nullptr) member.stream->Send(stop);
    }
  }
}

void SubscriberFan::OnStreamEnd(size_t cell, const absl::Status& status) {
  Member& member = members_[cell];
  member.stream.reset();
  member.unread = false;
  member.started = false;
  AddInFlight(-member.in_flight, &member);
  if (ended()) return;
  LoseOpen(cell);
  if (!Passes(status)) return Fail(status);
  if (closing_) return EndIfAllEnded();
  Pump();
}

void SubscriberFan::OnReadsDone() {
  if (ended()) return;
  closing_ = true;
  close_by_mono_ms_ = worker_->context().clock->Read().mono_ms + kClosingTimeoutMs;
  for (size_t cell = 0; cell < members_.size(); ++cell) {
    Member& member = members_[cell];
    if (member.started && member.stream != nullptr) {
      member.stream->HalfClose();
    } else {
      // Its cell is away.
      member.stream.reset();
      LoseOpen(cell);
    }
  }
  Pump();
  EndIfAllEnded();
}

void SubscriberFan::EndIfAllEnded() {
  const bool all = std::all_of(members_.begin(), members_.end(),
                               [](const Member& member) { return member.stream == nullptr; });
  if (!all || ended() || writing()) return;
  if (has_unsent_) return Pump();
  End(grpc::Status::OK);
}

void SubscriberFan::OnWritten() {
  Pump();
  if (closing_) EndIfAllEnded();
  if (ended()) return;
  ReadCells();
  ReadClient();
}

void SubscriberFan::OnEnded() {
  worker_->context().open_streams.Remove(shown_);
  members_.clear();
}

void SubscriberFan::OnSweep(base::Now now) {
  if (!start_.has_value()) {
    if (now.mono_ms - opened_mono_ms_ >= kStartTimeoutMs) {
      Fail(api::InvalidSubscribeError("start", "no request within 10 s"));
    }
    return;
  }
  if (closing_) {
    if (now.mono_ms >= close_by_mono_ms_) End(grpc::Status::OK);
    return;
  }
  if (!started_sent_ && now.mono_ms - opened_mono_ms_ >= kStartTimeoutMs) {
    std::vector<std::string> names;
    for (size_t i = 0; i < members_.size(); ++i) names.push_back(worker_->map().cell(i).name);
    return Fail(CellUnavailableError(absl::StrJoin(names, ","), /*reads=*/false));
  }
  for (size_t cell = 0; cell < members_.size(); ++cell) {
    if (members_[cell].stream == nullptr) Open(cell);
  }
  if (now.mono_ms - last_write_mono_ms_ >= worker_->context().heartbeat_ms && !has_unsent_) {
    api::SetTimestamp(now.wall_ms, unsent_.mutable_heartbeat()->mutable_server_time());
    has_unsent_ = true;
    Pump();
  }
}

size_t SubscriberFan::settles_open() const {
  size_t open = 0;
  for (const Member& member : members_) open += member.open_count;
  return open;
}

void SubscriberFan::ReadClient() {
  if (ended() || reading() || closing_) return;
  if (settles_open() < kSettlesOpenMax && unsent_bytes_ < kUnsentBytesMax) StartRead();
}

void SubscriberFan::ReadCells() {
  if (unsent_bytes_ >= kUnsentBytesMax) return;
  for (Member& member : members_) {
    if (member.stream != nullptr && std::exchange(member.unread, false)) member.stream->ReadOn();
  }
}

void SubscriberFan::Pump() {
  if (ended() || writing() || !has_unsent_) return;
  // The client learns first that the stream is open.
  if (!started_sent_) return;
  has_unsent_ = false;
  unsent_bytes_ = 0;
  last_write_mono_ms_ = worker_->context().clock->Read().mono_ms;
  StartWrite(unsent_);
  unsent_.Clear();
}

void SubscriberFan::Fail(const absl::Status& status) {
  if (!ended()) End(rpc::ToGrpcStatus(status));
}

}  // namespace duetime::gateway
