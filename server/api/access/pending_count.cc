// SPDX-License-Identifier: Apache-2.0
#include "server/api/access/pending_count.h"

#include <optional>
#include <utility>
#include <vector>

#include "server/query/forecast_query.h"

namespace duetime::api {
namespace {

using access::CallerPtr;
using access::Meter;
using access::PendingMeter;
using access::Verb;

constexpr size_t kTopicsAtOnce = 1'000;

// Adds the pending messages of the topic. Returns false if a counter cannot be read.
bool AddPending(const ServingContext& context, storage::TopicId topic, PendingMeter::Amount* sum) {
  query::PendingCount count;
  if (!query::ReadPending(context.store, topic, &count).ok()) return false;
  sum->messages += count.messages;
  sum->bytes += count.bytes;
  return true;
}

// A count of several topics. On the reader's thread.
class TopicsCount {
 public:
  TopicsCount(ServingContext* context, CallerPtr caller)
      : context_(context), caller_(std::move(caller)) {}

  // Counts some topics. Then either posts the rest of the work, or ends the count.
  static void Step(const std::shared_ptr<TopicsCount>& count) {
    const std::optional<bool> more = count->CountSome();
    if (!more.has_value()) return count->End(std::nullopt);
    if (!*more) return count->End(count->sum_);
    // A busy reader ends the count without a result.
    if (!count->context_->reader->Post([count] { Step(count); }).ok()) count->End(std::nullopt);
  }
  void End(const std::optional<PendingMeter::Amount>& counted) {
    caller_->meter()->EndCount(context_->machine_clock->Read().mono_ms, counted);
    if (counted.has_value()) caller_->NotePending(counted->messages, counted->bytes);
  }

 private:
  // Whether topics are left. Empty: a counter cannot be read.
  std::optional<bool> CountSome() {
    const auto topics = context_->catalog().ListTopics("", after_, kTopicsAtOnce);
    for (const catalog::TopicPtr& topic : topics) {
      if (!caller_->Allows(Verb::kSchedule, topic->name())) continue;
      if (!AddPending(*context_, topic->id, &sum_)) return std::nullopt;
    }
    if (topics.size() < kTopicsAtOnce) return false;
    after_ = std::string(topics.back()->name());
    return true;
  }

  ServingContext* const context_;
  const CallerPtr caller_;
  std::string after_;
  PendingMeter::Amount sum_;
};

}  // namespace

void CountPendingOf(ServingContext& context, const CallerPtr& caller) {
  if (!caller->meter()->BeginCount(context.machine_clock->Read().mono_ms)) return;
  const auto count = std::make_shared<TopicsCount>(&context, caller);
  if (!context.reader->Post([count] { TopicsCount::Step(count); }).ok()) count->End(std::nullopt);
}

void CountPendingOfTopic(ServingContext& context, const std::string& topic,
                         const std::shared_ptr<Meter>& meter) {
  if (!meter->BeginCount(context.machine_clock->Read().mono_ms)) return;
  const catalog::TopicPtr found = context.catalog().FindTopic(topic);
  const auto count = [&context, found, meter] {
    PendingMeter::Amount sum;
    const bool known = found == nullptr || AddPending(context, found->id, &sum);
    meter->EndCount(context.machine_clock->Read().mono_ms,
                    known ? std::optional(sum) : std::nullopt);
  };
  if (!context.reader->Post(count).ok()) {
    meter->EndCount(context.machine_clock->Read().mono_ms, std::nullopt);
  }
}

}  // namespace duetime::api
