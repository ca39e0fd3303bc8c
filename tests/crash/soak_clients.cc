// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/soak_clients.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "client/cpp/channel.h"
#include "tests/crash/call_outcome.h"
#include "tests/support/settlements.h"

namespace duetime::crash {
namespace {

using std::chrono::milliseconds;
using test::Event;
using test::Outcome;
using test::What;

constexpr milliseconds kCallTimeout(10'000);
// The daemon is dead, full or ending.
constexpr milliseconds kPauseAfterError(50);
constexpr size_t kRecentMax = 300;
// Long enough that a loaded machine settles in time, short enough that leases end often.
constexpr int kLeaseSeconds = 2;

void SetMillis(int64_t ms, google::protobuf::Duration* duration) {
  duration->set_seconds(ms / 1'000);
  duration->set_nanos(static_cast<int32_t>(ms % 1'000 * 1'000'000));
}

bool Chance(std::mt19937_64* random, uint64_t percent) { return (*random)() % 100 < percent; }

}  // namespace

int64_t ToMillis(const google::protobuf::Timestamp& time) {
  return time.seconds() * 1'000 + time.nanos() / 1'000'000;
}

SoakWorld::SoakWorld(test::HistoryWriter* history, int64_t delay_max_ms)
    : history_(*history),
      delay_max_ms_(delay_max_ms),
      topics_(std::begin(kSteadyTopics), std::end(kSteadyTopics)) {}

void SoakWorld::OpenTopic(const std::string& topic) {
  const std::lock_guard lock(mutex_);
  topics_.push_back(topic);
}

void SoakWorld::CloseTopic(const std::string& topic) {
  const std::lock_guard lock(mutex_);
  std::erase(topics_, topic);
}

std::string SoakWorld::PickTopic(std::mt19937_64* random) const {
  const std::lock_guard lock(mutex_);
  return topics_[(*random)() % topics_.size()];
}

void SoakWorld::Accepted(uint32_t message, const std::string& topic, const std::string& id) {
  if (!topic.starts_with("steady/")) return;
  const std::lock_guard lock(mutex_);
  if (recent_.size() < kRecentMax) {
    recent_.emplace_back(message, id);
  } else {
    recent_[recent_next_++ % kRecentMax] = {message, id};
  }
}

std::optional<std::pair<uint32_t, std::string>> SoakWorld::PickRecent(
    std::mt19937_64* random) const {
  const std::lock_guard lock(mutex_);
  if (recent_.empty()) return std::nullopt;
  return recent_[(*random)() % recent_.size()];
}

void SoakClient::Start() {
  thread_ = std::thread([this] {
    client::ServerAddress address;
    address.target = target_;
    const auto stub = v1::Messages::NewStub(*client::OpenChannel(address));
    while (!stopping_) {
      grpc::ClientContext context;
      {
        const std::lock_guard lock(mutex_);
        if (stopping_) return;
        context_ = &context;
      }
      const milliseconds pause = Step(stub.get(), &context);
      {
        const std::lock_guard lock(mutex_);
        context_ = nullptr;
      }
      std::this_thread::sleep_for(pause);
    }
  });
}

void SoakClient::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (context_ != nullptr) context_->TryCancel();
  }
  if (thread_.joinable()) thread_.join();
}

SoakProducer::SoakProducer(const Where& where, uint64_t seed, SoakWorld* world)
    : SoakClient(where.target), where_(where), world_(*world), random_(seed) {
  Start();
}

uint32_t SoakProducer::AddMessage(v1::ScheduleBatchRequest* batch) {
  const uint32_t number = world_.history().NewMessage();
  Event event = {.message = number, .client = where_.client, .what = What::kSchedule};
  v1::ScheduleRequest* const request = batch->add_messages();
  request->set_topic(world_.PickTopic(&random_));
  request->set_payload(std::to_string(number) + " " + std::string(random_() % 300, 'x'));
  // Often so short that the message comes due while its commit is in flight.
  const uint64_t kind = random_() % 10;
  const int64_t max_ms = kind < 6 ? 300 : kind < 9 ? 3'000 : world_.delay_max_ms();
  const auto delay_ms = static_cast<int64_t>(random_()) & 0x7fffffff;
  event.time_ms = delay_ms % std::min(max_ms, world_.delay_max_ms());
  if (Chance(&random_, 10)) {
    // A step of the clock back moves the place of a message whose time is past, so its order is not
    // judged.
    event.flags = test::kAbsoluteTime;
    event.time_ms += world_.history().NowNanos() / 1'000'000 + world_.clock_offset_ms - 100;
    request->mutable_deliver_time()->set_seconds(event.time_ms / 1'000);
    request->mutable_deliver_time()->set_nanos(
        static_cast<int32_t>(event.time_ms % 1'000 * 1'000'000));
  } else {
    SetMillis(event.time_ms, request->mutable_delay());
    if (Chance(&random_, 10)) {
      request->set_ordering_key(request->topic() + std::to_string(random_() % 50));
      event.token = test::Fingerprint(request->ordering_key());
    }
  }
  world_.history().Add(event);
  return number;
}

milliseconds SoakProducer::Step(v1::Messages::Stub* stub, grpc::ClientContext* context) {
  const int count = Chance(&random_, 50) ? 1 : 1 + static_cast<int>(random_() % 20);
  const auto begun = std::chrono::steady_clock::now();
  v1::ScheduleBatchRequest batch;
  std::vector<uint32_t> numbers;
  for (int i = 0; i < count; ++i) numbers.push_back(AddMessage(&batch));
  context->set_deadline(std::chrono::system_clock::now() + kCallTimeout);
  v1::ScheduleBatchResponse response;
  grpc::Status status;
  if (count == 1) {
    v1::ScheduleResponse single;
    status = stub->Schedule(context, batch.messages(0), &single);
    *response.add_results()->mutable_message() = single.message();
  } else {
    status = stub->ScheduleBatch(context, batch, &response);
  }
  for (int i = 0; i < count; ++i) {
    Event event = {.message = numbers[static_cast<size_t>(i)],
                   .run = static_cast<uint32_t>(where_.run),
                   .client = where_.client,
                   .what = What::kSchedule,
                   .outcome = OutcomeOf(status)};
    if (status.ok() && response.results(i).has_message()) {
      const v1::Message& message = response.results(i).message();
      event.id = test::Fingerprint(message.id());
      event.time_ms = ToMillis(message.deliver_time());
    } else if (status.ok()) {
      event.outcome = OutcomeOf(grpc::Status(
          static_cast<grpc::StatusCode>(response.results(i).error().code()), std::string()));
    }
    world_.history().Add(event);
    // Only now, so that no cancel begins before the history has this answer.
    if (event.outcome == Outcome::kOk) {
      world_.Accepted(event.message, batch.messages(i).topic(), response.results(i).message().id());
    }
  }
  if (!status.ok()) return kPauseAfterError;
  const auto spent =
      std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begun);
  return std::max(milliseconds(count * 1'000 / where_.messages_per_second) - spent,
                  milliseconds(0));
}

SoakCanceller::SoakCanceller(const SoakProducer::Where& where, uint64_t seed, SoakWorld* world)
    : SoakClient(where.target), where_(where), world_(*world), random_(seed) {
  Start();
}

milliseconds SoakCanceller::Step(v1::Messages::Stub* stub, grpc::ClientContext* context) {
  const milliseconds pause(1'000 / where_.messages_per_second);
  const auto target = world_.PickRecent(&random_);
  if (!target.has_value()) return pause;
  context->set_deadline(std::chrono::system_clock::now() + kCallTimeout);
  if (Chance(&random_, 70)) {
    Cancel(stub, context, *target);
  } else {
    Move(stub, context, *target);
  }
  return pause;
}

void SoakCanceller::Cancel(v1::Messages::Stub* stub, grpc::ClientContext* context,
                           const std::pair<uint32_t, std::string>& target) {
  v1::CancelRequest request;
  request.set_message_id(target.second);
  request.set_stop_redelivery(Chance(&random_, 25));
  Event event = {.message = target.first, .client = where_.client, .what = What::kCancel};
  event.flags = request.stop_redelivery() ? test::kStopRedelivery : uint8_t{0};
  world_.history().Add(event);
  v1::CancelResponse response;
  const grpc::Status status = stub->Cancel(context, request, &response);
  event.run = static_cast<uint32_t>(where_.run);
  event.outcome =
      status.ok() ? OutcomeOf(response.outcome(), Outcome::kCancelled) : OutcomeOf(status);
  event.time_ms = ToMillis(response.end_time());
  event.flags = response.redelivery_stopped() ? test::kRedeliveryStopped : uint8_t{0};
  world_.history().Add(event);
}

void SoakCanceller::Move(v1::Messages::Stub* stub, grpc::ClientContext* context,
                         const std::pair<uint32_t, std::string>& target) {
  v1::RescheduleRequest request;
  request.set_message_id(target.second);
  Event event = {.time_ms = static_cast<int64_t>(random_() % 1'000),
                 .message = target.first,
                 .client = where_.client,
                 .what = What::kReschedule};
  SetMillis(event.time_ms, request.mutable_delay());
  world_.history().Add(event);
  v1::RescheduleResponse response;
  const grpc::Status status = stub->Reschedule(context, request, &response);
  event.run = static_cast<uint32_t>(where_.run);
  event.outcome = status.ok() ? OutcomeOf(response.outcome(), Outcome::kOk) : OutcomeOf(status);
  event.time_ms = ToMillis(response.message().deliver_time());
  world_.history().Add(event);
}

SoakSubscriber::SoakSubscriber(Where where, uint64_t seed, SoakWorld* world)
    : SoakClient(where.target), where_(std::move(where)), world_(*world), random_(seed) {
  Start();
}

milliseconds SoakSubscriber::Step(v1::Messages::Stub* stub, grpc::ClientContext* context) {
  const auto stream = stub->Subscribe(context);
  v1::SubscribeRequest request;
  request.mutable_start()->set_topic(where_.topic);
  request.mutable_start()->set_max_outstanding_messages(200);
  request.mutable_start()->mutable_lease_duration()->set_seconds(kLeaseSeconds);
  stream->Write(request);
  v1::SubscribeResponse response;
  while (stream->Read(&response)) {
    request.Clear();
    for (const std::string& token : response.settled()) OnSettled(token, Outcome::kOk);
    for (const auto& refusal : response.refused()) {
      OnSettled(refusal.lease_token(), Outcome::kRefused);
    }
    for (const v1::Delivery& delivery : response.deliveries()) OnDelivery(delivery, &request);
    if (request.ByteSizeLong() > 0) stream->Write(request);
    // Each stream that breaks gives its leases back.
    if (!where_.diligent && random_() % 1'000 == 0) context->TryCancel();
  }
  stream->Finish();
  for (auto& [token, event] : open_) {
    event.outcome = Outcome::kUnknown;
    world_.history().Add(event);
  }
  open_.clear();
  return kPauseAfterError;
}

void SoakSubscriber::OnDelivery(const v1::Delivery& delivery, v1::SubscribeRequest* answer) {
  const auto number =
      static_cast<uint32_t>(std::strtoull(delivery.payload().c_str(), nullptr, /*base=*/10));
  world_.history().Add(
      {.id = test::Fingerprint(delivery.message_id()),
       .time_ms = ToMillis(delivery.deliver_time()),
       .token = test::Fingerprint(delivery.lease_token()),
       .message = number,
       .run = static_cast<uint32_t>(where_.run),
       .attempt = static_cast<uint16_t>(delivery.attempt()),
       .what = What::kDelivery,
       .flags = delivery.maybe_redelivered() ? test::kMaybeRedelivered : uint8_t{0}});
  Event event = {
      .token = test::Fingerprint(delivery.lease_token()), .message = number, .what = What::kAck};
  const uint64_t kind = where_.diligent ? 0 : random_() % 100;
  if (kind < 90) {
    answer->add_settlements()->set_lease_token(delivery.lease_token());
  } else if (kind < 95) {
    event.what = What::kNack;
    v1::Nack* const nack = test::AddSettlement(delivery.lease_token(), answer)->mutable_nack();
    SetMillis(static_cast<int64_t>(random_() % 50), nack->mutable_delay());
  } else if (kind < 98) {
    event.what = What::kRelease;
    test::AddSettlement(delivery.lease_token(), answer)->mutable_release();
  } else {
    return;
  }
  world_.history().Add(event);
  open_[delivery.lease_token()] = event;
}

void SoakSubscriber::OnSettled(const std::string& token, Outcome outcome) {
  const auto found = open_.find(token);
  if (found == open_.end()) return;
  found->second.outcome = outcome;
  world_.history().Add(found->second);
  open_.erase(found);
}

SoakPuller::SoakPuller(const std::string& target, std::string topic, std::string subscription,
                       SoakWorld* world)
    : SoakClient(target),
      topic_(std::move(topic)),
      subscription_(std::move(subscription)),
      world_(*world) {
  Start();
}

milliseconds SoakPuller::Step(v1::Messages::Stub* stub, grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + kCallTimeout);
  v1::PullRequest request;
  request.set_topic(topic_);
  request.set_subscription(subscription_);
  request.mutable_wait()->set_seconds(1);
  request.mutable_lease_duration()->set_seconds(kLeaseSeconds);
  v1::PullResponse response;
  if (!stub->Pull(context, request, &response).ok()) return kPauseAfterError;
  if (response.deliveries().empty()) return milliseconds(0);
  v1::SettleRequest settle;
  for (const v1::Delivery& delivery : response.deliveries()) {
    settle.add_settlements()->set_lease_token(delivery.lease_token());
    ++(delivery.recurrence().empty() ? world_.other_deliveries : world_.occurrences);
  }
  grpc::ClientContext settle_context;
  settle_context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
  v1::SettleResponse settled;
  return stub->Settle(&settle_context, settle, &settled).ok() ? milliseconds(20) : kPauseAfterError;
}

}  // namespace duetime::crash
