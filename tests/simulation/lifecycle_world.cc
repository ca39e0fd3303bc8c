// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/lifecycle_world.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace duetime::simulation {

using storage::AppendOutcome;
using storage::CountLevel;
using storage::Durability;
using storage::IndexKind;
using storage::MessageId;
using storage::MessageKey;
using storage::Record;
using storage::RecordType;
using storage::TopicId;

namespace {

constexpr uint64_t kStartMs = 1'800'000'000'000;
constexpr uint64_t kEver = MessageId::kDueMax;

template <typename T>
void Move(std::vector<T>& from, std::vector<T>* to) {
  std::move(from.begin(), from.end(), std::back_inserter(*to));
}

}  // namespace

void LifecycleReport::Add(const LifecycleReport& other) {
  events += other.events;
  created += other.created;
  replaced += other.replaced;
  unchanged += other.unchanged;
  refused += other.refused;
  cancelled += other.cancelled;
  rescheduled += other.rescheduled;
  deliveries += other.deliveries;
  expired += other.expired;
  lost_ends += other.lost_ends;
  uncertain += other.uncertain;
  crashes += other.crashes;
  spilled += other.spilled;
}

// A MemoryStore with the faults of a sabotage, that notes which messages leave it, and which of
// these ends a power cut would take back.
class LifecycleWorld::NotingStore : public storage::MemoryStore {
 public:
  NotingStore(storage::MemoryDisk* disk, LifecycleSabotage sabotage)
      : MemoryStore(disk), disk_(disk), sabotage_(sabotage) {}

  AppendOutcome Append(std::span<const storage::RecordBatch> group,
                       Durability durability) override {
    storage::RecordBatch batch;
    std::vector<MessageId> ended;
    for (const storage::RecordBatch& records : group) {
      std::set<MessageId> put;
      for (const Record& record : records) {
        if (record.type == RecordType::kAccept) put.insert(record.key.id);
      }
      for (const Record& record : records) {
        const bool moves = put.contains(record.key.id);
        if (record.type == RecordType::kErase && !moves) ended.push_back(record.key.id);
        if (!Loses(record, moves)) batch.push_back(record);
      }
    }
    if (sabotage_ == LifecycleSabotage::kUnsyncedAppends) durability = Durability::kBuffered;
    const AppendOutcome outcome = MemoryStore::Append(std::span(&batch, 1), durability);
    erased_.insert(erased_.end(), ended.begin(), ended.end());
    unsynced_ends_.push_back(std::move(ended));
    if (disk_->unsynced_appends() == 0) unsynced_ends_.clear();
    return outcome;
  }

  absl::StatusOr<storage::ShardMarks> Marks(uint16_t shard) override {
    auto marks = MemoryStore::Marks(shard);
    if (marks.ok() && sabotage_ == LifecycleSabotage::kForgetClaim) marks->claim_ms = 0;
    return marks;
  }

  std::vector<MessageId> TakeErased() { return std::exchange(erased_, {}); }

  // The messages whose ends are lost if the power cut leaves only `kept` unsynced appends.
  std::vector<MessageId> EndsBeyond(size_t kept) const {
    std::vector<MessageId> ids;
    for (size_t i = kept; i < unsynced_ends_.size(); ++i) {
      ids.insert(ids.end(), unsynced_ends_[i].begin(), unsynced_ends_[i].end());
    }
    return ids;
  }

 private:
  bool Loses(const Record& record, bool moves) const {
    const auto has_end = [&record] { return storage::ExpireTimeOf(record.value).value_or(0) != 0; };
    switch (sabotage_) {
      case LifecycleSabotage::kForgetMoves:
        return record.type == RecordType::kTrace && !has_end();
      case LifecycleSabotage::kForgetFates:
        return record.type == RecordType::kTrace && has_end();
      case LifecycleSabotage::kForgetKeyEnds:
        return record.type == RecordType::kIndex &&
               record.kind == static_cast<uint8_t>(IndexKind::kUserKey) && has_end();
      case LifecycleSabotage::kForgetRequests:
        return record.type == RecordType::kIndex &&
               record.kind == static_cast<uint8_t>(IndexKind::kRequest);
      case LifecycleSabotage::kKeepOldPlace:
        return record.type == RecordType::kErase && moves;
      case LifecycleSabotage::kMiscount:
        return record.type == RecordType::kCount && record.delta.messages < 0;
      default:
        return false;
    }
  }

  storage::MemoryDisk* const disk_;
  const LifecycleSabotage sabotage_;
  std::vector<MessageId> erased_;
  std::vector<std::vector<MessageId>> unsynced_ends_;
};

LifecycleWorld::LifecycleWorld(uint64_t seed, LifecycleSabotage sabotage)
    : random_(seed),
      sabotage_(sabotage),
      clock_goes_back_(random_() % 3 == 0),
      limits_([this] {
        delivery::ShardLimits limits;
        limits.load_window_ms = 20 + Random(4000);
        limits.loaded_max = 1 + Random(40);
        if (Random(2) == 0) limits.fire_per_step = 1 + Random(5);
        limits.due_max = 1 + Random(30);
        limits.due_idle_max = 1 + Random(10);
        limits.frame_messages_max = 1 + Random(8);
        limits.claim_renew_ms = 1 + Random(100);
        limits.claim_ahead_ms = limits.claim_renew_ms + 1 + Random(200);
        limits.spill_age_ms = 1100 + Random(5000);
        limits.safe_period_ms = 10 + Random(500);
        limits.fate_retention_ms = 500 + Random(8000);
        limits.request_retention_ms = 500 + Random(8000);
        return limits;
      }()),
      retention_ms_({{TopicId{1}, limits_.fate_retention_ms},
                     {TopicId{2}, limits_.fate_retention_ms},
                     // Not kept at all; but what has expired would count again with the clock set
                     // back.
                     {TopicId{3}, clock_goes_back_ ? 1000 : 0}}),
      model_(retention_ms_, limits_.request_retention_ms),
      now_{.wall_ms = kStartMs, .mono_ms = 1000} {
  Start();
}

LifecycleWorld::~LifecycleWorld() = default;

void LifecycleWorld::Start() {
  store_ = std::make_unique<NotingStore>(&disk_, sabotage_);
  Recovered recovered;
  recovered.epoch = store_->epoch();
  // Past the sabotage: this is what is true.
  recovered.claim_ms = store_->MemoryStore::Marks(0)->claim_ms;
  const auto behind = store_->BacklogSubscriptions(0);
  for (const storage::SubscriptionId subscription : *behind) {
    storage::Page<storage::BacklogRef> page;
    if (!store_->ScanBacklog(0, subscription, {}, {}, &page).ok()) {
      model_.Violate("ScanBacklog failed");
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
      model_.Violate("a backlog was claimed beyond W_claim");
    }
  }
  for (const auto& [id, message] : model_.messages()) {
    const MessageKey key{.due_ms = message.place_ms, .id = id};
    const auto rows = store_->GetProgress(0, key);
    if (!rows.ok()) model_.Violate("GetProgress failed");
    if (!rows->empty() && !message.pending()) model_.Violate("something is noted of what ended");
    if (!rows->empty()) recovered.progress[key] = rows->front().second;
  }
  if (recovered.claim_ms > latest_wall_ms_ + limits_.claim_ahead_ms) {
    model_.Violate("W_claim is further ahead than it may be");
  }
  model_.OnRestart(recovered);
  shard_ = std::make_unique<delivery::Shard>(0, limits_, store_.get());
  if (!shard_->Recover(now_).ok()) model_.Violate("Recover failed");
  latest_wall_ms_ = std::max(latest_wall_ms_, now_.wall_ms);
  checked_appends_ = UINT64_MAX;  // the store has to be looked at again
  const TopicId last{kLifecycleTopics};
  delivery::TopicCommand command;
  command.topic = last;
  command.fate_retention_ms = retention_ms_.at(last);
  Finish(Begin(command));
}

void LifecycleWorld::Crash() {
  ++report_.crashes;
  report_.spilled += shard_->stats().spilled;
  // A crash of the process keeps every append, one of the power only some of the unsynced ones.
  const size_t unsynced = disk_.unsynced_appends();
  const size_t kept = Chance(50) ? Random(unsynced + 1) : unsynced;
  const std::vector<MessageId> lost = store_->EndsBeyond(kept);
  report_.lost_ends += lost.size();
  model_.OnLost(lost);
  disk_.PowerCut(kept);
  streams_.clear();
  shard_.reset();
  now_.wall_ms += Random(300);
  if (clock_goes_back_ && Chance(30)) now_.wall_ms -= Random(150);
  if (clock_goes_back_ && Chance(10)) now_.wall_ms -= Random(30'000);
  now_.mono_ms = Random(1000);
  Note("crash, ", lost.size(), " ends lost");
  Start();
}

LifecycleReport LifecycleWorld::Run(int events) {
  for (int i = 0; i < events && ok(); ++i) {
    Event();
    ++report_.events;
  }
  if (ok()) Drain();
  report_.spilled += shard_->stats().spilled;
  for (const auto& [id, message] : model_.messages()) {
    if (message.end == storage::EndState::kExpired) ++report_.expired;
  }
  report_.violation = model_.violation();
  for (const std::string& line : history_) report_.history += line;
  return report_;
}

void LifecycleWorld::Event() {
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
    DoSettle();
  } else if (what < 980) {
    PassTime();
  } else if (what < 990) {
    Crash();
  } else if (!clock_goes_back_) {
    store_->DropExpired(now_.wall_ms);
  }
  Sample();
  CheckIndex();
}

void LifecycleWorld::PassTime() {
  const uint64_t what = Random(100);
  const uint64_t step = what < 70 ? Random(20) : (what < 95 ? Random(500) : Random(12'000));
  now_.mono_ms += step;
  // Now and then the wall clock was set back, and server time waits; or it was set forward.
  if (!Chance(5)) now_.wall_ms += step;
  if (Chance(1)) now_.wall_ms += Random(60'000);
  latest_wall_ms_ = std::max(latest_wall_ms_, now_.wall_ms);
  Note("time passes, ", step, " ms");
  Finish(Begin(std::nullopt));
  CheckNothingWaits();
}

// ---- Steps
// ------------------------------------------------------------------------------------------------

delivery::Effects LifecycleWorld::Begin(std::optional<delivery::Command> command) {
  delivery::Effects all;
  const auto collect = [&] {
    delivery::Effects effects = shard_->TakeEffects();
    Move(effects.schedules, &all.schedules);
    Move(effects.cancels, &all.cancels);
    Move(effects.reschedules, &all.reschedules);
    Move(effects.gets, &all.gets);
    Move(effects.inspects, &all.inspects);
    Move(effects.frames, &all.frames);
    Move(effects.settles, &all.settles);
    if (effects.failed) model_.Violate("the shard has failed");
  };
  if (command.has_value()) shard_->Handle(now_, *std::move(command));
  constexpr int kStepsMax = 10'000;
  bool more = true;
  int wakes = 0;
  for (int steps = 0; more && steps < kStepsMax; ++steps) {
    const delivery::StepResult result = shard_->Step(now_);
    // A timer that brings a moved message to its time may do so when that has passed already.
    more = result.more || (result.wake_wall_ms <= now_.wall_ms && wakes++ < 3);
    collect();
    if (auto batch = shard_->TakeBatch(); batch.has_value()) {
      const AppendOutcome outcome =
          store_->Append(std::span(&batch->records, 1), batch->durability);
      shard_->OnCommitted(now_, batch->sequence, outcome);
      collect();
      more = true;
    }
  }
  if (more) model_.Violate("the shard does not come to rest");
  if (next_call_ % 16 == 0) shard_->CheckInvariants();  // walks through everything
  return all;
}

void LifecycleWorld::Finish(const delivery::Effects& effects) {
  // What is handed out follows from what was answered.
  for (const delivery::DeliveryFrame& frame : effects.frames) {
    const auto stream = streams_.find(frame.stream);
    if (stream == streams_.end()) return model_.Violate("a frame for a stream that is gone");
    for (const delivery::Delivery& delivery : frame.deliveries) {
      ++report_.deliveries;
      Note("delivered ", delivery.id.ToString(), ", attempt ", delivery.attempt);
      model_.OnDelivery(now_, delivery, stream->second.topic, frame.stream,
                        stream->second.lease_ms);
      stream->second.held.push_back(delivery.token);
    }
    if (stream->second.credit->messages() > stream->second.messages_max) {
      model_.Violate("more outstanding than the credit allows");
    }
  }
  model_.OnErased(now_, store_->TakeErased());
  if (ok()) CheckStored();
}

// ---- Checks
// ------------------------------------------------------------------------------------------------

void LifecycleWorld::CheckStored() {
  if (checked_appends_ == store_->accepted_appends()) return;
  checked_appends_ = store_->accepted_appends();
  stored_.clear();
  storage::Page<storage::MessageRef> page;
  const storage::ScanLimit limit{.entries = 100'000, .bytes = 1 << 30};
  if (!store_->Scan(0, {}, MessageKey::FirstAt(kEver), limit, &page).ok()) {
    return model_.Violate("Scan failed");
  }
  std::vector<MessageKey> keys;
  for (const storage::MessageRef& message : page.items) keys.push_back(message.key);
  std::vector<std::optional<std::string>> values;
  if (!store_->MultiGet(0, keys, &values).ok()) return model_.Violate("MultiGet failed");
  std::map<std::pair<TopicId, uint64_t>, storage::CountDelta> minutes;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!stored_.emplace(keys[i].id, std::pair(keys[i], *values[i])).second) {
      return model_.Violate("a message is in the store twice");
    }
    storage::CountDelta& count =
        minutes[{page.items[i].topic, storage::BucketStart(CountLevel::kMinute, keys[i].due_ms)}];
    ++count.messages;
    count.bytes += static_cast<int64_t>(values[i]->size());
  }
  model_.OnStored(stored_);
  CheckCounts(minutes);
}

void LifecycleWorld::CheckCounts(
    const std::map<std::pair<TopicId, uint64_t>, storage::CountDelta>& minutes) {
  for (const CountLevel level : storage::kCountLevels) {
    std::map<std::pair<TopicId, uint64_t>, storage::CountDelta> expected;
    for (const auto& [place, count] : minutes) {
      storage::CountDelta& sum = expected[{place.first, storage::BucketStart(level, place.second)}];
      sum.messages += count.messages;
      sum.bytes += count.bytes;
    }
    for (uint32_t topic = 1; topic <= kLifecycleTopics; ++topic) {
      std::vector<storage::BucketCount> counts;
      if (!store_->ScanCounts(0, TopicId{topic}, level, 0, kEver, 100'000, &counts).ok()) {
        return model_.Violate("the counters cannot be read");
      }
      for (const storage::BucketCount& count : counts) {
        const auto it = expected.find({TopicId{topic}, count.start_ms});
        if (it == expected.end() || it->second.messages != static_cast<int64_t>(count.messages) ||
            it->second.bytes != static_cast<int64_t>(count.bytes)) {
          return model_.Violate("a counter does not count what is in the store");
        }
        expected.erase(it);
      }
    }
    if (!expected.empty()) return model_.Violate("messages that no counter counts");
  }
}

void LifecycleWorld::CheckIndex() {
  for (uint32_t topic = 1; topic <= kLifecycleTopics && ok(); ++topic) {
    std::vector<storage::IndexRef> entries;
    if (!store_->ScanIndex(0, TopicId{topic}, IndexKind::kUserKey, "", "", 1000, &entries).ok()) {
      return model_.Violate("the index cannot be read");
    }
    for (const storage::IndexRef& ref : entries) {
      const bool pending = stored_.contains(ref.entry.id);
      if (pending != (ref.entry.expire_ms == 0)) {
        model_.Violate(absl::StrCat("the entry of ", ref.name, " for ", ref.entry.id.ToString(),
                                    pending ? " ends before its message" : " leads nowhere"));
      }
    }
  }
}

// Whoever has credit has been given everything that is due, unless memory is short or the backlog
// has to wait for a clock that was set back.
void LifecycleWorld::CheckNothingWaits() {
  if (!ok() || clock_goes_back_) return;
  size_t due = 0;
  for (const auto& [id, place] : stored_) due += place.first.due_ms <= now_.wall_ms ? 1 : 0;
  if (2 * due >= limits_.due_max) return;
  for (const auto& [stream_id, stream] : streams_) {
    if (stream.credit->messages() >= stream.messages_max) continue;
    for (const auto& [id, place] : stored_) {
      const LifecycleModel::Message& message = model_.messages().at(id);
      if (message.wish.topic == stream.topic && place.first.due_ms <= now_.wall_ms &&
          !model_.Leased(message, now_) && message.delay_end_mono_ms <= now_.mono_ms &&
          message.delay_end_wall_ms <= now_.wall_ms) {
        return model_.Violate(absl::StrCat(id.ToString(), " is due at ", place.first.due_ms,
                                           " and nobody is given it; ", Positions()));
      }
    }
  }
}

std::string LifecycleWorld::Positions() const {
  const delivery::ShardStats stats = shard_->stats();
  return absl::StrCat("fired ", stats.fired_ms, ", claimed ", stats.claim_ms, ", loaded ",
                      stats.load_ms, ", ", stats.wheel_timers, " timers, ", stats.due_ready,
                      " ready, ", stats.in_flight, " in flight, ", stats.delayed, " delayed, ",
                      stats.topics_behind, " topics behind; due_max ", limits_.due_max,
                      ", due_idle_max ", limits_.due_idle_max);
}

// Nothing new, eager subscribers, and time enough; then nothing may be left.
void LifecycleWorld::Drain() {
  Crash();
  for (uint32_t i = 1; i <= kLifecycleTopics; ++i) DoAttach(TopicId{i}, 1000, 30'000);
  constexpr int kRoundsMax = 500;
  for (int round = 0; round < kRoundsMax && ok() && !stored_.empty(); ++round) {
    uint64_t next_ms = kEver;
    for (const auto& [id, place] : stored_) next_ms = std::min(next_ms, place.first.due_ms);
    now_.mono_ms += 1000;
    now_.wall_ms = std::max(now_.wall_ms + 100, next_ms);
    Finish(Begin(std::nullopt));
    AckAll();
  }
  if (!ok()) return;
  if (!stored_.empty()) {
    const MessageKey& key = stored_.begin()->second.first;
    return model_.Violate(absl::StrCat(key.id.ToString(), ", due at ", key.due_ms, ", at ",
                                       now_.wall_ms, " never ended: lost (P1); ", Positions()));
  }
  model_.CheckDrained();
  // Beyond every time that was ever asked for, and every retention.
  constexpr uint64_t kLongMs = 1'000'000;
  now_.wall_ms = std::max(now_.wall_ms, latest_wall_ms_) + kLongMs;
  now_.mono_ms += kLongMs;
  Finish(Begin(std::nullopt));
  store_->DropExpired(now_.wall_ms);
  for (const auto& [id, message] : model_.messages()) {
    if (!ok()) return;
    const delivery::Target target{.id = id, .topic = {}, .key = ""};
    const delivery::Effects effects =
        Begin(delivery::GetCommand{.tag = delivery::CallTag{next_call_++}, .target = target});
    model_.OnGet(now_, target, effects.gets.at(0));
    const auto trace = store_->GetTrace(0, id);
    if (!trace.ok() || trace->has_value()) model_.Violate("a trace is kept for ever");
  }
  CheckEmpty();
}

void LifecycleWorld::CheckEmpty() {
  const delivery::ShardStats stats = shard_->stats();
  if (stats.due_ready + stats.in_flight + stats.delayed + stats.wheel_timers != 0) {
    model_.Violate("something is left in memory after the drain");
  }
  if (stats.waiting != 0) model_.Violate("a command waits for ever");
  if (!stored_.empty()) model_.Violate("messages are left after the drain");
  const auto behind = store_->BacklogSubscriptions(0);
  if (!behind.ok() || !behind->empty()) model_.Violate("a backlog is left after the drain");
  for (uint32_t topic = 1; topic <= kLifecycleTopics; ++topic) {
    for (const IndexKind kind : {IndexKind::kUserKey, IndexKind::kRequest}) {
      std::vector<storage::IndexRef> entries;
      if (!store_->ScanIndex(0, TopicId{topic}, kind, "", "", 1, &entries).ok() ||
          !entries.empty()) {
        model_.Violate("a name is kept for ever");
      }
    }
  }
}

}  // namespace duetime::simulation
