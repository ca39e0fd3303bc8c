// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/cpp/worker.h"

#include <cstdlib>
#include <utility>

namespace duetime::conformance {
namespace {

using client::Settlement;

client::SubscriberOptions OptionsOf(const Json& request, const client::ServerAddress& server) {
  client::SubscriberOptions options;
  options.server = server;
  options.topic = request.at("topic");
  options.subscription = request.value("subscription", "");
  options.client_id = request.value("client_id", "");
  options.max_outstanding_messages = request.value("max_outstanding_messages", 0);
  options.max_outstanding_bytes = request.value("max_outstanding_bytes", int64_t{0});
  options.lease = Millis(request, "lease_ms", options.lease);
  options.extend_max = Millis(request, "extend_max_ms", options.extend_max);
  options.handler_threads = request.value("handlers", options.handler_threads);
  options.batch_max = request.value("batch", options.batch_max);
  options.silence_max = Millis(request, "silence_max_ms", options.silence_max);
  options.backoff.initial = Millis(request, "backoff_initial_ms", options.backoff.initial);
  options.backoff.max = Millis(request, "backoff_max_ms", options.backoff.max);
  return options;
}

Settlement SettlementOf(const Json& json) {
  const std::string kind = json.at("kind");
  const std::string reason = json.value("reason", "");
  const absl::Duration delay = Millis(json, "delay_ms", absl::ZeroDuration());
  if (kind == "ack") return Settlement::Ack();
  if (kind == "nack") {
    return json.contains("delay_ms") ? Settlement::NackAfter(delay, reason)
                                     : Settlement::Nack(reason);
  }
  if (kind == "dead_letter") return Settlement::DeadLetter(reason);
  if (kind == "release") return Settlement::Release(delay);
  if (kind == "leave") return Settlement::Leave();
  if (kind == "raise") throw std::runtime_error(reason);
  throw std::runtime_error("unknown settlement: " + kind);
}

}  // namespace

Worker::Worker(const Json& request, const client::ServerAddress& server)
    : name_(request.at("subscriber")),
      manual_(request.value("mode", "manual") == "manual"),
      handler_time_(Millis(request, "handler_ms", absl::ZeroDuration())),
      exit_on_(request.contains("exit_on") ? std::optional(request.at("exit_on").get<std::string>())
                                           : std::nullopt),
      subscriber_(Must(Start(request, server))),
      watcher_([this] { Watch(); }) {}

absl::StatusOr<std::unique_ptr<client::Subscriber>> Worker::Start(
    const Json& request, const client::ServerAddress& server) {
  const client::SubscriberOptions options = OptionsOf(request, server);
  if (request.contains("batch")) {
    return client::Subscriber::StartBatch(
        options, [this](const auto& deliveries) { return HandleBatch(deliveries); });
  }
  return client::Subscriber::Start(options,
                                   [this](const auto& delivery) { return Handle(delivery); });
}

Worker::~Worker() {
  {
    const base::MutexLock lock(&mutex_);
    closed_ = true;
    changed_.NotifyAll();
  }
  subscriber_->Stop(absl::Seconds(1), absl::Seconds(1)).IgnoreError();
  watcher_.join();
}

Json Worker::Await(absl::Span<const client::Delivery> deliveries, Json event) {
  for (const client::Delivery& delivery : deliveries) {
    if (exit_on_ == delivery.payload()) std::_Exit(3);
  }
  int64_t n = 0;
  {
    const base::MutexLock lock(&mutex_);
    n = ++calls_;
  }
  event["subscriber"] = name_;
  event["n"] = n;
  Print(event);
  const base::MutexLock lock(&mutex_);
  if (!manual_) {
    // Only the end of this object wakes the wait.
    const auto time = absl::ToChronoNanoseconds(handler_time_);
    while (!closed_ && changed_.WaitFor(&mutex_, time)) {
    }
    return {{"settlements", Json::array()}, {"settlement", {{"kind", "ack"}}}};
  }
  while (!closed_ && !endings_.contains(n)) changed_.Wait(&mutex_);
  const auto found = endings_.extract(n);
  return found.empty() ? Json{{"settlement", {{"kind", "leave"}}}} : found.mapped();
}

Settlement Worker::Handle(const client::Delivery& delivery) {
  const Json event = {{"event", "delivery"}, {"delivery", ToJson(delivery.proto())}};
  return SettlementOf(Await({&delivery, 1}, event).at("settlement"));
}

std::vector<Settlement> Worker::HandleBatch(absl::Span<const client::Delivery> deliveries) {
  Json list = Json::array();
  for (const client::Delivery& delivery : deliveries) list.push_back(ToJson(delivery.proto()));
  const Json ending = Await(deliveries, {{"event", "batch"}, {"deliveries", list}});
  if (!ending.contains("settlements")) {
    return std::vector<Settlement>(deliveries.size(), SettlementOf(ending.at("settlement")));
  }
  std::vector<Settlement> settlements;
  for (const Json& json : ending.at("settlements")) settlements.push_back(SettlementOf(json));
  return settlements;
}

void Worker::Finish(int64_t n, const Json& ending) {
  const base::MutexLock lock(&mutex_);
  endings_.insert_or_assign(n, ending);
  changed_.NotifyAll();
}

bool Worker::Stop(absl::Duration handlers, absl::Duration confirm) {
  return subscriber_->Stop(confirm, handlers).ok();
}

void Worker::Watch() {
  // The subscriber wakes this thread only when it ends by itself.
  while (!subscriber_->WaitUntilEnded(absl::Milliseconds(100))) {
    const base::MutexLock lock(&mutex_);
    if (closed_) return;
  }
  Print({{"event", "ended"}, {"subscriber", name_}, {"error", ToJson(subscriber_->status())}});
}

Json Worker::Counts() const {
  const client::SubscriberCounts counts = subscriber_->counts();
  return {{"delivered", counts.delivered}, {"acked", counts.acked},
          {"nacked", counts.nacked},       {"dead_lettered", counts.dead_lettered},
          {"released", counts.released},   {"left", counts.left},
          {"refused", counts.refused},     {"lost", counts.lost},
          {"skipped", counts.skipped},     {"streams", counts.streams},
          {"extended", counts.extended},   {"leases_lost", counts.leases_lost}};
}

}  // namespace duetime::conformance
