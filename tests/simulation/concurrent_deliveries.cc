// SPDX-License-Identifier: Apache-2.0
//
// The part of ConcurrentContract about deliveries, settlements and the drain.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "server/delivery/endings/retry_backoff.h"
#include "tests/simulation/concurrent_contract.h"

namespace duetime::simulation {

using protocol::LeaseToken;
using protocol::SettleAction;
using storage::MessageId;
using storage::MessageKey;
using storage::SubscriptionId;
using storage::TopicId;

// ---- Deliveries

void ConcurrentContract::OnDelivery(base::Now now, uint16_t shard, TopicId topic,
                                    SubscriptionId subscription, uint64_t lease_ms,
                                    const protocol::Delivery& delivery) {
  storage::MessageRecord record;
  uint64_t number = 0;
  if (!DecodeContent("delivery: ", delivery.record, &record, &number)) return;
  if (record.dead_letter.has_value()) {
    leases_[delivery.token] = {MessageId{}, subscription};
    return OnDeadLetter(number, *record.dead_letter);
  }
  const bool occurrence = !record.recurrence.empty();
  Place place(topic, std::string(record.key));
  if (record.key.empty()) place.second = absl::StrCat(occurrence ? "#o" : "#", number);
  Message& message = MessageOf(delivery.id, place);
  message.occurrence = occurrence;
  message.ordering_key = std::string(record.ordering_key);
  const std::string name = absl::StrCat(delivery.id.ToString(), " (", record.payload, ") for ",
                                        static_cast<uint32_t>(subscription), ": ");
  if (record.header.topic != topic) Violate(name + "delivered to another topic");
  if (message.cancelled) Violate(name + "delivered after CANCELLED (P3)");
  if (message.stopped) Violate(name + "delivered after redelivery_stopped");
  if (message.deliveries > 0 && message.delivered_revision != record.revision) {
    Violate(name + "changed after it was delivered");
  }
  CheckContent(name, number, record, &message);
  Pair& pair = message.pairs[subscription];
  CheckPair(name, number, subscription, delivery, message, pair);
  const PairKey key{delivery.id, subscription};
  CheckOrderingKey(name, now, key, message);
  if (pair.deliveries == 0 && !delivery.maybe_redelivered) CheckDueOrder(shard, record, message);
  if (!leases_.emplace(delivery.token, key).second) Violate(name + "a token was used twice");
  if (!message.ordering_key.empty()) {
    in_order_[{subscription, message.ordering_key}] = delivery.token;
  }
  ++message.deliveries;
  message.delivered_revision = record.revision;
  BeginAttempt(name, now, lease_ms, record.header.deliver_ms, delivery, &pair);
  pair.epoch = epoch_;
  pair.ack_sent = false;
  pair.failures_max += 2;
  pair.reports = pair.unbegun = pair.begun = false;
}

void ConcurrentContract::OnReported(LeaseToken token) {
  Pair* const pair = FindPair(token);
  if (pair == nullptr) return;
  pair->reports = pair->unbegun = true;
  pair->failures_max -= 2;
  // The attempt counts only if the server has heard that it began.
  pair->spared += 2;
}

void ConcurrentContract::CheckContent(const std::string& name, uint64_t number,
                                      const storage::MessageRecord& record, Message* message) {
  const Version version{.number = number, .deliver_ms = record.header.deliver_ms};
  if (record.revision < message->highest) Violate(name + "delivered what was replaced");
  if (message->occurrence) {
    OnOccurrence(message->id, record);
  } else {
    const Key& key = KeyOf(message->place);
    CheckVersion(*message, record.revision, version);
    if (!key.numbers.contains(number) || possible_[number] <= 0) {
      Violate(name + "a content that was refused, or of another key");
    }
    const uint64_t time_ms = record.header.deliver_ms;
    const TopicId topic = message->place.first;
    const bool asked = std::any_of(key.times.begin(), key.times.end(), [&](uint64_t asked_ms) {
      return TimeFits(topic, asked_ms, time_ms);
    });
    if (!key.any_time && !asked) {
      Violate(name + "a time that no call asked for");
    }
    if (!message->versions.contains(record.revision) && !message->unsure && !key.unsure &&
        key.changes_open == 0) {
      Violate(name + "a change that no call asked for");
    }
  }
  message->versions[record.revision] = version;
}

void ConcurrentContract::CheckPair(const std::string& name, uint64_t number, SubscriptionId id,
                                   const protocol::Delivery& delivery, const Message& message,
                                   const Pair& pair) {
  if (pair.acked) Violate(name + "delivered after a confirmed ack");
  if (pair.dead) Violate(name + "delivered after it became a dead letter");
  if (pair.dead_delivered) Violate(name + "delivered beside its dead letter");
  if (delivery.attempt == 0) Violate(name + "attempt 0");
  if (pair.deliveries > 0 && !delivery.maybe_redelivered) {
    Violate(name + "a repeat that does not say so (P9)");
  }
  if (pair.deliveries > 0 && pair.epoch == epoch_ && delivery.attempt != pair.last + 1) {
    Violate(absl::StrCat(name, "attempt ", delivery.attempt, " after ", pair.last));
  }
  if (pair.epoch != epoch_ && delivery.attempt <= pair.failed) {
    Violate(absl::StrCat(name, "attempt ", delivery.attempt, ", after ", pair.failed,
                         " that failed before the crash"));
  }
  const auto subscription = subscriptions_.find(id);
  if (subscription == subscriptions_.end()) {
    if (id != storage::FirstSubscription(message.place.first)) Violate(name + "no subscription");
    return;
  }
  if (message.place.first != subscription->second.topic) Violate(name + "another topic");
  if (number < subscription->second.allowed_from) Violate(name + "older than the subscription");
  const uint32_t most = subscription->second.retry.max_attempts();
  // The attempts before this one have not failed as often as is allowed.
  if (most > 0 && 2 * (uint64_t{delivery.attempt} - 1) >= 2 * uint64_t{most} + pair.spared) {
    Violate(name + "more attempts than are allowed");
  }
}

void ConcurrentContract::CheckDueOrder(uint16_t shard, const storage::MessageRecord& record,
                                       const Message& message) {
  // P8 holds for messages that this run accepted before they were due and that no call moved: for
  // those of each ordering key, and for those without one.
  if (!ByUse(message) || !message.confirmed || message.id.epoch() != epoch_ ||
      message.confirmed_wall_ms >= record.header.deliver_ms || record.revision != 0) {
    return;
  }
  const MessageKey key{.due_ms = message.id.due_ms(), .id = message.id};
  MessageKey& last = last_first_[{shard, message.place.first, message.ordering_key}];
  if (key < last) {
    Violate(absl::StrCat(message.id.ToString(), ": first deliveries out of order (P8): due ",
                         key.due_ms, " after ", last.due_ms));
  }
  last = std::max(last, key);
}

void ConcurrentContract::CheckOrderingKey(const std::string& name, base::Now now,
                                          const PairKey& key, const Message& message) {
  if (message.ordering_key.empty()) return;
  const auto lease = in_order_.find({key.second, message.ordering_key});
  if (lease == in_order_.end() || leases_.at(lease->second) == key) return;
  const Message& before = messages_.at(leases_.at(lease->second).first);
  const Pair& pair = before.pairs.at(key.second);
  if (pair.lease == lease->second && !pair.ack_sent && now.mono_ms < pair.lease_end_mono_ms &&
      !MayBeCancelled(before)) {
    Violate(name + "another message of its ordering key is in flight (P8)");
  }
}

void ConcurrentContract::OnDeadLetter(uint64_t number, const storage::DeadLetterOrigin& origin) {
  ++counts_["dead letters"];
  uint32_t id = 0;
  if (!absl::SimpleAtoi(origin.subscription_name, &id) ||
      !subscriptions_.contains(SubscriptionId{id})) {
    return Violate("a dead letter of no subscription");
  }
  Message& message = MessageOf(origin.id, {origin.origin_topic, absl::StrCat("#", number)});
  Pair& pair = message.pairs[SubscriptionId{id}];
  pair.dead_delivered = true;
  const uint64_t most = subscriptions_.at(SubscriptionId{id}).retry.max_attempts();
  // The last failure may add a whole attempt to a half one.
  const uint64_t halves_max = 2 * most + pair.spared + (pair.spared > 0 ? 1 : 0);
  if (origin.reason == storage::DeadLetterReason::kMaxAttempts &&
      (origin.attempts < most || 2 * uint64_t{origin.attempts} > halves_max)) {
    Violate("a dead letter after another number of attempts than its subscription allows");
  }
  if (origin.reason == storage::DeadLetterReason::kMaxAttempts && pair.failures_max < 2 * most) {
    Violate("a dead letter of attempts that had not begun");
  }
}

void ConcurrentContract::OnOccurrence(const MessageId& id, const storage::MessageRecord& record) {
  ++counts_["occurrences"];
  auto& ids = recurrences_[absl::StrCat(record.recurrence, " ", record.payload)];
  if (ids.emplace(record.occurrence, id).first->second != id) {
    Violate(
        absl::StrCat("occurrence ", record.occurrence, " of ", record.payload, " was made twice"));
  }
}

// ---- Settlements

bool ConcurrentContract::Follows(LeaseToken token) const {
  const auto it = leases_.find(token);
  return it != leases_.end() && it->second.first != MessageId{};
}

bool ConcurrentContract::MayReject(LeaseToken token) const {
  return Follows(token) && subscriptions_.contains(leases_.at(token).second);
}

// The pair with this current lease. Null if the lease is not current or its message is not
// followed.
ConcurrentContract::Pair* ConcurrentContract::FindPair(LeaseToken token) {
  if (!Follows(token)) return nullptr;
  const PairKey& key = leases_.at(token);
  Pair& pair = messages_.at(key.first).pairs.at(key.second);
  return pair.lease == token ? &pair : nullptr;
}

void ConcurrentContract::OnSettleSent(base::Now now, const protocol::SettleCommand& command) {
  const auto begin = [](Pair* pair) {
    if (std::exchange(pair->unbegun, false)) pair->failures_max += 2;
  };
  for (const LeaseToken token : command.begun) {
    if (Pair* const pair = FindPair(token)) begin(pair);
  }
  const auto note_nack = [this](LeaseToken token) {
    Pair* const pair = FindPair(token);
    if (pair != nullptr) nacking_[token] = pair->last;
    return pair;
  };
  for (const protocol::Settlement& one : command.settlements) {
    switch (one.action) {
      case SettleAction::kAck:
      case SettleAction::kDeadLetter:
        settling_[one.token] = one.action == SettleAction::kDeadLetter;
        if (Pair* const pair = FindPair(one.token)) pair->ack_sent = true;
        break;
      case SettleAction::kNack:
        if (Pair* const pair = note_nack(one.token)) begin(pair);
        OnFailed(now, one.token, one.ms);
        break;
      case SettleAction::kRelease:
        if (Pair* const pair = note_nack(one.token)) pair->spared += 2;
        OnFailed(now, one.token, one.ms.value_or(0));
        break;
      case SettleAction::kExtend:
        // An extension may be refused, so the lease certainly lasts only until now.
        if (Pair* const pair = FindPair(one.token)) pair->lease_end_mono_ms = now.mono_ms;
        break;
    }
  }
}

void ConcurrentContract::OnFailed(base::Now now, LeaseToken token,
                                  std::optional<uint64_t> delay_ms) {
  Pair* const pair = FindPair(token);
  // An expired lease may have ended before the nack.
  if (pair == nullptr || pair->ack_sent || now.mono_ms >= pair->lease_end_mono_ms) return;
  ++counts_["failures"];
  const auto subscription = subscriptions_.find(leases_.at(token).second);
  protocol::RetryPolicy retry;
  if (subscription != subscriptions_.end()) retry = subscription->second.retry;
  retry.set_jitter_percent(0);  // jitter lengthens a delay, and only the shortest is promised
  const uint32_t halves = 2 * pair->last - std::min(2 * pair->last, pair->spared);
  pair->Fail(now, delay_ms.value_or(delivery::BackoffMs(retry, (halves + 1) / 2, 0)));
}

void ConcurrentContract::OnDetached(base::Now now, LeaseToken token) {
  Pair* const pair = FindPair(token);
  if (pair == nullptr) return;
  ++pair->spared;
  // What the server has not heard to have begun does not wait.
  const bool waits = !pair->reports || pair->begun;
  OnFailed(now, token, waits ? std::nullopt : std::optional<uint64_t>(0));
}

void ConcurrentContract::OnSettled(base::Now now, const protocol::SettleReply& reply) {
  for (const LeaseToken token : reply.settled) {
    if (!leases_.contains(token)) Violate("settled a token that was never given");
    if (const auto nack = nacking_.find(token); nack != nacking_.end()) {
      const PairKey& key = leases_.at(token);
      Pair& pair = messages_.at(key.first).pairs.at(key.second);
      pair.nacked = std::max(pair.nacked, nack->second);
      nacking_.erase(nack);
    }
    const auto sent = settling_.find(token);
    if (sent == settling_.end()) continue;  // a nack or a release
    const bool rejected = sent->second;
    settling_.erase(sent);
    if (!Follows(token)) continue;
    const MessageId& id = leases_.at(token).first;
    Pair* const pair = FindPair(token);
    if (pair == nullptr) return Violate(id.ToString() + ": a stale lease was settled");
    if (messages_.at(id).cancelled) Violate(id.ToString() + ": acked after CANCELLED");
    (rejected ? pair->dead : pair->acked) = true;
    pair->ack_sent = false;
    pair->lease.reset();
  }
  for (const LeaseToken token : reply.begun) {
    Pair* const pair = FindPair(token);
    if (!leases_.contains(token)) Violate("begun: a token that was never given");
    if (pair == nullptr || !pair->reports || std::exchange(pair->begun, true)) continue;
    ++counts_["begun"];
    pair->spared -= 2;
  }
  for (const protocol::RefusedSettlement& refused : reply.refused) {
    const LeaseToken token = refused.token;
    Pair* const pair = FindPair(token);
    if (settling_.erase(token) == 0 || pair == nullptr) continue;
    pair->ack_sent = false;
    const auto& [id, subscription] = leases_.at(token);
    const auto known = subscriptions_.find(subscription);
    const bool live = known == subscriptions_.end() || known->second.live;
    if (live && now.mono_ms < pair->lease_end_mono_ms && !MayBeCancelled(messages_.at(id))) {
      Violate(id.ToString() + ": a live lease was refused");
    }
  }
}

// ---- The drain

std::string ConcurrentContract::FindLost() {
  std::map<SubscriptionId, uint64_t> missing;
  for (const auto& [id, message] : messages_) {
    const std::string name =
        absl::StrCat(id.ToString(), " of ", message.place.second, ", ", message.deliveries,
                     " deliveries, was accepted and never ended: lost (P1)");
    if (MustExist(message)) return name;
    if (ByUse(message) || !message.confirmed || MayBeCancelled(message)) continue;
    for (const auto& [subscription_id, subscription] : subscriptions_) {
      const uint64_t number = message.versions.rbegin()->second.number;
      if (!subscription.live || subscription.topic != message.place.first ||
          number < subscription.first_number) {
        continue;
      }
      const auto found = message.pairs.find(subscription_id);
      const Pair pair = found == message.pairs.end() ? Pair() : found->second;
      if (pair.dead && !pair.dead_delivered) return id.ToString() + ": its dead letter is lost";
      if (pair.acked || pair.maybe_settled || pair.dead_delivered) continue;
      // The subscription reports the number of messages that it dropped.
      if (++missing[subscription_id] > subscription.dropped_in_all) {
        return absl::StrCat("for ", static_cast<uint32_t>(subscription_id), ": ", name);
      }
    }
  }
  for (const auto& [payload, ids] : recurrences_) {
    // Other recurrences skip some occurrences.
    if (absl::StartsWith(payload, kWholeRecurrence) && ids.rbegin()->first != ids.size()) {
      return absl::StrCat("occurrences of ", payload, " are missing");
    }
  }
  return "";
}

void ConcurrentContract::CheckDrained() {
  if (const std::string lost = FindLost(); !lost.empty()) Violate(lost);
}

}  // namespace duetime::simulation
