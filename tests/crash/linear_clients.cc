// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/linear_clients.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "client/cpp/channel.h"
#include "client/cpp/error.h"
#include "tests/support/settlements.h"

namespace duetime::linear {
namespace {

using std::chrono::milliseconds;
using v1::CancelResponse;
using v1::RescheduleResponse;

constexpr milliseconds kCallTimeout(20'000);
// How many ids and contents of a key the clients can reuse.
constexpr size_t kRecentMax = 4;
// A delivery takes effect at most this long before its dispatch time: the daemon's clock counts
// whole milliseconds, and the comparison uses two clocks.
constexpr int64_t kDispatchSlackUs = 3'000;

int64_t Millis(const google::protobuf::Timestamp& time) {
  return time.seconds() * 1'000 + time.nanos() / 1'000'000;
}

void SetTime(int64_t millis, google::protobuf::Timestamp* time) {
  time->set_seconds(millis / 1'000);
  time->set_nanos(static_cast<int32_t>(millis % 1'000 * 1'000'000));
}

std::shared_ptr<grpc::Channel> Connect(const std::string& target) {
  client::ServerAddress address;
  address.target = target;
  return *client::OpenChannel(address);
}

Seen SeenOf(v1::Message::State state) {
  switch (state) {
    case v1::Message::STATE_SCHEDULED:
    case v1::Message::STATE_DUE:
      return Seen::kWaiting;
    case v1::Message::STATE_IN_FLIGHT:
      return Seen::kInFlight;
    case v1::Message::STATE_ACKED:
      return Seen::kAcked;
    case v1::Message::STATE_CANCELLED:
      return Seen::kCancelled;
    default:
      return Seen::kNothing;
  }
}

// Reads the outcome of Cancel or Reschedule, which have the same names.
template <typename Response>
Answer AnswerOf(typename Response::Outcome outcome, typename Response::Outcome done) {
  if (outcome == done) return Answer::kDone;
  if (outcome == Response::OUTCOME_IN_FLIGHT) return Answer::kInFlight;
  if (outcome == Response::OUTCOME_SETTLED) return Answer::kSettled;
  if (outcome == Response::OUTCOME_ALREADY_CANCELLED) return Answer::kAlreadyCancelled;
  return outcome == Response::OUTCOME_NOT_FOUND ? Answer::kNotFound : Answer::kUnknown;
}

// A client that makes random calls.
class Caller {
 public:
  Caller(v1::Messages::Stub* stub, int key, std::mt19937_64* random, Recorder* recorder)
      : stub_(stub), key_(key), random_(*random), recorder_(recorder) {}

  // Makes one call. Returns false if the daemon did not answer.
  bool CallOnce() {
    const uint64_t choice = random_() % 100;
    operation_.target_id =
        choice < 45 || random_() % 100 < 60 ? "" : recorder_->UsedId(key_, &random_);
    if (choice < 45) return Schedule();
    if (choice < 65) return Reschedule();
    if (choice < 85) return Cancel(random_() % 100 < 40);
    return Get();
  }

  bool Cancel(bool stop_redelivery) {
    operation_.kind = Kind::kCancel;
    operation_.stop_redelivery = stop_redelivery;
    v1::CancelRequest request;
    SetTarget(&request);
    request.set_stop_redelivery(stop_redelivery);
    CancelResponse response;
    const grpc::Status status = Call(&v1::Messages::Stub::Cancel, request, &response);
    if (!status.ok()) return Failed(status);
    operation_.answer =
        AnswerOf<CancelResponse>(response.outcome(), CancelResponse::OUTCOME_CANCELLED);
    operation_.id = response.message_id();
    operation_.seen = SeenOf(response.state());
    operation_.uncertain = response.delivery_uncertain();
    operation_.redelivery_stopped =
        operation_.answer == Answer::kInFlight && response.redelivery_stopped();
    return Done();
  }

  bool Get() {
    operation_.kind = Kind::kGet;
    v1::GetRequest request;
    SetTarget(&request);
    request.set_view(v1::MESSAGE_VIEW_FULL);
    v1::GetResponse response;
    const grpc::Status status = Call(&v1::Messages::Stub::Get, request, &response);
    if (status.error_code() == grpc::StatusCode::NOT_FOUND) {
      operation_.answer = Answer::kNotFound;
      return Done();
    }
    if (!status.ok()) return Failed(status);
    operation_.answer = Answer::kFound;
    SetMessage(response.message());
    const std::string& payload = response.message().payload();
    if (!payload.empty()) operation_.content = std::strtoll(payload.c_str(), nullptr, 10);
    return Done();
  }

 private:
  template <typename Request>
  void SetTarget(Request* request) const {
    if (operation_.target_id.empty()) {
      request->mutable_key()->set_topic(kTopic);
      request->mutable_key()->set_key(Recorder::KeyName(key_));
    } else {
      request->set_message_id(operation_.target_id);
    }
  }

  void SetMessage(const v1::Message& message) {
    operation_.id = message.id();
    operation_.seen = SeenOf(message.state());
    operation_.etag = message.etag();
    operation_.told_deliver_ms = Millis(message.deliver_time());
  }

  template <typename Request, typename Response>
  grpc::Status Call(grpc::Status (v1::Messages::Stub::*method)(grpc::ClientContext*, const Request&,
                                                               Response*),
                    const Request& request, Response* response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
    operation_.begun_us = NowMicros();
    const grpc::Status status = (stub_->*method)(&context, request, response);
    operation_.over_us = NowMicros();
    return status;
  }

  bool Done() {
    recorder_->Add(key_, operation_);
    return true;
  }

  // These codes leave the outcome open. Any other error means that the call changed nothing.
  bool Failed(const grpc::Status& status) {
    switch (status.error_code()) {
      case grpc::StatusCode::RESOURCE_EXHAUSTED:
      case grpc::StatusCode::INVALID_ARGUMENT:
        return true;
      default:
        operation_.answer = Answer::kUnknown;
        operation_.over_us = kNever;
        recorder_->Add(key_, operation_);
        return false;
    }
  }

  // Often the message comes due while its commit is in flight. Some messages are never due in the
  // run.
  int64_t RandomTime() {
    const int64_t now_ms = NowMicros() / 1'000;
    const uint64_t choice = random_() % 10;
    if (choice < 4) return now_ms + static_cast<int64_t>(random_() % 30);
    if (choice < 7) return now_ms + static_cast<int64_t>(random_() % 300);
    return now_ms + 3'600'000 + static_cast<int64_t>(random_() % 1'000);
  }

  bool Schedule() {
    static constexpr v1::ScheduleRequest::OnConflict kModes[] = {
        v1::ScheduleRequest::ON_CONFLICT_FAIL, v1::ScheduleRequest::ON_CONFLICT_REPLACE,
        v1::ScheduleRequest::ON_CONFLICT_KEEP_TIME, v1::ScheduleRequest::ON_CONFLICT_PUSH_BACK,
        v1::ScheduleRequest::ON_CONFLICT_ONCE};
    const auto mode = static_cast<size_t>(random_() % std::size(kModes));
    const Recorder::Content content = random_() % 3 == 0
                                          ? recorder_->UsedContent(key_, RandomTime(), &random_)
                                          : recorder_->NewContent(key_, RandomTime());
    operation_.kind = Kind::kSchedule;
    operation_.on_conflict = static_cast<OnConflict>(mode);
    const bool replaces =
        operation_.on_conflict != OnConflict::kFail && operation_.on_conflict != OnConflict::kOnce;
    operation_.only_if_exists = replaces && random_() % 5 == 0;
    operation_.content = content.number;
    operation_.deliver_ms = content.deliver_ms;
    v1::ScheduleRequest request;
    request.set_topic(kTopic);
    request.set_key(Recorder::KeyName(key_));
    request.set_payload(Recorder::Payload(content.number));
    request.set_on_conflict(kModes[mode]);
    request.set_only_if_exists(operation_.only_if_exists);
    SetTime(content.deliver_ms, request.mutable_deliver_time());
    v1::ScheduleResponse response;
    const grpc::Status status = Call(&v1::Messages::Stub::Schedule, request, &response);
    if (!status.ok()) return ScheduleRefused(status);
    SetMessage(response.message());
    operation_.answer = response.outcome() == v1::SCHEDULE_OUTCOME_CREATED    ? Answer::kCreated
                        : response.outcome() == v1::SCHEDULE_OUTCOME_REPLACED ? Answer::kReplaced
                                                                              : Answer::kUnchanged;
    operation_.previous_id = response.previous_message_id();
    if (response.has_old_deliver_time()) {
      operation_.old_deliver_ms = Millis(response.old_deliver_time());
    }
    return Done();
  }

  bool ScheduleRefused(const grpc::Status& status) {
    const client::ErrorInfo info = client::GetErrorInfo(client::ToAbslStatus(status));
    if (info.reason == "CONTENT_MISMATCH") {
      operation_.answer = Answer::kMismatch;
      const auto id = info.metadata.find("message_id");
      if (id != info.metadata.end()) operation_.id = id->second;
      return Done();
    }
    if (info.reason == "MESSAGE_NOT_FOUND") {
      operation_.answer = Answer::kNothingToReplace;
      return Done();
    }
    return Failed(status);
  }

  bool Reschedule() {
    operation_.kind = Kind::kReschedule;
    operation_.deliver_ms = RandomTime();
    if (random_() % 5 < 2) operation_.if_etag = recorder_->UsedEtag(key_, &random_);
    v1::RescheduleRequest request;
    SetTarget(&request);
    SetTime(operation_.deliver_ms, request.mutable_deliver_time());
    request.set_etag(operation_.if_etag);
    RescheduleResponse response;
    const grpc::Status status = Call(&v1::Messages::Stub::Reschedule, request, &response);
    if (status.error_code() == grpc::StatusCode::ABORTED) {
      operation_.answer = Answer::kEtagMismatch;
      return Done();
    }
    if (!status.ok()) return Failed(status);
    operation_.answer =
        AnswerOf<RescheduleResponse>(response.outcome(), RescheduleResponse::OUTCOME_RESCHEDULED);
    if (operation_.answer == Answer::kDone) {
      SetMessage(response.message());
      operation_.old_deliver_ms = Millis(response.old_deliver_time());
    }
    operation_.id = response.message_id();
    operation_.seen = SeenOf(response.state());
    operation_.uncertain = response.delivery_uncertain();
    return Done();
  }

  v1::Messages::Stub* const stub_;
  const int key_;
  std::mt19937_64& random_;
  Recorder* const recorder_;
  Operation operation_;
};

template <typename T>
void Remember(T value, std::deque<T>* recent) {
  recent->push_back(std::move(value));
  if (recent->size() > kRecentMax) recent->pop_front();
}

}  // namespace

int64_t NowMicros() {
  using std::chrono::duration_cast;
  using std::chrono::microseconds;
  static const auto begun = std::chrono::steady_clock::now();
  static const auto wall = std::chrono::system_clock::now();
  const auto time = wall.time_since_epoch() + (std::chrono::steady_clock::now() - begun);
  return duration_cast<microseconds>(time).count();
}

Recorder::Content Recorder::NewContent(int key, int64_t deliver_ms) {
  const std::lock_guard lock(mutex_);
  const Content content = {.number = ++contents_, .deliver_ms = deliver_ms};
  Remember(content, &keys_[static_cast<size_t>(key)].contents);
  return content;
}

Recorder::Content Recorder::UsedContent(int key, int64_t deliver_ms, std::mt19937_64* random) {
  {
    const std::lock_guard lock(mutex_);
    const std::deque<Content>& contents = keys_[static_cast<size_t>(key)].contents;
    if (!contents.empty()) return contents[(*random)() % contents.size()];
  }
  return NewContent(key, deliver_ms);
}

std::string Recorder::UsedId(int key, std::mt19937_64* random) const {
  const std::lock_guard lock(mutex_);
  const std::deque<std::string>& ids = keys_[static_cast<size_t>(key)].ids;
  return ids.empty() ? "" : ids[(*random)() % ids.size()];
}

std::string Recorder::UsedEtag(int key, std::mt19937_64* random) const {
  const std::lock_guard lock(mutex_);
  const std::deque<std::string>& etags = keys_[static_cast<size_t>(key)].etags;
  return etags.empty() ? "" : etags[(*random)() % etags.size()];
}

void Recorder::Add(int key, const Operation& operation) {
  const std::lock_guard lock(mutex_);
  Key& history = keys_[static_cast<size_t>(key)];
  history.runs.back().operations.push_back(operation);
  ++counts_[{operation.kind, operation.answer}];
  const auto used = [](const auto& recent, const std::string& value) {
    return std::find(recent.begin(), recent.end(), value) != recent.end();
  };
  if (!operation.id.empty() && !used(history.ids, operation.id)) {
    Remember(operation.id, &history.ids);
  }
  if (!operation.etag.empty() && !used(history.etags, operation.etag)) {
    Remember(operation.etag, &history.etags);
  }
}

void Recorder::EndRun() {
  const std::lock_guard lock(mutex_);
  for (Key& key : keys_) {
    key.runs.back().dead_us = NowMicros();
    key.runs.emplace_back();
  }
}

std::vector<std::vector<Run>> Recorder::TakeHistories() {
  const std::lock_guard lock(mutex_);
  std::vector<std::vector<Run>> histories;
  for (Key& key : keys_) histories.push_back(std::move(key.runs));
  return histories;
}

int64_t Recorder::Count(Kind kind, Answer answer) const {
  const std::lock_guard lock(mutex_);
  const auto found = counts_.find({kind, answer});
  return found == counts_.end() ? 0 : found->second;
}

Callers::Callers(const std::string& target, int threads, uint64_t seed, Recorder* recorder)
    : recorder_(recorder) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this, target, mine = random()] { Run(target, mine); });
  }
}

void Callers::Stop() {
  stopping_ = true;
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void Callers::Run(const std::string& target, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto stub = v1::Messages::NewStub(Connect(target));
  while (!stopping_) {
    const auto key = static_cast<int>(random() % static_cast<uint64_t>(recorder_->keys()));
    if (!Caller(stub.get(), key, &random, recorder_).CallOnce()) break;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 4'000));
  }
}

bool EndKey(v1::Messages::Stub* stub, int key, Recorder* recorder) {
  std::mt19937_64 random(1);
  return Caller(stub, key, &random, recorder).Cancel(/*stop_redelivery=*/true) &&
         Caller(stub, key, &random, recorder).Get();
}

Receiver::Receiver(const std::string& target, Habits habits, uint64_t seed, Recorder* recorder)
    : habits_(habits), recorder_(recorder), last_us_(NowMicros()) {
  thread_ = std::thread([this, target, seed] { Run(target, seed); });
}

void Receiver::Stop() {
  context_.TryCancel();
  if (thread_.joinable()) thread_.join();
}

void Receiver::Run(const std::string& target, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto stub = v1::Messages::NewStub(Connect(target));
  const auto stream = stub->Subscribe(&context_);
  v1::SubscribeRequest request;
  request.mutable_start()->set_topic(kTopic);
  // Longer than any run, so that leases end only by clients and kill -9.
  request.mutable_start()->mutable_lease_duration()->set_seconds(3'600);
  stream->Write(request);
  v1::SubscribeResponse response;
  while (stream->Read(&response)) {
    request.Clear();
    for (const std::string& token : response.settled()) OnSettled(token, Answer::kConfirmed);
    for (const v1::SettleRefusal& refusal : response.refused()) {
      OnSettled(refusal.lease_token(), Answer::kLeaseLost);
    }
    for (const v1::Delivery& delivery : response.deliveries()) {
      OnDelivery(delivery, &random, &request);
    }
    if (request.settlements().empty()) continue;
    // From here on, the settlements may take effect.
    const int64_t now_us = NowMicros();
    for (const v1::Settlement& one : request.settlements()) {
      open_.at(one.lease_token()).operation.begun_us = now_us;
    }
    stream->Write(request);
  }
  stream->Finish();
  for (const auto& [token, settlement] : open_)
    recorder_->Add(settlement.key, settlement.operation);
  open_.clear();
}

void Receiver::OnDelivery(const v1::Delivery& delivery, std::mt19937_64* random,
                          v1::SubscribeRequest* settlements) {
  Operation operation;
  operation.kind = Kind::kDeliver;
  operation.over_us = last_us_ = NowMicros();
  operation.id = delivery.message_id();
  operation.content = std::strtoll(delivery.payload().c_str(), nullptr, 10);
  operation.told_deliver_ms = Millis(delivery.deliver_time());
  operation.token = std::hash<std::string>()(delivery.lease_token());
  operation.attempt = delivery.attempt();
  operation.maybe_redelivered = delivery.maybe_redelivered();
  operation.answer = Answer::kFound;
  const int64_t dispatched_us = operation.told_deliver_ms * 1'000 +
                                delivery.lateness().seconds() * 1'000'000 +
                                delivery.lateness().nanos() / 1'000;
  operation.begun_us = std::min(dispatched_us - kDispatchSlackUs, operation.over_us);
  const int key = std::atoi(delivery.key().substr(delivery.key().find('/') + 1).c_str());
  recorder_->Add(key, operation);

  const auto habit = static_cast<int>((*random)() % 100);
  if (habit >= habits_.acks + habits_.nacks) return;
  Settlement settlement = {.key = key, .operation = {}};
  settlement.operation.token = std::hash<std::string>()(delivery.lease_token());
  if (habit < habits_.acks) {
    settlement.operation.kind = Kind::kAck;
    settlements->add_settlements()->set_lease_token(delivery.lease_token());
  } else {
    settlement.operation.kind = Kind::kNack;
    v1::Nack* const nack = test::AddSettlement(delivery.lease_token(), settlements)->mutable_nack();
    nack->mutable_delay()->set_nanos(static_cast<int32_t>((*random)() % 20) * 1'000'000);
  }
  open_.emplace(delivery.lease_token(), std::move(settlement));
}

void Receiver::OnSettled(const std::string& token, Answer answer) {
  const auto found = open_.find(token);
  if (found == open_.end()) return;
  found->second.operation.over_us = NowMicros();
  found->second.operation.answer = answer;
  recorder_->Add(found->second.key, found->second.operation);
  open_.erase(found);
}

}  // namespace duetime::linear
