// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/kill9_clients.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "client/cpp/channel.h"
#include "duetime/v1/admin.grpc.pb.h"
#include "tests/crash/call_outcome.h"
#include "tests/support/settlements.h"

namespace duetime::crash {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kCallTimeout(10'000);
// Pause between the calls of one client. It keeps the daemon busy and the history small.
constexpr milliseconds kPause(2);
constexpr int kCancelsBeforeOthers = 40;
constexpr size_t kRecentMax = 300;
// Pause after an error, because the daemon is dead or ending.
constexpr milliseconds kPauseAfterError(10);

std::shared_ptr<grpc::Channel> Connect(const std::string& target) {
  client::ServerAddress address;
  address.target = target;
  return *client::OpenChannel(address);
}

int64_t Millis(const google::protobuf::Timestamp& time) {
  return time.seconds() * 1'000 + time.nanos() / 1'000'000;
}

// The end of a cancel in run `run`.
Event CancelEnd(uint32_t message, uint32_t run, const grpc::Status& status,
                const v1::CancelResponse& response) {
  Event event = {.message = message, .run = run, .what = What::kCancel};
  event.outcome =
      status.ok() ? OutcomeOf(response.outcome(), Outcome::kCancelled) : OutcomeOf(status);
  event.time_ms = Millis(response.end_time());
  if (response.redelivery_stopped()) event.flags = test::kRedeliveryStopped;
  return event;
}

// A message with a random topic, delay and size, whose payload begins with its number.
v1::ScheduleRequest MakeMessage(uint32_t number, int64_t delay_ms, std::mt19937_64* random) {
  v1::ScheduleRequest request;
  request.set_topic(TopicName(static_cast<int>((*random)() % kTopics)));
  request.set_payload(std::to_string(number) + " " + std::string((*random)() % 300, 'x'));
  request.mutable_delay()->set_seconds(delay_ms / 1'000);
  request.mutable_delay()->set_nanos(static_cast<int32_t>(delay_ms % 1'000 * 1'000'000));
  return request;
}

}  // namespace

std::string TopicName(int topic) { return "crash/" + std::to_string(topic); }

int64_t SteadyMillis() {
  return std::chrono::duration_cast<milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void AcceptedMessages::Add(uint32_t number, const std::string& id) {
  const std::lock_guard lock(mutex_);
  messages_.emplace_back(number, id);
}

std::optional<AcceptedMessages::Message> AcceptedMessages::PickRecent(
    std::mt19937_64* random) const {
  const std::lock_guard lock(mutex_);
  if (messages_.empty()) return std::nullopt;
  const size_t recent = std::min(messages_.size(), kRecentMax);
  return messages_[messages_.size() - 1 - (*random)() % recent];
}

std::vector<AcceptedMessages::Message> AcceptedMessages::All() const {
  const std::lock_guard lock(mutex_);
  return messages_;
}

uint32_t ScheduleRecord::Begin(int64_t delay_ms) {
  numbers_.push_back(history_->NewMessage());
  history_->Add({.time_ms = delay_ms, .message = numbers_.back(), .what = What::kSchedule});
  return numbers_.back();
}

void ScheduleRecord::End(uint32_t run, const grpc::Status& status,
                         const v1::ScheduleBatchResponse& response,
                         AcceptedMessages* accepted) const {
  for (size_t i = 0; i < numbers_.size(); ++i) {
    Event event = {.message = numbers_[i], .run = run, .what = What::kSchedule};
    event.outcome = OutcomeOf(status);
    const v1::ScheduleResult none;
    const v1::ScheduleResult& result = status.ok() ? response.results(static_cast<int>(i)) : none;
    if (result.has_message()) {
      event.id = test::Fingerprint(result.message().id());
      event.time_ms = Millis(result.message().deliver_time());
    } else if (status.ok()) {
      event.outcome = Outcome::kRefused;
    }
    history_->Add(event);
    // Only now, so that cancels begin after the answer.
    if (result.has_message() && accepted != nullptr) {
      accepted->Add(numbers_[i], result.message().id());
    }
  }
}

Clients::Clients(const std::string& target, uint32_t run, uint64_t seed, int batch,
                 HistoryWriter* history, AcceptedMessages* accepted)
    : target_(target), run_(run), batch_(batch), history_(history), accepted_(accepted) {
  std::mt19937_64 random(seed);
  // In half of the runs, cancels reach the messages of earlier runs before any subscriber takes
  // them.
  if (random() % 2 == 0) {
    const auto stub = v1::Messages::NewStub(Connect(target));
    for (int i = 0; i < kCancelsBeforeOthers; ++i) CancelOne(stub.get(), &random);
  }
  // In half of the runs every subscriber acks everything. In half of those the daemon has little to
  // do, so no old message is left and the low watermark follows the clock closely.
  const bool diligent = random() % 2 == 0;
  quiet_ = diligent && random() % 2 == 0;
  SubscriberHabits habits =
      diligent ? SubscriberHabits{.acks = 100, .nacks = 0, .breaks = 0} : SubscriberHabits{};
  habits.credit = std::max(habits.credit, 5 * batch);
  for (int topic = 0; topic < kTopics; ++topic) {
    subscribers_.push_back(std::make_unique<SubscriberClient>(
        SubscriberClient::Where{.target = target, .topic = TopicName(topic), .run = run}, habits,
        random(), history));
  }
  for (int i = 0; i < 2; ++i) {
    threads_.emplace_back([this, seed = random()] { Schedule(seed); });
  }
  threads_.emplace_back([this, seed = random()] { Cancel(seed); });
}

Clients::~Clients() { Stop(); }

void Clients::Stop() {
  stopping_ = true;
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  subscribers_.clear();
}

void Clients::Schedule(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto stub = v1::Messages::NewStub(Connect(target_));
  while (!stopping_) {
    const int count = quiet_ || random() % 2 == 0
                          ? 1
                          : 1 + static_cast<int>(random() % static_cast<uint64_t>(batch_));
    ScheduleRecord record(history_);
    v1::ScheduleBatchRequest batch;
    for (int i = 0; i < count; ++i) {
      // Often so short that the message comes due while its commit is in flight.
      const auto delay_ms =
          static_cast<int64_t>(random() % (quiet_ || random() % 3 == 0 ? 6 : 300));
      *batch.add_messages() = MakeMessage(record.Begin(delay_ms), delay_ms, &random);
    }
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
    v1::ScheduleBatchResponse response;
    grpc::Status status;
    if (count == 1) {
      v1::ScheduleResponse single;
      status = stub->Schedule(&context, batch.messages(0), &single);
      *response.add_results()->mutable_message() = single.message();
    } else {
      status = stub->ScheduleBatch(&context, batch, &response);
    }
    record.End(run_, status, response, accepted_);
    std::this_thread::sleep_for(!status.ok() ? kPauseAfterError
                                : quiet_     ? milliseconds(random() % 20)
                                             : kPause);
  }
}

void Clients::Cancel(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto stub = v1::Messages::NewStub(Connect(target_));
  while (!stopping_) {
    CancelOne(stub.get(), &random);
    std::this_thread::sleep_for(kPause);
  }
}

void Clients::CancelOne(v1::Messages::Stub* stub, std::mt19937_64* random) {
  const auto target = accepted_->PickRecent(random);
  if (!target.has_value()) return;
  const auto& [number, id] = *target;
  v1::CancelRequest request;
  request.set_message_id(id);
  request.set_stop_redelivery((*random)() % 4 == 0);
  history_->Add({.message = number,
                 .what = What::kCancel,
                 .flags = request.stop_redelivery() ? test::kStopRedelivery : uint8_t{0}});
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
  v1::CancelResponse response;
  const grpc::Status status = stub->Cancel(&context, request, &response);
  history_->Add(CancelEnd(number, run_, status, response));
}

bool AskAfterAll(const std::shared_ptr<grpc::Channel>& channel, uint32_t run,
                 const AcceptedMessages& accepted, HistoryWriter* history) {
  constexpr size_t kBatch = 1'000;
  const auto stub = v1::Messages::NewStub(channel);
  const std::vector<AcceptedMessages::Message> messages = accepted.All();
  for (size_t first = 0; first < messages.size(); first += kBatch) {
    const size_t last = std::min(first + kBatch, messages.size());
    v1::CancelBatchRequest batch;
    for (size_t i = first; i < last; ++i) {
      batch.add_cancels()->set_message_id(messages[i].second);
      history->Add({.message = messages[i].first, .what = What::kCancel});
    }
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
    v1::CancelBatchResponse response;
    const grpc::Status status = stub->CancelBatch(&context, batch, &response);
    if (!status.ok() || response.results_size() != batch.cancels_size()) return false;
    for (size_t i = first; i < last; ++i) {
      const v1::CancelResult& result = response.results(static_cast<int>(i - first));
      if (!result.has_cancel()) return false;
      history->Add(CancelEnd(messages[i].first, run, grpc::Status::OK, result.cancel()));
    }
  }
  return true;
}

bool AnyOpen(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
  v1::ServerInfoResponse info;
  const auto admin = v1::Admin::NewStub(channel);
  if (!admin->ServerInfo(&context, {}, &info).ok()) return true;
  return info.counts().due_ready() + info.counts().in_flight() + info.counts().delayed() > 0;
}

SubscriberClient::SubscriberClient(Where where, const SubscriberHabits& habits, uint64_t seed,
                                   HistoryWriter* history)
    : where_(std::move(where)), habits_(habits), history_(history) {
  last_received_ms_ = SteadyMillis();
  thread_ = std::thread([this, seed] { Run(seed); });
}

SubscriberClient::~SubscriberClient() { Stop(); }

void SubscriberClient::Stop() {
  stopping_ = true;
  {
    const std::lock_guard lock(mutex_);
    if (context_ != nullptr) context_->TryCancel();
  }
  if (thread_.joinable()) thread_.join();
}

void SubscriberClient::Run(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto stub = v1::Messages::NewStub(Connect(where_.target));
  while (!stopping_) {
    RunStream(stub.get(), &random);
    if (!stopping_) std::this_thread::sleep_for(kPauseAfterError);
  }
}

void SubscriberClient::RunStream(v1::Messages::Stub* stub, std::mt19937_64* random) {
  grpc::ClientContext context;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    context_ = &context;
  }
  const auto stream = stub->Subscribe(&context);
  v1::SubscribeRequest request;
  request.mutable_start()->set_topic(where_.topic);
  request.mutable_start()->set_subscription(where_.subscription);
  request.mutable_start()->set_max_outstanding_messages(habits_.credit);
  stream->Write(request);
  v1::SubscribeResponse response;
  while (stream->Read(&response)) {
    request.Clear();
    for (const std::string& token : response.settled()) OnSettled(token, Outcome::kOk);
    for (const auto& refusal : response.refused()) {
      OnSettled(refusal.lease_token(), Outcome::kRefused);
    }
    for (const v1::Delivery& delivery : response.deliveries()) {
      OnDelivery(delivery, random, &request);
    }
    if (!request.settlements().empty()) stream->Write(request);
    if (static_cast<int>((*random)() % 100) < habits_.breaks) context.TryCancel();
  }
  stream->Finish();
  while (!open_.empty()) OnSettled(std::string(open_.begin()->first), Outcome::kUnknown);
  const std::lock_guard lock(mutex_);
  context_ = nullptr;
}

void SubscriberClient::OnDelivery(const v1::Delivery& delivery, std::mt19937_64* random,
                                  v1::SubscribeRequest* answer) {
  last_received_ms_ = SteadyMillis();
  const auto message =
      static_cast<uint32_t>(std::strtoul(delivery.payload().c_str(), nullptr, /*base=*/10));
  history_->Add({.id = test::Fingerprint(delivery.message_id()),
                 .time_ms = Millis(delivery.deliver_time()),
                 .token = test::Fingerprint(delivery.lease_token()),
                 .message = message,
                 .run = where_.run,
                 .attempt = static_cast<uint16_t>(delivery.attempt()),
                 .what = What::kDelivery,
                 .flags = delivery.maybe_redelivered() ? test::kMaybeRedelivered : uint8_t{0},
                 .subscription = where_.number});
  const int habit = static_cast<int>((*random)() % 100);
  if (habit < habits_.acks) {
    BeginSettlement(What::kAck, delivery, message);
    answer->add_settlements()->set_lease_token(delivery.lease_token());
  } else if (habit < habits_.acks + habits_.nacks) {
    BeginSettlement(What::kNack, delivery, message);
    v1::Nack* nack = test::AddSettlement(delivery.lease_token(), answer)->mutable_nack();
    nack->mutable_delay()->set_nanos(static_cast<int32_t>((*random)() % 50) * 1'000'000);
  }
}

void SubscriberClient::BeginSettlement(What what, const v1::Delivery& delivery, uint32_t message) {
  const Event event = {.token = test::Fingerprint(delivery.lease_token()),
                       .message = message,
                       .run = where_.run,
                       .what = what,
                       .subscription = where_.number};
  history_->Add(event);
  open_.emplace(delivery.lease_token(), event);
}

void SubscriberClient::OnSettled(const std::string& token, Outcome outcome) {
  const auto found = open_.find(token);
  if (found == open_.end()) return;
  found->second.outcome = outcome;
  history_->Add(found->second);
  open_.erase(found);
}

}  // namespace duetime::crash
