// SPDX-License-Identifier: Apache-2.0
//
// The part of ConcurrentCalls that drains the shards and checks bounds and leftovers.
#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "server/delivery/backlog/backlog_place.h"
#include "storage/message_record.h"
#include "tests/simulation/concurrent_calls.h"

namespace duetime::simulation {

using storage::MessageId;
using storage::MessageKey;
using storage::SubscriptionId;
using storage::TopicId;

// ---- Bounds: how many messages a subscription keeps

std::set<MessageKey> ConcurrentCalls::Unsettled(
    SubscriptionId id, const ConcurrentContract::Subscription& subscription) {
  storage::Page<storage::MessageRef> page;
  if (!store_->Scan(0, {}, MessageKey::FirstAt(now_.wall_ms + 1), {}, &page).ok()) return {};
  std::set<MessageKey> unsettled;
  for (const storage::MessageRef& item : page.items) {
    if (item.topic != subscription.topic) continue;
    const auto bytes = store_->Get(0, item.key);
    storage::MessageRecord record;
    uint64_t number = 0;
    if (!storage::DecodeMessageRecord(**bytes, &record).ok() ||
        !absl::SimpleAtoi(record.payload.substr(1), &number) ||
        number < subscription.allowed_from) {
      continue;
    }
    const auto rows = store_->GetProgress(0, item.key);
    const bool settled = std::any_of(rows->begin(), rows->end(), [id](const auto& row) {
      return row.first == id && row.second.state == storage::Progress::State::kSettled;
    });
    if (!settled) unsettled.insert(item.key);
  }
  return unsettled;
}

uint64_t ConcurrentCalls::StaleEntries(SubscriptionId id, const std::set<MessageKey>& unsettled) {
  storage::Page<storage::BacklogRef> page;
  if (!store_->ScanBacklog(0, id, {}, {}, &page).ok()) return 0;
  return static_cast<uint64_t>(std::count_if(
      page.items.begin(), page.items.end(),
      [&unsettled](const auto& item) { return !unsettled.contains(delivery::KeyOf(item)); }));
}

std::map<SubscriptionId, uint64_t> ConcurrentCalls::CountKept() {
  std::map<SubscriptionId, uint64_t> kept;
  // While a batch is in flight the store cannot tell. With several shards each has a share of the
  // bound.
  if (shard_count_ > 1 || !journal_.empty() || !untold_.empty() || appending_ || fault_expected_ ||
      !Chance(40)) {
    return kept;
  }
  for (const auto& [id, subscription] : contract_.subscriptions()) {
    if (!subscription.live || subscription.bound == 0) continue;
    const std::set<MessageKey> unsettled = Unsettled(id, subscription);
    kept[id] = unsettled.size() + StaleEntries(id, unsettled);
  }
  return kept;
}

const protocol::SubscriptionGauges& ConcurrentCalls::Inspect(uint16_t shard, SubscriptionId id) {
  Send(shard, protocol::InspectSubscriptionCommand{.tag = NewTag(), .subscription = id});
  return inspected_;
}

void ConcurrentCalls::CheckDropped(uint16_t shard, const std::map<SubscriptionId, uint64_t>& kept) {
  // The answer would wait.
  if (!host_->MayServe()) return;
  for (auto& [id, subscription] : contract_.subscriptions()) {
    if (!subscription.live || subscription.bound == 0 || failed_) continue;
    uint64_t& before = subscription.dropped[shard];
    const uint64_t dropped = Inspect(shard, id).dropped - before;
    before += dropped;
    subscription.dropped_in_all += dropped;
    Count("given up", dropped);
    const auto waited = kept.find(id);
    if (dropped > 0 && !subscription.bound_is_new && waited != kept.end() &&
        waited->second < subscription.bound + dropped) {
      Violate(absl::StrCat("subscription ", static_cast<uint32_t>(id), " gave up ", dropped,
                           " messages of ", waited->second, ", and may keep ", subscription.bound));
    }
  }
}

std::string ConcurrentCalls::BeyondBounds() {
  // A shard's count may miss messages that change while they are counted or read back.
  constexpr uint64_t kMissedMax = 25;
  for (const auto& [id, subscription] : contract_.subscriptions()) {
    if (!subscription.live || subscription.bound == 0) continue;
    const protocol::SubscriptionGauges& gauges = Inspect(0, id);
    // Some entries of the backlog may also be in memory, so the larger number counts.
    storage::Page<storage::BacklogRef> page;
    if (!store_->ScanBacklog(0, id, {}, {}, &page).ok()) return "the backlog cannot be read";
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

// Checks that without streams no subscription keeps more than its bound.
void ConcurrentCalls::CheckBounds() {
  while (!streams_.empty()) DoDetach();
  constexpr int kSteps = 1000;
  for (int i = 1; i <= kSteps && ok(); ++i) {
    now_.mono_ms += 50;
    now_.wall_ms += 50;
    StepShard(0);
    CommitQueue();
    if (i % 50 != 0) continue;
    const std::string beyond = BeyondBounds();
    if (beyond.empty()) return;
    // A message must enter memory before the shard gives it up, and other subscriptions may fill
    // the memory.
    const protocol::ShardStats stats = shards_[0]->stats();
    const uint64_t in_memory = stats.due_ready + stats.in_flight + stats.delayed + stats.blocked;
    if (i == kSteps && in_memory < 2 * limits_.due_max) Violate(beyond);
  }
}

// ---- Backlogs

std::optional<std::map<uint64_t, int64_t>> ConcurrentCalls::DoneByMinute(
    uint16_t shard, const protocol::SubscriptionState& of) {
  std::map<uint64_t, int64_t> minutes;
  storage::Page<storage::MessageRef> page;
  const storage::ScanLimit all{.entries = 100'000, .bytes = 1 << 30};
  const MessageKey last = MessageKey::FirstAt(MessageId::kDueMax);
  if (!store_->TestStore::Scan(shard, {}, last, all, &page).ok()) return std::nullopt;
  for (const storage::MessageRef& item : page.items) {
    if (item.topic != of.topic) continue;
    const auto rows = store_->TestStore::GetProgress(shard, item.key);
    if (!rows.ok()) return std::nullopt;
    const bool settled = std::any_of(rows->begin(), rows->end(), [&of](const auto& row) {
      return row.first == of.id && row.second.state == storage::Progress::State::kSettled;
    });
    if (!settled && of.start <= item.key.id) continue;
    ++minutes[storage::BucketStart(storage::CountLevel::kMinute, item.key.due_ms)];
    Count(settled ? "settled for one" : "older than a subscription");
  }
  return minutes;
}

void ConcurrentCalls::CheckDone() {
  // Reads without the planted fault. Now and then all reads fail.
  if (damaged_ > 0 || failed_ || fault_expected_) return;
  const storage::MsRange ever{.from_ms = 0, .until_ms = MessageId::kDueMax};
  for (uint16_t shard = 0; shard < shard_count_; ++shard) {
    std::vector<storage::ObjectRef> objects;
    const auto kind = storage::ObjectKind::kSubscription;
    if (!store_->TestStore::ScanObjects(kind, shard, "", 1'000, &objects).ok()) return;
    for (const storage::ObjectRef& object : objects) {
      const auto of = protocol::DecodeSubscription(object.name, object.value);
      if (!of.ok()) return Violate("a subscription cannot be decoded");
      if (of->deleting || of->deleted) continue;
      auto missing = DoneByMinute(shard, *of);
      std::vector<storage::BucketCount> counts;
      if (!missing.has_value() ||
          !store_->TestStore::ReadDone(shard, of->id, ever, 100'000, &counts).ok()) {
        return;
      }
      for (const storage::BucketCount& count : counts) {
        (*missing)[count.start_ms] -= static_cast<int64_t>(count.messages);
      }
      for (const auto& [minute_ms, messages] : *missing) {
        if (messages == 0) continue;
        Violate(absl::StrCat("of minute ", minute_ms, ", ", messages,
                             " messages more are done for subscription ",
                             static_cast<uint32_t>(of->id), " than its counter says"));
      }
    }
  }
}

// ---- Bulk operations

void ConcurrentCalls::CheckOperations() {
  constexpr size_t kOperationsMax = 1'000;
  std::vector<storage::ObjectRef> objects;
  if (!store_->ScanObjects(storage::ObjectKind::kOperation, 0, "", kOperationsMax, &objects).ok()) {
    return Violate("the operations cannot be read");
  }
  for (const storage::ObjectRef& object : objects) {
    const auto first = protocol::DecodeOperation(object.name, object.value);
    if (!first.ok()) return Violate("an operation cannot be decoded");
    for (uint16_t shard = 1; shard < shard_count_; ++shard) {
      const auto bytes = store_->GetObject(storage::ObjectKind::kOperation, shard, object.name);
      if (!bytes.ok()) return Violate("an operation cannot be read");
      const auto part = protocol::DecodeOperation(object.name, bytes->value_or(""));
      if (part.ok() && part->first_ms == first->first_ms) continue;
      Violate(absl::StrCat(object.name, " has not started in shard ", shard));
    }
  }
}

// ---- The drain

void ConcurrentCalls::StopAll(bool check_bounds) {
  healing_ = true;
  StopRecurrences();
  CommitQueue();
  // A delete that would have waited may have been refused as OVERLOADED. Now it need not wait.
  StopRecurrences();
  CommitQueue();
  if (check_bounds && shard_count_ == 1) CheckBounds();
}

void ConcurrentCalls::AttachAll() {
  auto& subscriptions = contract_.subscriptions();
  for (uint32_t i = 1; i <= kTopics; ++i) {
    const SubscriptionId first = storage::FirstSubscription(TopicId{i});
    if (subscriptions.contains(first)) continue;
    DoAttach(first, TopicId{i}, 1000, 30'000);
    if (i <= kByUse) continue;
    // The topic had no subscription until now. This one takes all its messages.
    subscriptions[first].topic = TopicId{i};
    subscriptions[first].live = true;
  }
  for (const auto& [id, subscription] : subscriptions) {
    if (subscription.live) DoAttach(id, subscription.topic, 1000, 30'000);
  }
  DoAttach(storage::FirstSubscription(kDeadLetters), kDeadLetters, 1000, 30'000);
}

void ConcurrentCalls::RunUntil(const std::function<bool()>& done) {
  constexpr int kRoundsMax = 2000;
  for (int round = 0; round < kRoundsMax && ok(); ++round) {
    now_.mono_ms += 100;
    now_.wall_ms += 100;
    for (uint16_t i = 0; i < shard_count_; ++i) StepShard(i);
    for (const auto& [id, stream] : streams_) DoSettle(id, /*ack_all=*/true);
    for (uint16_t i = 0; i < shard_count_; ++i) Collect(i);
    CommitQueue();
    if (failed_) return Violate("the server failed in the drain");
    if (round % 20 == 0) CheckInvariants();
    CheckContract();
    if (round % 50 == 49 && done()) break;
  }
}

void ConcurrentCalls::DrainAroundDamage() {
  if (!StillLeads() || fault_expected_) Crash();
  while (ok() && !StillLeads()) Crash();
  StopAll(/*check_bounds=*/false);
  AttachAll();
  RunUntil([this] { return contract_.FindLost().empty(); });
  if (!ok()) return;
  contract_.CheckDrained();
  CheckContract();
  Count("drained around damage");
  // The disk is repaired, and the next run finds the messages.
  if (ok()) Crash();
}

void ConcurrentCalls::Drain() {
  if (damaged_ > 0) DrainAroundDamage();
  if (!ok()) return;
  // At times no crash comes first, so that every call must be answered.
  if (!StillLeads() || fault_expected_ || Chance(50)) Crash();
  // In a cell, another member may have begun to lead by then.
  while (ok() && !StillLeads()) Crash();
  StopAll(/*check_bounds=*/true);
  AttachAll();
  RunUntil([this] { return NothingInMemory() && NothingStored(); });
  for (const auto& [what, times] : contract_.counts()) Count(what, times);
  if (!ok()) return;
  contract_.CheckDrained();
  CheckContract();
  CheckOperations();
  CheckNothingLeft();
  if (!calls_.empty()) Violate("a call was never answered");
  CheckForgotten(contract_.ids(), static_cast<uint32_t>(kDeadLetters));
}

}  // namespace duetime::simulation
