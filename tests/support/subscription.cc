// SPDX-License-Identifier: Apache-2.0
#include "tests/support/subscription.h"

#include <utility>

#include "tests/support/settlements.h"

namespace duetime::test {
namespace {

void SetMillis(Millis time, google::protobuf::Duration* duration) {
  duration->set_seconds(time.count() / 1000);
  duration->set_nanos(static_cast<int32_t>(time.count() % 1000 * 1'000'000));
}

v1::SubscribeRequest Opening(const Subscription::Start& start) {
  v1::SubscribeRequest request;
  request.mutable_start()->set_topic(start.topic);
  request.mutable_start()->set_client_id("test");
  request.mutable_start()->set_max_outstanding_messages(start.messages);
  request.mutable_start()->set_max_outstanding_bytes(start.bytes);
  request.mutable_start()->set_reports_begun(start.reports_begun);
  if (start.lease != Millis(0)) {
    SetMillis(start.lease, request.mutable_start()->mutable_lease_duration());
  }
  return request;
}

}  // namespace

Subscription::Subscription(const std::shared_ptr<grpc::Channel>& channel, const Start& start)
    : Subscription(channel, Opening(start)) {}

Subscription::Subscription(const std::shared_ptr<grpc::Channel>& channel,
                           const v1::SubscribeRequest& first)
    : stub_(v1::Messages::NewStub(channel)) {
  context_.set_wait_for_ready(true);
  stream_ = stub_->Subscribe(&context_);
  stream_->Write(first);
  reader_ = std::thread([this] { Read(); });
}

Subscription::~Subscription() {
  context_.TryCancel();
  reader_.join();
}

void Subscription::Read() {
  v1::SubscribeResponse response;
  while (stream_->Read(&response)) {
    const auto now = std::chrono::system_clock::now();
    const std::lock_guard lock(mutex_);
    ++frames_;
    if (response.has_started()) started_ = response.started();
    if (response.has_drain()) drain_ = response.drain();
    if (response.has_heartbeat()) ++heartbeats_;
    for (v1::Delivery& delivery : *response.mutable_deliveries()) {
      deliveries_.push_back({std::move(delivery), now});
    }
    for (const std::string& token : response.settled()) answers_[token] = SettleAnswer::kSettled;
    for (const std::string& token : response.extended()) answers_[token] = SettleAnswer::kExtended;
    for (const v1::SettleRefusal& refusal : response.refused()) {
      answers_[refusal.lease_token()] = refusal.reason() == v1::SettleRefusal::REASON_LEASE_LOST
                                            ? SettleAnswer::kLeaseLost
                                            : SettleAnswer::kOutOfRange;
    }
    changed_.notify_all();
  }
  const grpc::Status status = stream_->Finish();
  const std::lock_guard lock(mutex_);
  ended_ = true;
  status_ = status;
  changed_.notify_all();
}

bool Subscription::WaitStarted(Millis timeout) {
  std::unique_lock lock(mutex_);
  WaitFor(&lock, timeout, [this] { return started_.has_value() || ended_; });
  return started_.has_value();
}

v1::SubscribeStarted Subscription::started() const {
  const std::lock_guard lock(mutex_);
  return started_.value_or(v1::SubscribeStarted());
}

std::optional<Received> Subscription::Next(Millis timeout) {
  std::unique_lock lock(mutex_);
  WaitFor(&lock, timeout, [this] { return !deliveries_.empty() || ended_; });
  if (deliveries_.empty()) return std::nullopt;
  Received next = std::move(deliveries_.front());
  deliveries_.pop_front();
  return next;
}

size_t Subscription::waiting() const {
  const std::lock_guard lock(mutex_);
  return deliveries_.size();
}

size_t Subscription::frames() const {
  const std::lock_guard lock(mutex_);
  return frames_;
}

bool Subscription::Send(const v1::SubscribeRequest& request) { return stream_->Write(request); }

bool Subscription::Ack(const v1::Delivery& delivery) {
  v1::SubscribeRequest request;
  request.add_settlements()->set_lease_token(delivery.lease_token());
  return Send(request);
}

bool Subscription::Nack(const v1::Delivery& delivery, Millis delay) {
  v1::SubscribeRequest request;
  v1::Settlement* const settlement = test::AddSettlement(delivery.lease_token(), &request);
  SetMillis(delay, settlement->mutable_nack()->mutable_delay());
  return Send(request);
}

bool Subscription::Extend(const v1::Delivery& delivery, Millis duration) {
  v1::SubscribeRequest request;
  v1::Settlement* const settlement = test::AddSettlement(delivery.lease_token(), &request);
  SetMillis(duration, settlement->mutable_extend()->mutable_duration());
  return Send(request);
}

SettleAnswer Subscription::Answer(const std::string& lease_token, Millis timeout) {
  std::unique_lock lock(mutex_);
  WaitFor(&lock, timeout, [&] { return answers_.count(lease_token) > 0 || ended_; });
  const auto answer = answers_.find(lease_token);
  if (answer == answers_.end()) return SettleAnswer::kNone;
  const SettleAnswer said = answer->second;
  answers_.erase(answer);
  return said;
}

SettleAnswer Subscription::AckAndWait(const v1::Delivery& delivery) {
  return Ack(delivery) ? Answer(delivery.lease_token()) : SettleAnswer::kNone;
}

std::optional<v1::DrainNotice> Subscription::WaitDrain(Millis timeout) {
  std::unique_lock lock(mutex_);
  WaitFor(&lock, timeout, [this] { return drain_.has_value() || ended_; });
  return drain_;
}

bool Subscription::WaitHeartbeat(Millis timeout) {
  std::unique_lock lock(mutex_);
  const size_t before = heartbeats_;
  WaitFor(&lock, timeout, [&] { return heartbeats_ > before || ended_; });
  return heartbeats_ > before;
}

std::optional<grpc::Status> Subscription::WaitEnd(Millis timeout) {
  std::unique_lock lock(mutex_);
  if (!WaitFor(&lock, timeout, [this] { return ended_; })) return std::nullopt;
  return status_;
}

}  // namespace duetime::test
