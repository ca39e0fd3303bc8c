// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/kill9_clients.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "client/channel.h"

namespace duetime::crash {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kCallTimeout(10'000);
// Pause between the calls of one client. It keeps the daemon busy and the history small.
constexpr milliseconds kPause(2);
constexpr int kCancelsBeforeOthers = 40;
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

// The result of a cancel according to its answer.
CancelEvent ResultOf(const grpc::Status& status, const v1::CancelResponse& response) {
  CancelEvent result;
  result.ended = EndedBy(status);
  result.redelivery_stopped = response.redelivery_stopped();
  result.end_ms = Millis(response.end_time());
  switch (response.outcome()) {
    case v1::CancelResponse::CANCELLED:
      result.found = Found::kCancelled;
      break;
    case v1::CancelResponse::IN_FLIGHT:
      result.found = Found::kInFlight;
      break;
    case v1::CancelResponse::SETTLED:
      result.found = Found::kSettled;
      break;
    case v1::CancelResponse::ALREADY_CANCELLED:
      result.found = Found::kAlreadyCancelled;
      break;
    default:
      result.found = Found::kNotFound;
  }
  return result;
}

// A message with a random topic, delay and size, whose payload begins with its number.
v1::ScheduleRequest MakeMessage(size_t number, int64_t delay_ms, std::mt19937_64* random) {
  v1::ScheduleRequest request;
  request.set_topic(TopicName(static_cast<int>((*random)() % kTopics)));
  request.set_payload(std::to_string(number) + " " + std::string((*random)() % 300, 'x'));
  request.mutable_delay()->set_seconds(delay_ms / 1'000);
  request.mutable_delay()->set_nanos(static_cast<int32_t>(delay_ms % 1'000 * 1'000'000));
  return request;
}

}  // namespace

Ended EndedBy(const grpc::Status& status) {
  // After one of these codes the client knows the outcome. After any other error the outcome is
  // open; see messages.proto.
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      return Ended::kOk;
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::FAILED_PRECONDITION:
      return Ended::kRefused;
    default:
      return Ended::kUnknown;
  }
}

std::string TopicName(int topic) { return "crash/" + std::to_string(topic); }

int64_t SteadyMillis() {
  return std::chrono::duration_cast<milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Clients::Clients(const std::string& target, int run, uint64_t seed, Recorder* recorder)
    : target_(target), run_(run), recorder_(recorder) {
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
  const SubscriberHabits habits =
      diligent ? SubscriberHabits{.credit = 100, .acks = 100, .nacks = 0, .breaks = 0}
               : SubscriberHabits{};
  for (int topic = 0; topic < kTopics; ++topic) {
    subscribers_.push_back(std::make_unique<SubscriberClient>(
        SubscriberClient::Where{.target = target, .topic = TopicName(topic), .run = run}, habits,
        random(), recorder));
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
    const int count = quiet_ || random() % 2 == 0 ? 1 : 1 + static_cast<int>(random() % 20);
    std::vector<size_t> numbers;
    v1::ScheduleBatchRequest batch;
    for (int i = 0; i < count; ++i) {
      // Often so short that the message comes due while its commit is in flight.
      const auto delay_ms =
          static_cast<int64_t>(random() % (quiet_ || random() % 3 == 0 ? 6 : 300));
      numbers.push_back(recorder_->Wanted(delay_ms));
      *batch.add_messages() = MakeMessage(numbers.back(), delay_ms, &random);
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
    for (size_t i = 0; i < numbers.size(); ++i) {
      const v1::ScheduleResult empty;
      const v1::ScheduleResult& result =
          status.ok() ? response.results(static_cast<int>(i)) : empty;
      Ended ended = EndedBy(status);
      if (ended == Ended::kOk && !result.has_message()) ended = Ended::kRefused;
      recorder_->Scheduled(numbers[i], ended, ended == Ended::kOk ? result.message().id() : "",
                           Millis(result.message().deliver_time()));
    }
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
  const auto target = recorder_->PickRecent(random);
  if (!target.has_value()) return;
  v1::CancelRequest request;
  request.set_message_id(target->second);
  request.set_stop_redelivery((*random)() % 4 == 0);
  const size_t cancel = recorder_->CancelBegun(target->first, run_, request.stop_redelivery());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
  v1::CancelResponse response;
  const grpc::Status status = stub->Cancel(&context, request, &response);
  recorder_->CancelOver(target->first, cancel, ResultOf(status, response));
}

bool AskAfterAll(const std::shared_ptr<grpc::Channel>& channel, int run, Recorder* recorder) {
  constexpr size_t kBatch = 1'000;
  const auto stub = v1::Messages::NewStub(channel);
  const std::vector<std::pair<size_t, std::string>> accepted = recorder->Accepted();
  for (size_t first = 0; first < accepted.size(); first += kBatch) {
    const size_t last = std::min(first + kBatch, accepted.size());
    v1::CancelBatchRequest batch;
    std::vector<size_t> cancels;
    for (size_t i = first; i < last; ++i) {
      batch.add_cancels()->set_message_id(accepted[i].second);
      cancels.push_back(recorder->CancelBegun(accepted[i].first, run, /*stop_redelivery=*/false));
    }
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
    v1::CancelBatchResponse response;
    const grpc::Status status = stub->CancelBatch(&context, batch, &response);
    if (!status.ok() || response.results_size() != batch.cancels_size()) return false;
    for (size_t i = first; i < last; ++i) {
      const v1::CancelResult& result = response.results(static_cast<int>(i - first));
      if (!result.has_cancel()) return false;
      recorder->CancelOver(accepted[i].first, cancels[i - first],
                           ResultOf(grpc::Status::OK, result.cancel()));
    }
  }
  return true;
}

SubscriberClient::SubscriberClient(Where where, const SubscriberHabits& habits, uint64_t seed,
                                   Recorder* recorder)
    : where_(std::move(where)), habits_(habits), recorder_(recorder) {
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
    for (const uint64_t token : response.settled()) OnSettled(token, Ended::kOk);
    for (const auto& refusal : response.refused()) {
      OnSettled(refusal.lease_token(), Ended::kRefused);
    }
    for (const v1::Delivery& delivery : response.deliveries()) {
      OnDelivery(delivery, random, &request);
    }
    if (request.ack_size() + request.nack_size() > 0) stream->Write(request);
    if (static_cast<int>((*random)() % 100) < habits_.breaks) context.TryCancel();
  }
  stream->Finish();
  for (const auto& [token, number] : open_acks_) recorder_->AckOver(number, token, Ended::kUnknown);
  open_acks_.clear();
  const std::lock_guard lock(mutex_);
  context_ = nullptr;
}

void SubscriberClient::OnDelivery(const v1::Delivery& delivery, std::mt19937_64* random,
                                  v1::SubscribeRequest* answer) {
  const int64_t received_us = NowMicros();
  last_received_ms_ = SteadyMillis();
  const size_t number = std::strtoull(delivery.payload().c_str(), nullptr, 10);
  recorder_->Delivered(number, {.at = 0,
                                .run = where_.run,
                                .id = delivery.message_id(),
                                .attempt = delivery.attempt(),
                                .maybe_redelivered = delivery.maybe_redelivered(),
                                .token = delivery.lease_token(),
                                .deliver_ms = Millis(delivery.deliver_time()),
                                .received_us = received_us});
  const int habit = static_cast<int>((*random)() % 100);
  if (habit < habits_.acks) {
    recorder_->AckBegun(number, delivery.lease_token());
    open_acks_.emplace(delivery.lease_token(), number);
    answer->add_ack(delivery.lease_token());
  } else if (habit < habits_.acks + habits_.nacks) {
    v1::Nack* nack = answer->add_nack();
    nack->set_lease_token(delivery.lease_token());
    nack->mutable_delay()->set_nanos(static_cast<int32_t>((*random)() % 50) * 1'000'000);
  }
}

void SubscriberClient::OnSettled(uint64_t token, Ended ended) {
  const auto ack = open_acks_.find(token);
  // The settlement was a nack.
  if (ack == open_acks_.end()) return;
  recorder_->AckOver(ack->second, token, ended);
  open_acks_.erase(ack);
}

}  // namespace duetime::crash
