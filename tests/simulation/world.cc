// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/world.h"

#include <algorithm>
#include <utility>

#include "server/protocol/commands.h"
#include "storage/message_record.h"
#include "storage/slot.h"
#include "tests/simulation/cell_host.h"
#include "tests/support/rocksdb_disk.h"

namespace duetime::simulation {

using protocol::LeaseToken;
using protocol::SettleAction;
using storage::AppendOutcome;
using storage::Durability;
using storage::MessageId;
using storage::MessageKey;
using storage::TopicId;

namespace {

class TornDisk final : public test::MapDisk {
 public:
  void PowerCut(size_t kept) override { MapDisk::PowerCut(kept, /*torn=*/true); }
};

std::unique_ptr<test::KvDisk> EngineOf(const Setup& setup) {
  if (setup.fault == PlantedFault::kTornAppends) return std::make_unique<TornDisk>();
  if (setup.on_rocksdb) return std::make_unique<test::RocksDbDisk>();
  return std::make_unique<test::MapDisk>();
}

}  // namespace

World::World(const Setup& setup, uint16_t shards_max, Lead lead)
    : random_(setup.seed),
      fault_(setup.fault),
      shard_count_(static_cast<uint16_t>(1 + random_() % shards_max)) {
  if (setup.members == 0) {
    host_ = std::make_unique<SingleHost>(shard_count_, fault_, EngineOf(setup));
  } else {
    host_ = std::make_unique<CellHost>(
        CellSetup{.seed = setup.seed,
                  .members = setup.members,
                  .shards = shard_count_,
                  .fault = fault_,
                  .now = lead == Lead::kKept ? nullptr : &now_,
                  .healing = &healing_,
                  .meanwhile = [this] { Meanwhile(); },
                  .violate = [this](const std::string& what) { Violate(what); },
                  .count = [this](const std::string& what) { Count(what); }});
  }
  limits_.scheduler.load_window_ms = 20 + Random(4000);
  limits_.scheduler.loaded_max = 1 + Random(60);
  limits_.scheduler.recent_messages_max = Random(60);
  if (Chance(50)) limits_.fire_per_step = 1 + Random(5);
  limits_.due_max = 2 + Random(40);
  limits_.due_idle_max = 1 + Random(10);
  limits_.frame_messages_max = 1 + Random(8);
  limits_.scheduler.claim_renew_ms = 1 + Random(100);
  limits_.scheduler.claim_ahead_ms = limits_.scheduler.claim_renew_ms + 1 + Random(200);
  limits_.spill_age_ms = 1100 + Random(5000);
  limits_.scheduler.low_watermark_period_ms = 10 + Random(500);
  limits_.nameless_retry.set_min_backoff_ms(0);
}

Report World::Run(int events) {
  for (int i = 0; i < events && ok(); ++i) {
    Event();
    ++report_.events;
  }
  if (ok()) Drain();
  CountShards();
  for (const std::string& line : history_) report_.history += line;
  return report_;
}

void World::DoOneOf(const std::vector<Choice>& choices) {
  uint64_t sum = 0;
  for (const Choice& choice : choices) sum += choice.weight;
  uint64_t what = Random(sum);
  for (const Choice& choice : choices) {
    if (what < choice.weight) return choice.happen();
    what -= choice.weight;
  }
}

void World::CountShards() {
  for (const auto& shard : shards_) {
    Count("spilled", shard->stats().spilled);
    Count("read back", shard->stats().read_back);
    Count("merged", shard->stats().merged);
  }
}

void World::Open() {
  failed_ = fault_expected_ = false;
  store_ = host_->Start();
  for (uint16_t i = 0; i < shard_count_; ++i) {
    shards_.push_back(std::make_unique<shard::Shard>(i, limits_, store_));
    if (!shards_.back()->Recover(now_).ok()) Violate("Recover failed");
  }
}

void World::Close(Host::End how, size_t kept, bool clock_goes_back) {
  Count("crashes");
  CountShards();
  EndFormer();
  const bool goes_on = !failed_ && host_->GoesOn();
  if (goes_on) {
    former_.shards = std::move(shards_);
    former_.streams = std::move(streams_);
  }
  shards_.clear();
  host_->Stop(how, kept);
  journal_.clear();
  untold_.clear();
  streams_.clear();
  const uint64_t mono_ms = now_.mono_ms;
  now_.wall_ms += Random(300);
  if (clock_goes_back && Chance(25)) now_.wall_ms -= Random(150);
  if (clock_goes_back && Chance(8)) now_.wall_ms -= Random(30'000);
  now_.mono_ms = Random(1000);
  former_.mono_ahead_ms = mono_ms - now_.mono_ms;
}

void World::EndFormer() {
  if (former_.shards.empty()) return;
  former_ = {};
  host_->EndFormer();
}

void World::CheckInvariants() const {
  for (const auto& shard : shards_) shard->CheckInvariants();
}

void World::OnFailure() {
  if (!fault_expected_) Violate("the server failed while nothing was wrong");
  failed_ = true;
}

// ---- The journal

void World::TellCommitted() {
  while (!untold_.empty()) {
    const InFlight item = std::move(untold_.front());
    untold_.pop_front();
    OnCommitted(item.participant, item.sequence, AppendOutcome::kAccepted);
  }
}

void World::Commit(uint64_t faults) {
  if (!appending_) TellCommitted();
  if (appending_ || (journal_.empty() && !host_->AppendIsDue())) return;
  const size_t count = journal_.empty() ? 0 : 1 + Random(std::min<size_t>(journal_.size(), 5));
  const auto end = journal_.begin() + static_cast<int64_t>(count);
  const std::vector<InFlight> items(std::move_iterator(journal_.begin()), std::move_iterator(end));
  journal_.erase(journal_.begin(), end);
  std::vector<storage::RecordBatch> group;
  Durability durability = Durability::kBuffered;
  for (const InFlight& item : items) {
    group.push_back(item.records);
    if (item.durability == Durability::kSynced) durability = Durability::kSynced;
  }
  if (!healing_ && Random(1000) < faults) {
    host_->FailNextAppend(static_cast<test::TestStore::Fault>(Random(3)));
    fault_expected_ = true;
  }
  appending_ = true;
  const AppendOutcome outcome = store_->Append(group, durability);
  appending_ = false;
  if (outcome != AppendOutcome::kAccepted && host_->MayLoseTheLead()) fault_expected_ = true;
  // The store then shows what no shard has heard of yet.
  const bool later = faults > 0 && !healing_ && outcome == AppendOutcome::kAccepted && Chance(50);
  for (const InFlight& item : items) {
    if (item.answered) continue;
    if (later) {
      untold_.push_back(item);
      continue;
    }
    OnCommitted(item.participant, item.sequence, outcome);
  }
  if (outcome != AppendOutcome::kAccepted) failed_ = true;
}

bool World::StillLeads() {
  const bool was_healing = std::exchange(healing_, true);
  if (!failed_ && !host_->StillLeads()) failed_ = fault_expected_ = true;
  healing_ = was_healing;
  return !failed_;
}

shard::StepResult World::StepHeld(uint16_t shard, base::Now now) {
  if (host_->MayServe()) {
    shards_[shard]->Begin();
  } else {
    shards_[shard]->Suspend();
  }
  return shards_[shard]->Step(now);
}

protocol::Effects World::TakeEffects(uint16_t shard) {
  if (host_->MayServe()) return shards_[shard]->TakeEffects();
  protocol::Effects effects;
  if (shards_[shard]->failed()) effects.failed = shards_[shard]->TakeEffects().failed;
  return effects;
}

protocol::Effects World::RunToRest() {
  constexpr int kStepsMax = 10'000;
  protocol::Effects all;
  const auto move = [](auto& from, auto* to) {
    std::move(from.begin(), from.end(), std::back_inserter(*to));
  };
  bool more = true;
  int wakes = 0;
  for (int steps = 0; more && steps < kStepsMax; ++steps) {
    const shard::StepResult result = shards_[0]->Step(now_);
    // A moved message's timer may be late, so the shard gets a few more steps.
    more = result.more || (result.wake_wall_ms <= now_.wall_ms && wakes++ < 3);
    protocol::Effects effects = shards_[0]->TakeEffects();
    move(effects.replies, &all.replies);
    move(effects.frames, &all.frames);
    move(effects.settles, &all.settles);
    all.failed |= effects.failed;
    if (auto batch = shards_[0]->TakeBatch()) {
      Submit(0, *std::move(batch), /*may_answer_early=*/false);
      more = true;
    }
    Commit(/*faults=*/0);
  }
  if (more) Violate("the shard does not come to rest");
  return all;
}

// ---- Requests

protocol::NewMessage World::MakeMessage(const Ask& ask, uint32_t slot) const {
  storage::MessageRecord record;
  record.header = {.topic = ask.topic, .deliver_ms = ask.deliver_ms, .accept_ms = now_.wall_ms};
  record.key = ask.key;
  record.ordering_key = ask.ordering_key;
  record.ttl_ms = ask.ttl_ms;
  record.late_policy = ask.late_policy;
  record.spread_ms = ask.spread_ms;
  record.payload = ask.payload;
  protocol::NewMessage message = protocol::MakeNewMessage(record, slot);
  const bool plain =
      ask.key.empty() && ask.request_id.empty() && ask.spread_ms == 0 && !ask.validate_only;
  if (plain) return message;
  message.options = std::make_unique<protocol::ScheduleOptions>();
  message.options->key = ask.key;
  message.options->ordering_key = ask.ordering_key;
  message.options->request_id = ask.request_id;
  message.options->content = {.high = ask.fingerprint, .low = ~ask.fingerprint};
  message.options->on_conflict = ask.on_conflict;
  if (fault_ == PlantedFault::kPullForward && ask.on_conflict == protocol::OnConflict::kPushBack) {
    message.options->on_conflict = protocol::OnConflict::kReplace;
  }
  message.options->only_if_exists = ask.only_if_exists;
  message.options->validate_only = ask.validate_only;
  message.options->max_wait_ms = ask.max_wait_ms;
  message.options->spread_ms = ask.spread_ms;
  return message;
}

uint32_t World::AnySlotOf(uint16_t shard) {
  for (;;) {
    const auto slot = static_cast<uint32_t>(Random(MessageId::kSlotCount));
    if (storage::ShardOfSlot(slot, shard_count_) == shard) return slot;
  }
}

// ---- Subscribers

protocol::AttachCommand World::NewStream(storage::SubscriptionId subscription, TopicId topic,
                                         int64_t messages_max, uint64_t lease_ms,
                                         bool reports_begun) {
  const protocol::StreamId id{next_stream_++};
  auto credit = std::make_shared<protocol::StreamCredit>(messages_max, 1 << 20);
  streams_[id] = {.subscription = subscription,
                  .topic = topic,
                  .lease_ms = lease_ms,
                  .messages_max = messages_max,
                  .credit = credit,
                  .held = {},
                  .reports_begun = reports_begun,
                  .begun = {}};
  Note("attach ", static_cast<uint64_t>(id), " to ", static_cast<uint32_t>(subscription),
       ", credit ", messages_max, ", lease ", lease_ms, reports_begun ? ", reports" : "");
  return {.stream = id,
          .topic = topic,
          .subscription = subscription,
          .lease_ms = lease_ms,
          .credit = std::move(credit),
          .reports_begun = reports_begun,
          .client_id = ClientOf(id)};
}

World::Stream* World::Receive(const protocol::DeliveryFrame& frame) {
  const bool of_this_run = streams_.contains(frame.stream);
  auto& streams = of_this_run ? streams_ : former_.streams;
  const auto it = streams.find(frame.stream);
  if (it == streams.end()) {
    Violate("a frame for a stream that is gone");
    return nullptr;
  }
  Stream& stream = it->second;
  if (frame.deliveries.empty()) Violate("an empty frame");
  for (const protocol::Delivery& delivery : frame.deliveries) {
    Count("deliveries");
    Note("delivered ", delivery.id.ToString(), ", attempt ", delivery.attempt, ", lease ",
         static_cast<uint64_t>(delivery.token));
    stream.held.push_back(delivery.token);
    if (!delivery.confirm_begun) continue;
    Count("suspects");
    // Its lease may have ended since.
    if (!stream.reports_begun || stream.credit->messages() > 1) {
      Violate(delivery.id.ToString() + ": a suspect that is not alone on its stream");
    }
  }
  if (stream.credit->messages() > stream.messages_max) {
    Violate("more outstanding than the credit allows");
  }
  return &stream;
}

std::vector<protocol::SettleCommand> World::MakeSettles(protocol::StreamId id, bool ack_all) {
  Stream& stream = streams_.at(id);
  std::vector<protocol::SettleCommand> commands(shard_count_);
  for (protocol::SettleCommand& command : commands) command.stream = id;
  std::vector<LeaseToken> keep;
  for (const LeaseToken token : stream.held) {
    protocol::SettleCommand& command = commands[protocol::ShardOfLease(token)];
    if (stream.reports_begun && Chance(40) && stream.begun.insert(token).second) {
      command.begun.push_back(token);
    }
    const uint64_t what = ack_all ? 0 : Random(100);
    protocol::Settlement settlement{.token = token};
    if (what < 40) {
      settlement.action = SettleAction::kAck;
    } else if (what < 45) {
      settlement.action = SettleAction::kRelease;
      settlement.ms = Chance(50) ? 0 : Random(500);
      Count("released");
    } else if (what < 57) {
      settlement.action = SettleAction::kNack;
      settlement.ms = Chance(50) ? std::optional<uint64_t>() : Random(500);
      settlement.reason = "no";
    } else if (what < 60 && MayReject(token)) {
      settlement.action = SettleAction::kDeadLetter;
      settlement.reason = "never";
    } else {
      keep.push_back(token);
      if (what < 92) continue;
      settlement.action = SettleAction::kExtend;
      settlement.ms = 1 + Random(1000);
    }
    command.settlements.push_back(std::move(settlement));
  }
  if (!ack_all && Chance(5)) {
    const uint64_t shard = Random(shard_count_);
    const LeaseToken nonsense{shard << 58 | random_() >> 6};
    commands[shard].settlements.push_back({.token = nonsense});
  }
  stream.held = std::move(keep);
  return commands;
}

// ---- Leftovers

bool World::NothingInMemory() const {
  return std::all_of(shards_.begin(), shards_.end(), [](const auto& shard) {
    const protocol::ShardStats stats = shard->stats();
    return stats.waiting + stats.recurrences + stats.operations_running + stats.due_ready +
               stats.in_flight + stats.delayed + stats.blocked + stats.wheel_timers ==
           0;
  });
}

bool World::NothingStored() {
  for (uint16_t i = 0; i < shard_count_; ++i) {
    storage::Page<storage::MessageRef> page;
    const auto end = MessageKey::FirstAt(MessageId::kDueMax);
    if (!store_->Scan(i, {}, end, {}, &page).ok() || !page.items.empty()) return false;
    const auto behind = store_->BacklogSubscriptions(i);
    if (!behind.ok() || !behind->subscriptions.empty()) return false;
  }
  return true;
}

void World::CheckNothingLeft() {
  if (!NothingInMemory()) Violate("something is left in memory after the drain");
  if (!NothingStored()) Violate("something is left on disk after the drain");
}

void World::CheckForgotten(const std::vector<MessageId>& ids, uint32_t topics) {
  // Longer than every retention.
  now_.wall_ms += 200'000'000;
  store_->DropExpired(now_.wall_ms);
  host_->disk()->Compact();
  for (uint16_t shard = 0; shard < shard_count_; ++shard) {
    for (uint32_t i = 1; i <= topics; ++i) {
      for (const auto kind : {storage::IndexKind::kUserKey, storage::IndexKind::kRequest}) {
        std::vector<storage::IndexRef> entries;
        if (!store_->ScanIndex(shard, TopicId{i}, kind, {"", ""}, 1, &entries).ok()) {
          Violate("the index cannot be read");
        } else if (!entries.empty()) {
          Violate(absl::StrCat("the name ", entries[0].name, " of ", entries[0].entry.id.ToString(),
                               " is kept for ever"));
        }
      }
      for (const storage::CountLevel level : storage::kCountLevels) {
        std::vector<storage::BucketCount> counts;
        const auto read =
            store_->ScanCounts(shard, TopicId{i}, level, {0, MessageId::kDueMax}, 1, &counts);
        if (!read.ok() || !counts.empty()) Violate("a counter counts messages, and there is none");
      }
    }
  }
  for (const MessageId& id : ids) {
    const auto locator = store_->GetLocator(ShardOfId(id), id);
    if (!locator.ok() || locator->has_value()) {
      Violate(id.ToString() + ": its locator is kept for ever");
    }
    // Reads without the planted fault.
    const MessageKey key{.due_ms = id.due_ms(), .id = id};
    const auto rows = store_->TestStore::GetProgress(ShardOfId(id), key);
    if (!rows.ok() || !rows->empty()) {
      Violate(id.ToString() + ": the progress beside it is kept for ever");
    }
  }
}

}  // namespace duetime::simulation
