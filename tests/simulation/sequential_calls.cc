// SPDX-License-Identifier: Apache-2.0
//
// The part of SequentialCalls that restarts, lets time pass and compares.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "tests/simulation/sequential_calls.h"
#include "tests/support/replies.h"

namespace duetime::simulation {

using storage::AppendOutcome;
using storage::CountLevel;
using storage::IndexKind;
using storage::MessageId;
using storage::MessageKey;
using storage::TopicId;

namespace {

constexpr uint64_t kEver = MessageId::kDueMax;

template <typename T>
void Move(std::vector<T>& from, std::vector<T>* to) {
  std::move(from.begin(), from.end(), std::back_inserter(*to));
}

}  // namespace

SequentialCalls::SequentialCalls(uint64_t seed, PlantedFault fault)
    : World(seed, fault, 1),
      clock_goes_back_(Random(3) == 0),
      retention_ms_([this] {
        limits_.tombstone_retention_ms = 500 + Random(8000);
        limits_.request_retention_ms = 500 + Random(8000);
        // The last topic keeps no tombstones. If the clock may go back, the topic keeps them for a
        // while, because an expired tombstone would become valid again.
        return std::map<TopicId, uint64_t>{{TopicId{1}, limits_.tombstone_retention_ms},
                                           {TopicId{2}, limits_.tombstone_retention_ms},
                                           {TopicId{3}, clock_goes_back_ ? 1000 : 0}};
      }()),
      contract_(retention_ms_, limits_.request_retention_ms) {
  Start();
}

void SequentialCalls::Start() {
  Open();
  Recovered recovered;
  recovered.epoch = store_->epoch();
  // Reads the true claim, without the planted fault.
  recovered.claim_ms = store_->MemoryStore::Marks(0)->claim_ms;
  const auto behind = store_->BacklogSubscriptions(0);
  for (const storage::SubscriptionId subscription : *behind) {
    storage::Page<storage::BacklogRef> page;
    if (!store_->ScanBacklog(0, subscription, {}, {}, &page).ok()) {
      Violate("ScanBacklog failed");
    }
    for (const storage::BacklogRef& item : page.items) {
      const uint64_t due_ms = item.entry.due_ms != 0 ? item.entry.due_ms : item.key.due_ms;
      recovered.backlog[{.due_ms = due_ms, .id = item.key.id}] = {item.key, item.entry};
    }
    const auto claim = store_->BacklogClaim(0, subscription);
    if (claim->has_value()) {
      recovered.backlog_claims[TopicId{static_cast<uint32_t>(subscription)}] = **claim;
    }
    if (claim->has_value() && (*claim)->due_ms > recovered.claim_ms) {
      Violate("a backlog was claimed beyond the claim");
    }
  }
  for (const auto& [id, message] : contract_.messages()) {
    const MessageKey key{.due_ms = message.place_ms, .id = id};
    const auto rows = store_->GetProgress(0, key);
    if (!rows.ok()) Violate("GetProgress failed");
    if (!rows->empty() && !message.pending()) Violate("something is noted of what ended");
    if (!rows->empty()) recovered.progress[key] = rows->front().second;
  }
  if (recovered.claim_ms > latest_wall_ms_ + limits_.scheduler.claim_ahead_ms) {
    Violate("the claim is further ahead than it may be");
  }
  contract_.OnRestart(recovered);
  latest_wall_ms_ = std::max(latest_wall_ms_, now_.wall_ms);
  checked_appends_ = UINT64_MAX;  // forces a new reading of the store
  const TopicId last{kTopics};
  protocol::TopicCommand command;
  command.topic = last;
  command.tombstone_retention_ms = retention_ms_.at(last);
  Send(0, command);
}

void SequentialCalls::Crash() {
  // A process crash keeps every append. A power cut keeps only some of the unsynced ones.
  const size_t unsynced = disk_.unsynced_appends();
  const size_t kept = Chance(50) ? Random(unsynced + 1) : unsynced;
  const std::vector<MessageId> lost = store_->EndsBeyond(kept);
  Count("ends lost", lost.size());
  contract_.OnLost(lost);
  Close(kept, clock_goes_back_);
  Note("crash, ", lost.size(), " ends lost");
  Start();
}

void SequentialCalls::Send(uint16_t, protocol::Command command) {
  Finish(Begin(std::move(command)));
}

void SequentialCalls::Event() {
  const uint64_t what = Random(1000);
  if (what < 300) {
    DoSchedule();
  } else if (what < 400) {
    DoCancel();
  } else if (what < 520) {
    DoReschedule();
  } else if (what < 550) {
    DoInspect();
  } else if (what < 590) {
    const TopicId topic = AnyTopic();
    const int64_t credit = OneOf<int64_t>({1, 3, 1000});
    DoAttach(topic, credit, 20 + Random(1500));
  } else if (what < 610) {
    DoDetach();
  } else if (what < 750) {
    if (!streams_.empty()) DoSettle(AnyOf(streams_)->first, /*ack_all=*/false);
  } else if (what < 980) {
    PassTime();
  } else if (what < 990) {
    Crash();
  } else if (!clock_goes_back_) {
    store_->DropExpired(now_.wall_ms);
  }
  Sample();
  CheckIndex();
  CheckContract();
}

void SequentialCalls::CheckContract() {
  if (!contract_.violation().empty()) Violate(contract_.violation());
}

void SequentialCalls::PassTime() {
  const uint64_t what = Random(100);
  const uint64_t step = what < 70 ? Random(20) : (what < 95 ? Random(500) : Random(12'000));
  now_.mono_ms += step;
  // Now and then the wall clock stands still, as if it had been set back, or jumps ahead.
  if (!Chance(5)) now_.wall_ms += step;
  if (Chance(1)) now_.wall_ms += Random(60'000);
  latest_wall_ms_ = std::max(latest_wall_ms_, now_.wall_ms);
  Note("time passes, ", step, " ms");
  Finish(Begin(std::nullopt));
  CheckNothingWaits();
}

// ---- Steps

protocol::Effects SequentialCalls::Begin(std::optional<protocol::Command> command) {
  protocol::Effects all;
  shard::Shard& shard = *shards_[0];
  const auto collect = [&] {
    protocol::Effects effects = shard.TakeEffects();
    Move(effects.replies, &all.replies);
    Move(effects.frames, &all.frames);
    Move(effects.settles, &all.settles);
    if (effects.failed) Violate("the shard has failed");
  };
  if (command.has_value()) shard.Handle(now_, *std::move(command));
  constexpr int kStepsMax = 10'000;
  bool more = true;
  int wakes = 0;
  for (int steps = 0; more && steps < kStepsMax; ++steps) {
    const shard::StepResult result = shard.Step(now_);
    // A moved message's timer may be late, so the shard gets a few more steps.
    more = result.more || (result.wake_wall_ms <= now_.wall_ms && wakes++ < 3);
    collect();
    if (auto batch = shard.TakeBatch(); batch.has_value()) {
      const AppendOutcome outcome =
          store_->Append(std::span(&batch->records, 1), batch->durability);
      shard.OnCommitted(now_, batch->sequence, outcome);
      collect();
      more = true;
    }
  }
  if (more) Violate("the shard does not come to rest");
  if (next_call_ % 16 == 0) CheckInvariants();  // walks all structures
  return all;
}

void SequentialCalls::Finish(const protocol::Effects& effects) {
  // Checks deliveries after the answers, because they follow from them.
  for (const protocol::DeliveryFrame& frame : effects.frames) {
    const Stream* const stream = Receive(frame);
    if (stream == nullptr) return;
    for (const protocol::Delivery& delivery : frame.deliveries) {
      contract_.OnDelivery(now_, delivery, stream->topic, frame.stream, stream->lease_ms);
    }
  }
  contract_.OnErased(now_, store_->TakeErased());
  CheckContract();
  if (ok()) CheckStored();
}

// ---- Checks

void SequentialCalls::CheckStored() {
  if (checked_appends_ == store_->accepted_appends()) return;
  checked_appends_ = store_->accepted_appends();
  stored_.clear();
  storage::Page<storage::MessageRef> page;
  const storage::ScanLimit limit{.entries = 100'000, .bytes = 1 << 30};
  if (!store_->Scan(0, {}, MessageKey::FirstAt(kEver), limit, &page).ok()) {
    return Violate("Scan failed");
  }
  std::vector<MessageKey> keys;
  for (const storage::MessageRef& message : page.items) keys.push_back(message.key);
  std::vector<std::optional<std::string>> values;
  if (!store_->MultiGet(0, keys, &values).ok()) return Violate("MultiGet failed");
  std::map<std::pair<TopicId, uint64_t>, storage::CountDelta> minutes;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!stored_.emplace(keys[i].id, std::pair(keys[i], *values[i])).second) {
      return Violate("a message is in the store twice");
    }
    storage::CountDelta& count =
        minutes[{page.items[i].topic, storage::BucketStart(CountLevel::kMinute, keys[i].due_ms)}];
    ++count.messages;
    count.bytes += static_cast<int64_t>(values[i]->size());
  }
  contract_.OnStored(stored_);
  CheckCounts(minutes);
}

void SequentialCalls::CheckCounts(
    const std::map<std::pair<TopicId, uint64_t>, storage::CountDelta>& minutes) {
  for (const CountLevel level : storage::kCountLevels) {
    std::map<std::pair<TopicId, uint64_t>, storage::CountDelta> expected;
    for (const auto& [place, count] : minutes) {
      storage::CountDelta& sum = expected[{place.first, storage::BucketStart(level, place.second)}];
      sum.messages += count.messages;
      sum.bytes += count.bytes;
    }
    for (uint32_t topic = 1; topic <= kTopics; ++topic) {
      std::vector<storage::BucketCount> counts;
      if (!store_->ScanCounts(0, TopicId{topic}, level, {0, kEver}, 100'000, &counts).ok()) {
        return Violate("the counters cannot be read");
      }
      for (const storage::BucketCount& count : counts) {
        const auto it = expected.find({TopicId{topic}, count.start_ms});
        if (it == expected.end() || it->second.messages != static_cast<int64_t>(count.messages) ||
            it->second.bytes != static_cast<int64_t>(count.bytes)) {
          return Violate("a counter does not count what is in the store");
        }
        expected.erase(it);
      }
    }
    if (!expected.empty()) return Violate("messages that no counter counts");
  }
}

void SequentialCalls::CheckIndex() {
  for (uint32_t topic = 1; topic <= kTopics && ok(); ++topic) {
    std::vector<storage::IndexRef> entries;
    if (!store_->ScanIndex(0, TopicId{topic}, IndexKind::kUserKey, {"", ""}, 1000, &entries).ok()) {
      return Violate("the index cannot be read");
    }
    for (const storage::IndexRef& ref : entries) {
      const bool pending = stored_.contains(ref.entry.id);
      if (pending != (ref.entry.expire_ms == 0)) {
        Violate(absl::StrCat("the entry of ", ref.name, " for ", ref.entry.id.ToString(),
                             pending ? " ends before its message" : " leads nowhere"));
      }
    }
  }
}

// Checks that streams with credit have all due messages, unless memory is short. Does nothing if
// the clock may go back, because the backlog then waits.
void SequentialCalls::CheckNothingWaits() {
  if (!ok() || clock_goes_back_) return;
  size_t due = 0;
  for (const auto& [id, place] : stored_) due += place.first.due_ms <= now_.wall_ms ? 1 : 0;
  if (2 * due >= limits_.due_max) return;
  for (const auto& [stream_id, stream] : streams_) {
    if (stream.credit->messages() >= stream.messages_max) continue;
    for (const auto& [id, place] : stored_) {
      const SequentialContract::Message& message = contract_.messages().at(id);
      if (message.ask.topic == stream.topic && place.first.due_ms <= now_.wall_ms &&
          !contract_.Leased(message, now_) && message.delay_end_mono_ms <= now_.mono_ms &&
          message.delay_end_wall_ms <= now_.wall_ms) {
        return Violate(absl::StrCat(id.ToString(), " is due at ", place.first.due_ms,
                                    " and nobody is given it; ", Positions()));
      }
    }
  }
}

std::string SequentialCalls::Positions() const {
  const protocol::ShardStats stats = shards_[0]->stats();
  return absl::StrCat("fired ", stats.fired_ms, ", claimed ", stats.claim_ms, ", loaded ",
                      stats.load_ms, ", ", stats.wheel_timers, " timers, ", stats.due_ready,
                      " ready, ", stats.in_flight, " in flight, ", stats.delayed, " delayed, ",
                      stats.topics_behind, " topics behind; due_max ", limits_.due_max,
                      ", due_idle_max ", limits_.due_idle_max);
}

void SequentialCalls::Drain() {
  Crash();
  for (uint32_t i = 1; i <= kTopics; ++i) DoAttach(TopicId{i}, 1000, 30'000);
  constexpr int kRoundsMax = 500;
  for (int round = 0; round < kRoundsMax && ok() && !stored_.empty(); ++round) {
    uint64_t next_ms = kEver;
    for (const auto& [id, place] : stored_) next_ms = std::min(next_ms, place.first.due_ms);
    now_.mono_ms += 1000;
    now_.wall_ms = std::max(now_.wall_ms + 100, next_ms);
    Finish(Begin(std::nullopt));
    for (const auto& [id, stream] : streams_) {
      if (!stream.held.empty()) DoSettle(id, /*ack_all=*/true);
    }
  }
  if (!ok()) return;
  if (!stored_.empty()) {
    const MessageKey& key = stored_.begin()->second.first;
    return Violate(absl::StrCat(key.id.ToString(), ", due at ", key.due_ms, ", at ", now_.wall_ms,
                                " never ended: lost (P1); ", Positions()));
  }
  contract_.CheckDrained();
  // Longer than every delay of an ask and every retention.
  constexpr uint64_t kLongMs = 1'000'000;
  now_.wall_ms = std::max(now_.wall_ms, latest_wall_ms_) + kLongMs;
  now_.mono_ms += kLongMs;
  Finish(Begin(std::nullopt));
  store_->DropExpired(now_.wall_ms);
  for (const auto& [id, message] : contract_.messages()) {
    if (!ok()) return;
    if (message.end == storage::EndState::kExpired) Count("expired");
    const protocol::Target target{.id = id, .topic = {}, .key = ""};
    const protocol::Effects effects =
        Begin(protocol::GetCommand{.tag = NewTag(), .target = target});
    contract_.OnGet(now_, target, test::RepliesOf<protocol::GetReply>(effects).at(0));
    const auto locator = store_->GetLocator(0, id);
    if (!locator.ok() || locator->has_value()) Violate("a locator is kept for ever");
  }
  CheckContract();
  if (!NothingInMemory()) Violate("something is left in memory after the drain");
  if (!NothingStored()) Violate("something is left on disk after the drain");
  CheckNoNames(kTopics);
}

}  // namespace duetime::simulation
