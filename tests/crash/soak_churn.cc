// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/soak_churn.h"

#include <cstdio>
#include <utility>

#include "client/cpp/channel.h"

namespace duetime::crash {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kCallTimeout(5'000);
// Names are used again, because the server keeps the names of deleted topics for a day.
constexpr uint64_t kShortNames = 40;
constexpr size_t kOpenMax = 3;
constexpr int kOpenSteps = 4;
constexpr uint64_t kExtraNames = 7;
constexpr uint64_t kRecurrenceNames = 20;
constexpr int kRecurrenceCalls = 4;
constexpr int kBulkMessages = 200;
constexpr int64_t kBulkDelaySeconds = 3'600;

// Makes one call with a deadline.
template <typename Request, typename Response, typename Stub, typename Method>
grpc::Status Call(Stub* stub, Method method, const Request& request, Response* response) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
  return (stub->*method)(&context, request, response);
}

// Whether the object is there after a call that creates it.
bool Exists(const grpc::Status& status) {
  return status.ok() || status.error_code() == grpc::StatusCode::ALREADY_EXISTS;
}

// Whether the object is gone after a call that deletes it: an earlier one may have had no answer.
bool Gone(const grpc::Status& status) {
  return status.ok() || status.error_code() == grpc::StatusCode::NOT_FOUND;
}

}  // namespace

SoakChurn::SoakChurn(milliseconds period, uint64_t seed, SoakWorld* world)
    : period_(period), world_(*world), random_(seed) {}

bool SoakChurn::CreateSteady(const std::shared_ptr<grpc::Channel>& channel) {
  admin_ = v1::Admin::NewStub(channel);
  bool good = Create("recur", "default") && Create("bulk", "default");
  for (const char* const topic : kSteadyTopics) good = good && Create(topic, "default");
  if (!good) std::printf("the topics cannot be created\n");
  return good;
}

bool SoakChurn::Create(const std::string& topic, const std::string& subscription) {
  v1::CreateTopicRequest topic_request;
  topic_request.mutable_topic()->set_name(topic);
  v1::CreateTopicResponse topic_response;
  if (!Exists(Call(admin_.get(), &v1::Admin::Stub::CreateTopic, topic_request, &topic_response))) {
    return false;
  }
  v1::CreateSubscriptionRequest request;
  request.mutable_subscription()->set_topic(topic);
  request.mutable_subscription()->set_name(subscription);
  v1::CreateSubscriptionResponse response;
  return Exists(Call(admin_.get(), &v1::Admin::Stub::CreateSubscription, request, &response));
}

std::unique_ptr<SoakSubscriber> SoakChurn::Subscribe(const std::string& topic) {
  return std::make_unique<SoakSubscriber>(
      SoakSubscriber::Where{.target = target_, .topic = topic, .run = run_, .diligent = diligent_},
      random_(), &world_);
}

void SoakChurn::Connect(const std::string& target, int run, bool diligent) {
  target_ = target;
  run_ = run;
  diligent_ = diligent;
  client::ServerAddress address;
  address.target = target;
  const auto channel = *client::OpenChannel(address);
  messages_ = v1::Messages::NewStub(channel);
  admin_ = v1::Admin::NewStub(channel);
  for (const char* const topic : kSteadyTopics) pullers_.push_back(Subscribe(topic));
  for (const char* const topic : {"recur", "bulk"}) {
    pullers_.push_back(std::make_unique<SoakPuller>(target, topic, "", &world_));
  }
  for (auto& [name, topic] : short_topics_) topic.subscriber = Subscribe(name);
  if (!extra_.empty()) {
    extra_puller_ = std::make_unique<SoakPuller>(target_, "fan", extra_, &world_);
  }
}

void SoakChurn::Disconnect() {
  pullers_.clear();
  extra_puller_.reset();
  for (auto& [name, topic] : short_topics_) topic.subscriber.reset();
}

void SoakChurn::Join(const std::string& target, int run, bool diligent) {
  Connect(target, run, diligent);
  leaving_ = false;
  thread_ = std::thread([this] {
    while (!leaving_) {
      StepTopics(/*finish=*/false);
      StepSubscription(/*finish=*/false);
      StepRecurrences();
      StepBulk(/*finish=*/false);
      const auto next = std::chrono::steady_clock::now() + period_;
      while (!leaving_ && std::chrono::steady_clock::now() < next) {
        std::this_thread::sleep_for(milliseconds(50));
      }
    }
  });
}

void SoakChurn::Leave() {
  if (!thread_.joinable()) return;
  leaving_ = true;
  thread_.join();
  Disconnect();
}

bool SoakChurn::Finish(const std::string& target, int run, milliseconds timeout) {
  Connect(target, run, /*diligent=*/true);
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  int64_t messages = -1;
  int64_t bytes = 0;
  bool recurrences = false;
  do {
    StepTopics(/*finish=*/true);
    StepSubscription(/*finish=*/true);
    recurrences = recurrences || DeleteRecurrences();
    StepBulk(/*finish=*/true);
    if (!Pending(admin_.get(), &messages, &bytes)) messages = -1;
    if (recurrences && bulk_.empty() && purged_ && extra_.empty() && short_topics_.empty() &&
        messages == 0) {
      Disconnect();
      return true;
    }
    std::this_thread::sleep_for(milliseconds(100));
  } while (std::chrono::steady_clock::now() < deadline);
  std::printf("not finished: %lld messages pending, %zu topics\n", static_cast<long long>(messages),
              short_topics_.size());
  Disconnect();
  return false;
}

void SoakChurn::StepTopics(bool finish) {
  size_t open = 0;
  for (auto it = short_topics_.begin(); it != short_topics_.end();) {
    auto& [name, topic] = *it;
    if (topic.open && (finish || ++topic.age > kOpenSteps)) {
      topic.open = false;
      world_.CloseTopic(name);
    }
    open += topic.open ? 1 : 0;
    v1::DeleteTopicRequest request;
    request.set_name(name);
    v1::DeleteTopicResponse response;
    // A topic that holds messages is not deleted.
    if (!topic.open &&
        Gone(Call(admin_.get(), &v1::Admin::Stub::DeleteTopic, request, &response))) {
      ++counts_.topics_deleted;
      it = short_topics_.erase(it);
    } else {
      ++it;
    }
  }
  if (finish || open >= kOpenMax) return;
  const std::string name = "short/" + std::to_string(topics_made_++ % kShortNames);
  if (short_topics_.contains(name) || !Create(name, "default")) return;
  short_topics_[name].subscriber = Subscribe(name);
  world_.OpenTopic(name);
}

void SoakChurn::StepSubscription(bool finish) {
  if (!extra_.empty()) {
    v1::DeleteSubscriptionRequest request;
    request.set_topic("fan");
    request.set_name(extra_);
    v1::DeleteSubscriptionResponse response;
    if (!Gone(Call(admin_.get(), &v1::Admin::Stub::DeleteSubscription, request, &response))) return;
    ++counts_.subscriptions_deleted;
    extra_puller_.reset();
    extra_.clear();
  }
  if (finish) return;
  // Known before the call, which may have no answer and yet succeed.
  extra_ = "extra-" + std::to_string(extras_made_++ % kExtraNames);
  if (Create("fan", extra_)) {
    extra_puller_ = std::make_unique<SoakPuller>(target_, "fan", extra_, &world_);
  }
}

void SoakChurn::StepRecurrences() {
  for (int i = 0; i < kRecurrenceCalls; ++i) {
    const std::string name = "recur/" + std::to_string(random_() % kRecurrenceNames);
    const uint64_t kind = random_() % 10;
    if (kind < 5) {
      v1::CreateRecurrenceRequest request;
      v1::Recurrence* const recurrence = request.mutable_recurrence();
      recurrence->set_name(name);
      recurrence->set_topic("recur");
      recurrence->mutable_template_()->set_payload(std::string(random_() % 100, 'r'));
      if (kind == 0) {
        recurrence->mutable_schedule()->set_cron("*/2 * * * * *");
      } else {
        recurrence->mutable_schedule()->mutable_interval()->set_seconds(static_cast<int64_t>(kind));
      }
      recurrence->set_misfire(static_cast<v1::Recurrence::Misfire>(1 + random_() % 3));
      v1::CreateRecurrenceResponse response;
      if (Call(messages_.get(), &v1::Messages::Stub::CreateRecurrence, request, &response).ok()) {
        ++counts_.recurrences_created;
      }
    } else if (kind < 7) {
      v1::DeleteRecurrenceRequest request;
      request.set_name(name);
      v1::DeleteRecurrenceResponse response;
      if (Call(messages_.get(), &v1::Messages::Stub::DeleteRecurrence, request, &response).ok()) {
        ++counts_.recurrences_deleted;
      }
    } else if (kind == 7) {
      v1::PauseRecurrenceRequest request;
      request.set_name(name);
      v1::PauseRecurrenceResponse response;
      if (Call(messages_.get(), &v1::Messages::Stub::PauseRecurrence, request, &response).ok()) {
        ++counts_.recurrences_changed;
      }
    } else {
      v1::ResumeRecurrenceRequest request;
      request.set_name(name);
      v1::ResumeRecurrenceResponse response;
      if (Call(messages_.get(), &v1::Messages::Stub::ResumeRecurrence, request, &response).ok()) {
        ++counts_.recurrences_changed;
      }
    }
  }
}

bool SoakChurn::DeleteRecurrences() {
  for (uint64_t i = 0; i < kRecurrenceNames; ++i) {
    v1::DeleteRecurrenceRequest request;
    request.set_name("recur/" + std::to_string(i));
    v1::DeleteRecurrenceResponse response;
    if (!Gone(Call(messages_.get(), &v1::Messages::Stub::DeleteRecurrence, request, &response))) {
      return false;
    }
  }
  return true;
}

void SoakChurn::StepBulk(bool finish) {
  if (!bulk_.empty()) {
    v1::GetOperationRequest request;
    request.set_name(bulk_);
    v1::GetOperationResponse response;
    const grpc::Status status =
        Call(admin_.get(), &v1::Admin::Stub::GetOperation, request, &response);
    const v1::Operation& operation = response.operation();
    if (!Gone(status) || operation.state() == v1::Operation::STATE_RUNNING) return;
    if (status.ok() && operation.state() == v1::Operation::STATE_STARTING) {
      // A kill has met the start. A repeat reaches the shards that are missing.
      v1::StartBulkResponse started;
      Call(admin_.get(), &v1::Admin::Stub::StartBulk, bulk_request_, &started);
      return;
    }
    if (status.ok()) {
      const bool done = operation.state() == v1::Operation::STATE_DONE;
      ++(done ? counts_.bulk_done : counts_.bulk_failed);
      if (!done) std::printf("%s\n", operation.ShortDebugString().c_str());
      purged_ = done && operation.action() == v1::BULK_ACTION_PURGE;
    }
    bulk_.clear();
    if (finish && purged_) return;
  }
  if (finish && purged_) return;
  if (!finish) ScheduleForBulk();
  purged_ = false;
  bulk_ = "soak-" + std::to_string(bulks_made_++);
  v1::StartBulkRequest& request = bulk_request_;
  request.Clear();
  request.set_topic("bulk");
  request.set_name(bulk_);
  const uint64_t kind = finish ? 3 : random_() % 4;
  constexpr v1::BulkAction kActions[] = {v1::BULK_ACTION_CANCEL, v1::BULK_ACTION_SHIFT,
                                         v1::BULK_ACTION_RELEASE, v1::BULK_ACTION_PURGE};
  request.set_action(kActions[kind]);
  if (kind == 0) (*request.mutable_filter()->mutable_labels())["half"] = "1";
  if (kind == 1) request.mutable_shift_by()->set_seconds(60);
  if (kind == 2) request.mutable_filter()->set_key_prefix("b/");
  v1::StartBulkResponse response;
  // If it does not begin, or does not answer, the next step finds out.
  Call(admin_.get(), &v1::Admin::Stub::StartBulk, request, &response);
}

void SoakChurn::ScheduleForBulk() {
  v1::ScheduleBatchRequest batch;
  for (int i = 0; i < kBulkMessages; ++i) {
    v1::ScheduleRequest* const message = batch.add_messages();
    message->set_topic("bulk");
    message->set_payload(std::string(random_() % 200, 'b'));
    message->mutable_delay()->set_seconds(kBulkDelaySeconds);
    (*message->mutable_labels())["half"] = std::to_string(i % 2);
    message->set_key("b/" + std::to_string(bulks_made_) + "/" + std::to_string(i));
  }
  v1::ScheduleBatchResponse response;
  Call(messages_.get(), &v1::Messages::Stub::ScheduleBatch, batch, &response);
}

bool SoakChurn::Pending(v1::Admin::Stub* admin, int64_t* messages, int64_t* bytes) {
  v1::ListTopicsRequest list;
  list.set_page_size(1'000);
  v1::ListTopicsResponse topics;
  if (!Call(admin, &v1::Admin::Stub::ListTopics, list, &topics).ok()) return false;
  *messages = 0;
  *bytes = 0;
  for (const v1::Topic& topic : topics.topics()) {
    v1::GetTopicRequest request;
    request.set_name(topic.name());
    v1::GetTopicResponse response;
    const grpc::Status status = Call(admin, &v1::Admin::Stub::GetTopic, request, &response);
    if (!Gone(status)) return false;
    *messages += response.topic().counts().pending();
    *bytes += response.topic().counts().pending_bytes();
  }
  return true;
}

}  // namespace duetime::crash
