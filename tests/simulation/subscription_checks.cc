// SPDX-License-Identifier: Apache-2.0
//
// The part of SubscriptionWorld that judges what the shard does.
#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "tests/simulation/subscription_world.h"

namespace duetime::simulation {

using delivery::CallTag;
using delivery::LeaseToken;
using delivery::StreamId;
using storage::SubscriptionId;

void SubscriptionWorld::Apply(const delivery::Effects& effects) {
  for (const auto& reply : effects.schedules) {
    const auto call = schedules_.find(reply.tag);
    if (call == schedules_.end()) continue;
    Message& message = messages_[call->second];
    schedules_.erase(call);
    if (!reply.status.ok()) {
      message.unknown = true;
      continue;
    }
    ++report_.accepted;
    message.accepted = true;
    message.id = reply.accepted.at(0).id;
  }
  for (const auto& frame : effects.frames) {
    const auto stream = streams_.find(frame.stream);
    if (stream == streams_.end()) return Violate("a frame for a stream that is gone");
    for (const auto& delivery : frame.deliveries) {
      OnDelivery(stream->second, delivery);
      stream->second.held.push_back(delivery.token);
    }
  }
  for (const auto& reply : effects.settles) {
    for (const LeaseToken token : reply.settled) OnSettled(token);
    for (const auto& [token, why] : reply.refused) {
      const Pair& pair = pairs_[leases_[token]];
      if (settling_.erase(token) > 0 && pair.lease == token &&
          now_.mono_ms < pair.lease_end_mono_ms && !messages_[leases_[token].first].cancelled &&
          !messages_[leases_[token].first].maybe_cancelled &&
          subscriptions_[leases_[token].second].live) {
        Violate("a live lease was refused");
      }
    }
  }
  for (const auto& reply : effects.cancels) {
    const auto call = cancels_.find(reply.tag);
    if (call == cancels_.end()) continue;
    const uint64_t number = call->second;
    Message& message = messages_[number];
    cancels_.erase(call);
    message.maybe_cancelled = false;
    if (!reply.status.ok()) continue;
    if (reply.outcome == delivery::Outcome::kDone) {
      for (const auto& [key, pair] : pairs_) {
        if (key.first == number && pair.deliveries > 0) {
          Violate(absl::StrCat("message ", number, ": CANCELLED although it was delivered (P3)"));
        }
      }
    }
    if (reply.outcome == delivery::Outcome::kDone || reply.redelivery_stopped) {
      message.cancelled = true;
    }
  }
  for (const auto& reply : effects.subscriptions) changes_.erase(reply.tag);
  if (!effects.subscription_gauges.empty()) inspected_ = effects.subscription_gauges.back();
  if (effects.failed) Violate("the shard has failed");
}

void SubscriptionWorld::OnDelivery(const Stream& stream, const delivery::Delivery& delivery) {
  ++report_.deliveries;
  storage::MessageRecord record;
  uint64_t number = 0;
  if (!storage::DecodeMessageRecord(delivery.record, &record).ok() ||
      !absl::SimpleAtoi(record.payload, &number) || !messages_.contains(number)) {
    return Violate("a delivery that cannot be read");
  }
  if (record.dead_letter.has_value()) {
    // 0: no message of ours, so that nothing more is checked of its lease.
    leases_[delivery.token] = {0, stream.subscription};
    uint32_t id = 0;
    if (!absl::SimpleAtoi(record.dead_letter->subscription_name, &id)) {
      return Violate("a dead letter of nobody");
    }
    ++report_.dead_letters;
    Pair& pair = pairs_[{number, SubscriptionId{id}}];
    pair.dead_delivered = true;
    const delivery::RetryPolicy& retry = subscriptions_[SubscriptionId{id}].retry;
    if (record.dead_letter->reason == storage::DeadLetterReason::kMaxAttempts &&
        record.dead_letter->attempts != retry.max_attempts) {
      Violate("a dead letter after another number of attempts than its subscription allows");
    }
    return;
  }
  const PairKey key{number, stream.subscription};
  Message& message = messages_[number];
  Subscription& subscription = subscriptions_[stream.subscription];
  Pair& pair = pairs_[key];
  const std::string name = absl::StrCat("message ", number, " of subscription ",
                                        static_cast<uint32_t>(stream.subscription), ": ");
  if (message.topic != subscription.topic) Violate(name + "delivered to another topic");
  if (now_.wall_ms < message.deliver_ms) Violate(name + "early (P2)");
  if (message.cancelled) Violate(name + "delivered after its cancel (P3)");
  if (number < subscription.allowed_from) Violate(name + "older than the subscription");
  if (pair.acked) Violate(name + "delivered after a confirmed ack");
  if (pair.dead) Violate(name + "delivered after it became a dead letter");
  if (pair.dead_delivered) Violate(name + "delivered beside its dead letter");
  if (pair.lease.has_value() && now_.mono_ms < pair.lease_end_mono_ms) {
    Violate(name + "two leases at once");
  }
  if (now_.mono_ms < pair.retry_mono_ms && now_.wall_ms < pair.retry_wall_ms) {
    Violate(name + "before the time of its next attempt");
  }
  if (pair.run == run_ && delivery.attempt != pair.attempts + 1) {
    Violate(absl::StrCat(name, "attempt ", delivery.attempt, " after ", pair.attempts));
  }
  if (pair.run != run_ && delivery.attempt <= pair.failed) {
    Violate(absl::StrCat(name, "attempt ", delivery.attempt, ", after ", pair.failed,
                         " that failed before the crash"));
  }
  if (pair.deliveries > 0 && !delivery.maybe_redelivered) {
    Violate(name + "a repeat that does not say so (P9)");
  }
  const uint32_t most = subscription.retry.max_attempts;
  if (most > 0 && delivery.attempt > most) Violate(name + "more attempts than are allowed");
  CheckOrder(name, key, message);
  ++pair.deliveries;
  pair.attempts = delivery.attempt;
  pair.run = run_;
  pair.lease = delivery.token;
  pair.lease_end_mono_ms = now_.mono_ms + stream.lease_ms;
  pair.retry_mono_ms = pair.retry_wall_ms = 0;
  pair.ack_sent = false;
  if (!leases_.emplace(delivery.token, key).second) Violate(name + "a token was used twice");
  if (!message.order.empty()) in_order_[{key.second, message.order}] = delivery.token;
}

void SubscriptionWorld::CheckGivenUp(const std::map<SubscriptionId, uint64_t>& before) {
  for (auto& [id, subscription] : subscriptions_) {
    if (!subscription.live || subscription.bound == 0) continue;
    Send(delivery::InspectSubscriptionCommand{.tag = CallTag{next_call_++}, .subscription = id});
    const uint64_t dropped = inspected_.gauges.dropped - subscription.dropped;
    subscription.dropped += dropped;
    subscription.dropped_in_all += dropped;
    report_.given_up += dropped;
    const auto waited = before.find(id);
    if (dropped > 0 && waited != before.end() && waited->second < subscription.bound + dropped) {
      Violate(absl::StrCat("subscription ", static_cast<uint32_t>(id), " gave up ", dropped,
                           " messages of ", waited->second, ", and may keep ", subscription.bound));
    }
  }
}

std::string SubscriptionWorld::BeyondBounds(storage::MessageStore* listed) {
  // What was changed just when it was counted or read back is left out.
  constexpr uint64_t kMissedMax = 25;
  for (const auto& [id, subscription] : subscriptions_) {
    if (!subscription.live || subscription.bound == 0) continue;
    Send(delivery::InspectSubscriptionCommand{.tag = CallTag{next_call_++}, .subscription = id});
    const delivery::SubscriptionGauges& gauges = inspected_.gauges;
    // Some of what is listed may be in memory, too.
    storage::Page<storage::BacklogRef> page;
    if (!listed->ScanBacklog(0, id, {}, {}, &page).ok()) return "the backlog cannot be read";
    const uint64_t others = gauges.in_flight + gauges.delayed + gauges.blocked;
    const uint64_t waiting = std::max<uint64_t>(gauges.ready, page.items.size());
    if (waiting > subscription.bound + others + kMissedMax) {
      return absl::StrCat("subscription ", static_cast<uint32_t>(id), " keeps ", waiting,
                          " messages instead of ", subscription.bound, ", ", others,
                          " of which do not count");
    }
  }
  return "";
}

// Nobody takes anything; then no more may wait than are to be kept.
void SubscriptionWorld::CheckBounds(storage::MessageStore* store) {
  while (!streams_.empty()) DoDetach();
  constexpr int kSteps = 1000;
  for (int i = 1; i <= kSteps && report_.violation.empty(); ++i) {
    now_.mono_ms += 50;
    now_.wall_ms += 50;
    Step();
    while (!journal_.empty()) Commit();
    if (i % 50 != 0) continue;
    const std::string beyond = BeyondBounds(store);
    if (beyond.empty()) return;
    // What is given up has to pass through memory, which may be full of what others wait for.
    const delivery::ShardStats stats = shard_->stats();
    const uint64_t in_memory = stats.due_ready + stats.in_flight + stats.delayed + stats.blocked;
    if (i == kSteps && in_memory < 2 * limits_.due_max) Violate(beyond);
  }
}

void SubscriptionWorld::CheckOrder(const std::string& name, const PairKey& key,
                                   const Message& message) {
  if (message.order.empty()) return;
  const LeaseToken last = in_order_[{key.second, message.order}];
  const auto before = leases_.find(last);
  if (before != leases_.end() && before->second != key) {
    const Pair& pair = pairs_[before->second];
    if (pair.lease == last && !pair.ack_sent && now_.mono_ms < pair.lease_end_mono_ms &&
        !messages_[before->second.first].cancelled &&
        !messages_[before->second.first].maybe_cancelled) {
      Violate(name + "another one of its ordering key is in flight");
    }
  }
}

void SubscriptionWorld::CheckDrained() {
  if (!Empty()) {
    const delivery::ShardStats stats = shard_->stats();
    storage::Page<storage::MessageRef> page;
    const auto end = storage::MessageKey::FirstAt(storage::MessageId::kDueMax);
    const bool read = store_->Scan(0, {}, end, {}, &page).ok();
    const auto behind = store_->BacklogSubscriptions(0);
    std::string detail;
    for (const auto& item : page.items) {
      absl::StrAppend(&detail, item.key.id.ToString(), " due ", item.key.due_ms, " of topic ",
                      static_cast<uint32_t>(item.topic), ", noted:");
      const auto rows = store_->GetProgress(0, item.key);
      for (const auto& [id, progress] : *rows) {
        absl::StrAppend(&detail, " ", static_cast<uint32_t>(id), " ",
                        static_cast<int>(progress.state), "/", progress.attempts);
      }
    }
    for (const auto& [id, subscription] : subscriptions_) {
      absl::StrAppend(&detail, "; ", static_cast<uint32_t>(id), " of ",
                      static_cast<uint32_t>(subscription.topic), subscription.live ? " live" : "",
                      ", from ", subscription.allowed_from);
    }
    Violate(
        absl::StrCat("something is left after the drain: ", read ? page.items.size() : 0,
                     " messages, ", behind.ok() ? behind->size() : 0, " backlogs, the first of ",
                     behind.ok() && !behind->empty() ? static_cast<uint32_t>(behind->front()) : 0,
                     "; ", stats.due_ready, " ready, ", stats.in_flight, " in flight, ",
                     stats.delayed, " delayed, ", stats.blocked, " blocked, ", stats.wheel_timers,
                     " timers, ", stats.topics_behind, " behind; ", detail));
  }
  std::map<SubscriptionId, uint64_t> missing;
  for (const auto& [number, message] : messages_) {
    if (!message.accepted || message.unknown || message.cancelled) continue;
    // Past the sabotage.
    const auto rows =
        store_->MemoryStore::GetProgress(0, {.due_ms = message.id.due_ms(), .id = message.id});
    if (!rows.ok() || !rows->empty()) {
      Violate(absl::StrCat("message ", number, " ", message.id.ToString(),
                           ": something is noted of it for ever"));
    }
    for (const auto& [id, subscription] : subscriptions_) {
      if (!subscription.live || subscription.topic != message.topic ||
          number < subscription.first_number) {
        continue;
      }
      const Pair& pair = pairs_[{number, id}];
      if (pair.dead && !pair.dead_delivered) {
        Violate(absl::StrCat("message ", number, ": its dead letter is lost"));
      }
      if (pair.acked || pair.maybe_settled || pair.dead_delivered) continue;
      // It has said so.
      if (++missing[id] <= subscription.dropped_in_all) continue;
      Violate(absl::StrCat("message ", number, " of subscription ", static_cast<uint32_t>(id), ", ",
                           pair.deliveries, " deliveries, never ended: lost (P1)"));
    }
  }
}

}  // namespace duetime::simulation
