// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/world.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "storage/message_record.h"

namespace duetime::simulation {

using delivery::CallTag;
using delivery::LeaseToken;
using delivery::StreamId;
using storage::AppendOutcome;
using storage::Durability;
using storage::IndexKind;
using storage::MessageId;
using storage::TopicId;

namespace {

constexpr uint64_t kStartMs = 1'800'000'000'000;

}  // namespace

// A MemoryStore with the faults of a Sabotage.
class World::SabotagedStore : public storage::MemoryStore {
 public:
  SabotagedStore(storage::MemoryDisk* disk, Sabotage sabotage)
      : MemoryStore(disk), sabotage_(sabotage) {}

  AppendOutcome Append(std::span<const storage::RecordBatch> group,
                       Durability durability) override {
    if (sabotage_ == Sabotage::kUnsyncedAppends) durability = Durability::kBuffered;
    std::vector<storage::RecordBatch> batches(group.begin(), group.end());
    if (sabotage_ == Sabotage::kReverseGroups) std::reverse(batches.begin(), batches.end());
    for (storage::RecordBatch& batch : batches) {
      std::erase_if(batch, [this](const storage::Record& record) { return Loses(record); });
    }
    return MemoryStore::Append(batches, durability);
  }

  absl::StatusOr<storage::ShardMarks> Marks(uint16_t shard) override {
    auto marks = MemoryStore::Marks(shard);
    if (!marks.ok()) return marks;
    if (sabotage_ == Sabotage::kForgetClaim) marks->claim_ms = 0;
    if (sabotage_ == Sabotage::kSafeTooFar && marks->safe_ms > 0) marks->safe_ms += 2000;
    return marks;
  }

  absl::StatusOr<std::optional<storage::MessageKey>> BacklogClaim(
      uint16_t shard, storage::SubscriptionId subscription) override {
    if (sabotage_ == Sabotage::kForgetBacklogClaim) return std::nullopt;
    return MemoryStore::BacklogClaim(shard, subscription);
  }

 private:
  bool Loses(const storage::Record& record) {
    switch (sabotage_) {
      case Sabotage::kForgetTraces:
        return record.type == storage::RecordType::kTrace;
      case Sabotage::kForgetKeys:
        return record.type == storage::RecordType::kIndex &&
               record.kind == static_cast<uint8_t>(storage::IndexKind::kUserKey) &&
               !keys_.insert(record.name).second;
      case Sabotage::kForgetOccurrences:
        return record.type == storage::RecordType::kObject && !keys_.insert(record.name).second;
      default:
        return false;
    }
  }

  const Sabotage sabotage_;
  // Names that were written.
  std::set<std::string> keys_;
};

World::World(uint64_t seed, Sabotage sabotage)
    : random_(seed),
      sabotage_(sabotage),
      shard_count_(static_cast<uint16_t>(1 + random_() % 3)),
      disk_(shard_count_) {
  now_ = {.wall_ms = kStartMs, .mono_ms = 1000};
  // Small limits, so that every one is met all the time.
  limits_.load_window_ms = 20 + Random(4000);
  limits_.loaded_max = 1 + Random(60);
  if (Random(2) == 0) limits_.fire_per_step = 1 + Random(5);
  limits_.due_max = 1 + Random(40);
  if (seed % 3 > 0) limits_.failure_rate = static_cast<uint32_t>(1 + seed % 50);
  if (seed % 4 == 1) limits_.catch_up_rate = static_cast<uint32_t>(5 + seed % 60);
  limits_.due_idle_max = 1 + Random(10);
  limits_.frame_messages_max = 1 + Random(8);
  limits_.frame_bytes_max = 50 + Random(400);
  limits_.claim_renew_ms = 1 + Random(100);
  limits_.claim_ahead_ms = limits_.claim_renew_ms + 1 + Random(200);
  limits_.spill_age_ms = 1100 + Random(5000);
  limits_.safe_period_ms = 10 + Random(500);
  if (Chance(0.3)) limits_.fate_retention_ms = Chance(0.5) ? 0 : 1 + Random(3000);
  if (Chance(0.2)) limits_.waiting_max = 1 + Random(4);
  Start();
}

World::~World() = default;

void World::Start() {
  store_ = std::make_unique<SabotagedStore>(&disk_, sabotage_);
  reads_fail_ = false;
  changes_.OnStart(store_->epoch());
  shards_.clear();
  for (uint16_t i = 0; i < shard_count_; ++i) {
    shards_.push_back(std::make_unique<delivery::Shard>(i, limits_, store_.get()));
    if (!shards_.back()->Recover(now_).ok()) model_.Violate("Recover failed");
  }
}

void World::Crash() {
  crash_wanted_ = false;
  ++report_.crashes;
  for (const auto& shard : shards_) {
    report_.spilled += shard->stats().spilled;
    report_.read_back += shard->stats().read_back;
  }
  const bool power = Chance(0.5);
  const size_t unsynced = disk_.unsynced_appends();
  disk_.PowerCut(power ? Random(unsynced + 1) : unsynced);
  model_.OnCrash(power);
  CrashChanges(power);
  journal_.clear();
  streams_.clear();
  calls_.clear();
  acks_sent_.clear();
  shards_.clear();
  // Some time passes; now and then the clock comes back a little behind, and the steady clock
  // starts anew.
  now_.wall_ms += Random(300);
  if (Chance(0.2)) now_.wall_ms -= Random(150);
  if (Chance(0.05)) now_.wall_ms -= Random(30'000);
  now_.mono_ms = Random(1000);
  Start();
}

Report World::Run(int events) {
  for (int i = 0; i < events && model_.violation().empty(); ++i) {
    Event();
    if (!changes_.violation().empty()) model_.Violate(changes_.violation());
    ++report_.events;
  }
  if (model_.violation().empty()) Drain();
  for (const auto& shard : shards_) {
    report_.spilled += shard->stats().spilled;
    report_.read_back += shard->stats().read_back;
  }
  report_.replaced = changes_.replaced();
  report_.moved = changes_.moved();
  report_.occurrences = changes_.occurrences();
  report_.violation = model_.violation();
  return report_;
}

void World::Tick() {
  const double what = std::uniform_real_distribution<double>(0, 1)(random_);
  const uint64_t step = what < 0.9 ? Random(8) : (what < 0.99 ? Random(200) : Random(4000));
  now_.mono_ms += step;
  if (!Chance(0.05)) now_.wall_ms += step;  // else the wall clock was set back: server time waits
}

void World::Event() {
  Tick();
  if (crash_wanted_ || Chance(0.002)) return Crash();
  const uint64_t what = Random(100);
  if (what < 12) {
    DoSchedule();
  } else if (what < 17) {
    DoCancelOrGet();
  } else if (what < 26) {
    DoChange();
  } else if (what < 29) {
    const std::vector<int64_t> credits = {1, 3, 1000};
    // Drawn one by one: the order in which arguments are evaluated differs between compilers, and a
    // seed should not.
    const TopicId topic{static_cast<uint32_t>(1 + Random(kTopics))};
    const int64_t credit = credits[Random(3)];
    DoAttach(topic, credit, 20 + Random(1500));
  } else if (what < 31) {
    DoDetach();
  } else if (what < 50) {
    if (!streams_.empty()) {
      auto it = streams_.begin();
      std::advance(it, static_cast<int64_t>(Random(streams_.size())));
      DoSettle(&it->second, it->first, false);
    }
  } else if (what < 75) {
    StepShard(static_cast<uint16_t>(Random(shard_count_)));
  } else {
    Commit();
  }
  if (Random(10) == 0) {
    for (const auto& shard : shards_) shard->CheckInvariants();
  }
}

void World::Send(uint16_t shard, delivery::Command command) {
  shards_[shard]->Handle(now_, std::move(command));
  report_.waited = std::max(report_.waited, shards_[shard]->stats().waiting);
  Collect(shard);
}

void World::DoSchedule() {
  delivery::ScheduleCommand command;
  command.tag = CallTag{next_call_++};
  const auto shard = static_cast<uint16_t>(Random(shard_count_));
  Call& call = calls_[command.tag];
  const uint64_t count = 1 + Random(4);
  for (uint64_t i = 0; i < count; ++i) {
    uint32_t slot = 0;
    do {
      slot = static_cast<uint32_t>(Random(storage::MessageId::kSlotCount));
    } while (storage::ShardOfSlot(slot, shard_count_) != shard);
    const uint64_t kind = Random(10);
    uint64_t deliver_ms = now_.wall_ms;
    if (kind == 0) {
      deliver_ms -= Random(5000);
    } else if (kind < 5) {
      deliver_ms += Random(100);
    } else if (kind < 9) {
      deliver_ms += Random(3000);
    } else {
      deliver_ms += Random(60'000);
    }
    const TopicId topic{static_cast<uint32_t>(1 + Random(kTopics))};
    const Model::Message& message = model_.Add(topic, deliver_ms);
    call.numbers.push_back(message.number);
    const std::string payload = absl::StrCat(message.number);
    command.messages.push_back(
        {.topic = topic,
         .slot = slot,
         .deliver_ms = deliver_ms,
         .record = storage::EncodeMessageRecord(
             {.header = {.topic = topic, .deliver_ms = deliver_ms, .accept_ms = now_.wall_ms},
              .payload = payload})});
    if (Chance(0.1))
      command.new_topics.emplace_back(topic, absl::StrCat("topic-", topic == TopicId{1}));
  }
  Send(shard, std::move(command));
}

Model::Message* World::AnyMessage() {
  auto& messages = model_.messages();
  if (messages.empty()) return nullptr;
  // Mostly a recent one: the old ones have ended.
  const uint64_t last = messages.rbegin()->first;
  const uint64_t span = Chance(0.7) ? std::min<uint64_t>(last, 30) : last;
  Model::Message& message = messages.at(last - Random(span));
  return message.id.has_value() ? &message : nullptr;
}

void World::DoCancelOrGet() {
  Model::Message* const message = AnyMessage();
  if (message == nullptr) return;
  const CallTag tag{next_call_++};
  calls_[tag].numbers = {message->number};
  const uint16_t shard = storage::ShardOfSlot(message->id->slot(), shard_count_);
  if (Chance(0.3)) {
    Send(shard,
         delivery::GetCommand{.tag = tag, .target = {.id = *message->id, .topic = {}, .key = ""}});
    return;
  }
  const bool stop = Chance(0.5);
  model_.OnCancelSent(*message);
  Send(shard, delivery::CancelCommand{.tag = tag,
                                      .target = {.id = *message->id, .topic = {}, .key = ""},
                                      .stop_redelivery = stop});
}

void World::DoAttach(TopicId topic, int64_t messages_max, uint64_t lease_ms) {
  if (streams_.size() >= 8 && !healing_) return;
  const StreamId stream{next_stream_++};
  StreamState& state = streams_[stream];
  state.topic = topic;
  state.lease_ms = lease_ms;
  state.messages_max = messages_max;
  state.credit = std::make_shared<delivery::StreamCredit>(messages_max, 100'000);
  for (uint16_t i = 0; i < shard_count_; ++i) {
    Send(i, delivery::AttachCommand{.stream = stream,
                                    .topic = topic,
                                    .subscription = storage::FirstSubscription(topic),
                                    .lease_ms = lease_ms,
                                    .credit = state.credit});
  }
}

void World::DoDetach() {
  if (streams_.empty()) return;
  auto it = streams_.begin();
  std::advance(it, static_cast<int64_t>(Random(streams_.size())));
  const StreamId stream = it->first;
  for (auto& [number, message] : model_.messages()) {
    if (message.lease.has_value() && message.lease_stream == stream && !message.ack_sent) {
      model_.EndLease(message);
    }
  }
  streams_.erase(it);
  for (uint16_t i = 0; i < shard_count_; ++i) {
    Send(i, delivery::DetachCommand{.stream = stream});
  }
}

void World::DoSettle(StreamState* state, StreamId stream, bool ack_all) {
  std::vector<delivery::SettleCommand> commands(shard_count_);
  for (auto& command : commands) command.stream = stream;
  std::vector<LeaseToken> keep;
  for (const LeaseToken token : state->held) {
    delivery::SettleCommand& command = commands[delivery::ShardOfLease(token)];
    const uint64_t what = ack_all ? 0 : Random(10);
    if (what < 5) {
      command.acks.push_back(token);
      acks_sent_[token] = true;
    } else if (what == 5) {
      command.nacks.push_back(
          {.token = token, .delay_ms = Chance(0.5) ? 0 : Random(500), .reason = ""});
      acks_sent_[token] = false;
    } else if (what == 6) {
      command.extends.push_back({.token = token, .duration_ms = 20 + Random(1000)});
      keep.push_back(token);
    } else {
      keep.push_back(token);
    }
    if (what == 6 && Chance(0.1)) command.acks.push_back(LeaseToken{random_()});  // nonsense
  }
  state->held = std::move(keep);
  for (uint16_t i = 0; i < shard_count_; ++i) {
    delivery::SettleCommand& command = commands[i];
    if (command.acks.empty() && command.nacks.empty() && command.extends.empty()) continue;
    for (const LeaseToken token : command.acks) {
      if (Model::Message* message = model_.FindByLease(token)) message->ack_sent = true;
      changes_.OnAckSent(token);
    }
    // A nack ends the lease. Of an extended one it is only certain that it does not end earlier
    // than now.
    for (const auto& nack : command.nacks) EndsNow(nack.token);
    for (const auto& extend : command.extends) EndsNow(extend.token);
    Send(i, std::move(command));
  }
}

void World::EndsNow(LeaseToken token) {
  if (Model::Message* message = model_.FindByLease(token))
    message->lease_end_mono_ms = now_.mono_ms;
}

void World::StepShard(uint16_t shard) {
  base::Now now = now_;
  if (sabotage_ == Sabotage::kEarlyClock) now.wall_ms += 5;
  shards_[shard]->Step(now);
  Collect(shard);
}

// Takes what the shard decided into the journal's queue, and its effects.
void World::Collect(uint16_t shard) {
  Apply(shard, shards_[shard]->TakeEffects());
  if (!Chance(0.6) && !healing_) return;
  if (auto batch = shards_[shard]->TakeBatch(); batch.has_value()) {
    if (sabotage_ == Sabotage::kAnswerBeforeAppend && !healing_) {
      shards_[shard]->OnCommitted(now_, batch->sequence, AppendOutcome::kAccepted);
      journal_.push_back({.shard = shard, .batch = std::move(*batch)});
      Apply(shard, shards_[shard]->TakeEffects());
      return;
    }
    journal_.push_back({.shard = shard, .batch = std::move(*batch)});
  }
}

void World::Commit() {
  if (journal_.empty()) return;
  // One group: some of what waits.
  const size_t count = 1 + Random(std::min<size_t>(journal_.size(), 5));
  std::vector<storage::RecordBatch> group;
  Durability durability = Durability::kBuffered;
  for (size_t i = 0; i < count; ++i) {
    group.push_back(journal_[i].batch.records);
    if (journal_[i].batch.durability == Durability::kSynced) durability = Durability::kSynced;
  }
  if (!healing_ && Chance(0.003)) {
    store_->FailNextAppend(static_cast<storage::MemoryStore::Fault>(Random(3)));
  }
  if (!healing_ && Chance(0.001)) {
    store_->FailReads(absl::InternalError("bad sector"));
    reads_fail_ = true;
  }
  const AppendOutcome outcome = store_->Append(group, durability);
  for (size_t i = 0; i < count; ++i) {
    InFlight in_flight = std::move(journal_.front());
    journal_.pop_front();
    if (sabotage_ == Sabotage::kAnswerBeforeAppend && !healing_) continue;
    shards_[in_flight.shard]->OnCommitted(now_, in_flight.batch.sequence, outcome);
    Apply(in_flight.shard, shards_[in_flight.shard]->TakeEffects());
  }
  if (outcome != AppendOutcome::kAccepted) crash_wanted_ = true;
}

void World::Apply(uint16_t shard, delivery::Effects effects) {
  ApplyChanges(effects);
  for (const auto& reply : effects.schedules) {
    if (!calls_.contains(reply.tag)) continue;
    const Call call = calls_.at(reply.tag);
    calls_.erase(reply.tag);
    for (size_t i = 0; i < call.numbers.size(); ++i) {
      Model::Message& message = model_.Get(call.numbers[i]);
      if (reply.status.ok()) {
        model_.OnScheduled(message, reply.accepted.at(i).id, now_.wall_ms);
        ++report_.accepted;
      } else {
        model_.OnScheduleUnknown(message);
      }
    }
  }
  for (const auto& reply : effects.cancels) {
    if (!calls_.contains(reply.tag)) continue;
    Model::Message& message = model_.Get(calls_.at(reply.tag).numbers[0]);
    calls_.erase(reply.tag);
    if (reply.status.ok() && reply.outcome == delivery::Outcome::kDone) {
      ++report_.cancelled;
    }
    model_.OnCancel(message, reply);
  }
  for (const auto& reply : effects.gets) {
    if (!calls_.contains(reply.tag)) continue;
    Model::Message& message = model_.Get(calls_.at(reply.tag).numbers[0]);
    calls_.erase(reply.tag);
    if (reply.status.ok() || absl::IsNotFound(reply.status)) model_.OnGet(message, reply);
  }
  for (const auto& frame : effects.frames) ApplyFrame(shard, frame);
  for (const auto& reply : effects.settles) {
    for (const LeaseToken token : reply.settled) {
      const auto sent = acks_sent_.find(token);
      const bool ack = sent != acks_sent_.end() && sent->second;
      if (!changes_.Knows(token)) {
        model_.OnSettled(token, ack);
      } else if (ack) {
        changes_.OnAcked(token);
      }
    }
    for (const auto& [token, reason] : reply.refused) model_.OnRefused(token, now_);
  }
  for (const auto& wake : effects.wakes) {
    for (uint16_t i = 0; i < shard_count_; ++i) {
      if ((wake.shard_mask >> i & 1) != 0) {
        Send(i, delivery::CreditCommand{.stream = wake.stream});
      }
    }
  }
  if (effects.failed) crash_wanted_ = true;
}

void World::ApplyFrame(uint16_t shard, const delivery::DeliveryFrame& frame) {
  const auto stream = streams_.find(frame.stream);
  if (stream == streams_.end()) return model_.Violate("a frame for a stream that is gone");
  if (frame.deliveries.empty()) model_.Violate("an empty frame");
  for (const auto& delivery : frame.deliveries) {
    ++report_.deliveries;
    storage::MessageRecord record;
    uint64_t number = 0;
    if (!storage::DecodeMessageRecord(delivery.record, &record).ok()) {
      return model_.Violate("a delivery that cannot be read");
    }
    if (!absl::SimpleAtoi(record.payload, &number)) {
      changes_.OnDelivery(now_, delivery, record, stream->second.topic);
      stream->second.held.push_back(delivery.token);
      continue;
    }
    model_.OnDelivery(number, delivery, stream->second.topic, frame.stream, shard, now_,
                      stream->second.lease_ms);
    stream->second.held.push_back(delivery.token);
  }
  if (stream->second.credit->messages() > stream->second.messages_max) {
    model_.Violate("more outstanding than the credit allows");
  }
}

// Everything heals: no more faults, one eager subscriber per topic, and time enough.
void World::Drain() {
  // At times without a crash, to see that every call is answered.
  if (crash_wanted_ || reads_fail_ || Chance(0.5)) Crash();
  healing_ = true;
  StopRecurrences();
  for (uint32_t i = 1; i <= kTopics; ++i) DoAttach(TopicId{i}, 1000, 30'000);
  constexpr int kRoundsMax = 2000;
  for (int round = 0; round < kRoundsMax && model_.violation().empty(); ++round) {
    now_.mono_ms += 100;
    now_.wall_ms += 100;
    for (uint16_t i = 0; i < shard_count_; ++i) StepShard(i);
    for (auto& [stream, state] : streams_) DoSettle(&state, stream, true);
    for (uint16_t i = 0; i < shard_count_; ++i) {
      Collect(i);
      if (round % 20 == 0) shards_[i]->CheckInvariants();
    }
    while (!journal_.empty()) Commit();
    if (!changes_.violation().empty()) model_.Violate(changes_.violation());
    if (round % 50 == 49 && Empty()) break;
  }
  if (!model_.violation().empty()) return;
  if (crash_wanted_) model_.Violate("a shard failed while nothing was wrong");
  model_.CheckDrained();
  changes_.CheckDrained();
  if (!changes_.violation().empty()) model_.Violate(changes_.violation());
  // Nothing may be left over on disk or in memory once everything has ended.
  if (!Empty()) model_.Violate("something is left after the drain");
  CheckForgotten();
}

bool World::Empty() {
  for (uint16_t i = 0; i < shard_count_; ++i) {
    const delivery::ShardStats stats = shards_[i]->stats();
    if (stats.waiting != 0 || stats.recurrences + stats.operations_running != 0) return false;
    if (stats.due_ready + stats.in_flight + stats.delayed + stats.wheel_timers != 0) return false;
    storage::Page<storage::MessageRef> page;
    const auto end = storage::MessageKey::FirstAt(storage::MessageId::kDueMax);
    if (!store_->Scan(i, {}, end, {}, &page).ok() || !page.items.empty()) return false;
    const auto behind = store_->BacklogSubscriptions(i);
    if (!behind.ok() || !behind->empty()) return false;
  }
  return true;
}

void World::CheckForgotten() {
  if (!change_calls_.empty() && model_.violation().empty()) {
    model_.Violate("a call was never answered");
  }
  // Beyond every retention.
  now_.wall_ms += 200'000'000;
  store_->DropExpired(now_.wall_ms);
  for (uint16_t shard = 0; shard < shard_count_; ++shard) {
    for (uint32_t i = 1; i <= kTopics; ++i) {
      for (const IndexKind kind : {IndexKind::kUserKey, IndexKind::kRequest}) {
        std::vector<storage::IndexRef> entries;
        if (!store_->ScanIndex(shard, TopicId{i}, kind, "", "", 1, &entries).ok() ||
            !entries.empty()) {
          model_.Violate(absl::StrCat(
              "a name is kept for ever: ",
              entries.empty()
                  ? ""
                  : absl::StrCat(entries[0].name, " of ", entries[0].entry.id.ToString(),
                                 ", until ", entries[0].entry.expire_ms)));
        }
      }
      for (const storage::CountLevel level : storage::kCountLevels) {
        std::vector<storage::BucketCount> counts;
        if (!store_->ScanCounts(shard, TopicId{i}, level, 0, MessageId::kDueMax, 1, &counts).ok() ||
            !counts.empty()) {
          model_.Violate("something is counted, and nothing is there");
        }
      }
    }
  }
  for (const MessageId& id : changes_.ids()) {
    const auto trace = store_->GetTrace(storage::ShardOfSlot(id.slot(), shard_count_), id);
    if (!trace.ok() || trace->has_value()) {
      model_.Violate(absl::StrCat(id.ToString(), ": its trace is kept for ever"));
    }
  }
}

}  // namespace duetime::simulation
