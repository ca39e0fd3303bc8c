// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/concurrent_calls.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

#include "server/protocol/topic_quota.h"
#include "storage/message_record.h"
#include "storage/slot.h"
#include "storage/time_units.h"

namespace duetime::simulation {

using protocol::CallTag;
using protocol::OnConflict;
using protocol::RecurrenceCommand;
using protocol::StreamId;
using protocol::SubscriptionCommand;
using storage::AppendOutcome;
using storage::SubscriptionId;
using storage::TopicId;

namespace {

constexpr size_t kSubscriptionsMax = 3;
constexpr size_t kStreamsMax = 10;
constexpr size_t kDamagedMax = 12;

constexpr TopicId kHotTopic{1};
constexpr const char* kBulkPrefix = "b";
const std::string kRecurrences[] = {std::string(kWholeRecurrence), "with gaps"};

}  // namespace

ConcurrentCalls::ConcurrentCalls(const Setup& setup, bool hot_key)
    // Few keys, so that calls about the same key overlap.
    : Calls(setup, 3, Lead::kLost, {"k-0", "k-1", "k-2", "b-0", "b-1"}, kKeyedTopics),
      hot_key_(hot_key),
      damages_(setup.seed % 5 < 2),
      ordered_percent_(setup.seed % 3 == 0 ? 90 : 30),
      contract_(kByUse) {
  limits_.frame_bytes_max = 50 + Random(400);
  if (Chance(67)) limits_.failure_rate = static_cast<uint32_t>(1 + Random(50));
  if (Chance(25)) limits_.startup_rate = static_cast<uint32_t>(5 + Random(60));
  if (Chance(30)) limits_.tombstone_retention_ms = Chance(50) ? 0 : 1 + Random(3000);
  if (Chance(20)) limits_.waiting_max = 1 + Random(4);
  if (!hot_key) SetLimits(setup.seed);
  Start();
  while (Chance(75)) DoSubscribe();
}

// In some runs a topic has a quota, or few messages in a minute.
void ConcurrentCalls::SetLimits(uint64_t seed) {
  ConcurrentContract::Limits& limits = contract_.limits();
  limits.shards = shard_count_;
  const uint64_t kind = seed % 7;
  if (kind > 2) return;
  limits.topic = TopicId{kind == 0 ? 2u : 1u};
  if (kind == 0) {
    limits.pending_max = 3 + seed % 20;
  } else {
    limits.minute_max = 2 + seed % 8;
    if (kind == 2) limits.spread_ms = storage::kMinuteMs;
  }
}

void ConcurrentCalls::Start() {
  Open();
  contract_.OnStart(now_, store_->epoch());
  const ConcurrentContract::Limits& limits = contract_.limits();
  if (limits.topic != TopicId{}) {
    const uint64_t factor = fault_ == PlantedFault::kLooseLimits ? 4 : 1;
    protocol::TopicCommand command;
    command.topic = limits.topic;
    command.quota = std::make_shared<protocol::TopicQuota>();
    command.quota->max.store(limits.pending_max * factor);
    auto settings = std::make_shared<protocol::TopicSettings>();
    settings->set_minute_max(limits.minute_max * factor);
    settings->set_minute_policy(limits.spread_ms > 0 ? protocol::TopicSettings::SPREAD
                                                     : protocol::TopicSettings::REFUSE);
    settings->set_minute_spread_ms(limits.spread_ms);
    command.settings = settings;
    SendToAll(command);
  }
  for (uint32_t i = kByUse + 1; i <= kTopics; ++i) {
    protocol::TopicCommand command;
    command.topic = TopicId{i};
    auto settings = std::make_shared<protocol::TopicSettings>();
    settings->set_tombstone_retention_ms(0);
    command.settings = settings;
    command.dead_letter = kDeadLetters;
    SendToAll(command);
  }
  // A client repeats a change of a subscription whose answer a crash lost.
  for (auto& [id, subscription] : contract_.subscriptions()) {
    subscription.bound_is_new = subscription.unknown;
    if (!std::exchange(subscription.unknown, false)) continue;
    if (subscription.live) subscription.first_number = next_ask_;
    ChangeSubscription(id, /*from_now=*/true);
  }
}

void ConcurrentCalls::Crash() {
  using End = ConcurrentContract::End;
  // Some crashes come when all work is done. Such a crash may forget only which messages are in
  // flight. A clean stop then forgets nothing.
  bool rest = !failed_ && !fault_expected_ && Chance(40) && StillLeads();
  bool clean = false;
  if (rest) {
    const bool was_healing = std::exchange(healing_, true);
    for (uint16_t i = 0; i < shard_count_; ++i) StepShard(i);
    CommitAll();
    clean = Chance(50);
    if (clean) CloseShards();
    healing_ = was_healing;
    if (failed_) rest = clean = false;
  }
  const bool power = !rest && Chance(50);
  const End how = clean   ? End::kCleanStop
                  : rest  ? End::kCrashAtRest
                  : power ? End::kPowerCut
                          : End::kCrash;
  const size_t unsynced = host_->unsynced_appends();
  std::vector<Question> open;
  for (const auto& [tag, call] : calls_) {
    open.insert(open.end(), call.questions.begin(), call.questions.end());
    if (call.subscription != SubscriptionId{}) {
      contract_.subscriptions().at(call.subscription).unknown = true;
    }
  }
  contract_.OnEnd(how, open);
  calls_.clear();
  Count("starts of operations cut off", bulk_starts_.size());
  bulk_starts_.clear();
  if (clean) {
    Note("clean stop");
  } else {
    Note("crash, ", rest ? "at rest" : power ? "of the power" : "of the process");
  }
  Close(clean   ? Host::End::kStop
        : power ? Host::End::kPowerCut
                : Host::End::kCrash,
        power ? Random(unsynced + 1) : unsynced, /*clock_goes_back=*/true);
  if (damaged_ > 0 && (healing_ || Chance(30))) RepairDisk();
  Start();
}

void ConcurrentCalls::CommitAll() {
  do {
    CommitQueue();
    for (uint16_t i = 0; i < shard_count_; ++i) Collect(i);
  } while (!journal_.empty());
}

void ConcurrentCalls::CloseShards() {
  constexpr int kStepsMax = 1'000;
  for (uint16_t i = 0; i < shard_count_; ++i) {
    shards_[i]->Close();
    for (int step = 0; step < kStepsMax && !shards_[i]->closed(); ++step) StepHeld(i, now_);
    if (!shards_[i]->closed()) Violate("a shard does not write its last records");
    Collect(i);
  }
  CommitAll();
  Count("clean stops");
}

void ConcurrentCalls::Tick() {
  const uint64_t what = Random(100);
  const uint64_t step = what < 90 ? Random(8) : (what < 99 ? Random(200) : Random(4000));
  now_.mono_ms += step;
  if (!Chance(5)) now_.wall_ms += step;  // else the wall clock was slowed down
  host_->Pass();
}

void ConcurrentCalls::Event() {
  Tick();
  if (!failed_ && host_->Superseded()) Count("takeovers");
  if (failed_ || host_->Superseded()) Crash();
  StepFormer();
  Act();
  if (Random(10) == 0) {
    CheckInvariants();
    CheckDone();
  }
  CheckContract();
}

void ConcurrentCalls::Meanwhile() {
  if (healing_ || failed_ || !ok()) return;
  Tick();
  Act();
}

void ConcurrentCalls::StepFormer() {
  if (former_.shards.empty()) return;
  if (Chance(3)) return EndFormer();
  const auto shard = static_cast<uint16_t>(Random(shard_count_));
  shard::Shard& former = *former_.shards[shard];
  base::Now now = now_;
  now.mono_ms += former_.mono_ahead_ms;
  const bool serves = host_->FormerMayServe();
  if (Chance(20)) {
    const TopicId topic{static_cast<uint32_t>(1 + Random(kByUse))};
    auto attach = NewStream(storage::FirstSubscription(topic), topic, AnyCredit(), 1000);
    former_.streams.insert(streams_.extract(attach.stream));
    former.Handle(now, std::move(attach));
  }
  if (serves) {
    former.Begin();
  } else {
    former.Suspend();
  }
  former.Step(now);
  // Its appends wait for the log.
  static_cast<void>(former.TakeBatch());
  Count("steps of a former leader");
  if (!serves) return;
  protocol::Effects effects = former.TakeEffects();
  effects.wakes.clear();
  Apply(shard, effects);
}

void ConcurrentCalls::Act() {
  if (hot_key_) {
    for (uint64_t more = Random(4); more > 0; --more) DoSchedule();
    if (Chance(20)) Get({.id = {}, .topic = kHotTopic, .key = keys_.front()});
    if (!failed_ && Chance(50)) Commit(/*faults=*/1);
    if (failed_ && !appending_) Crash();
  }
  const uint64_t alone = appending_ ? 0 : 1;
  DoOneOf({{alone * 3, [this] { Crash(); }},
           {167, [this] { DoSchedule(); }},
           {45, [this] { DoCancel(); }},
           {13, [this] { DoGet(); }},
           {12, [this] { DoReschedule(); }},
           {7, [this] { DoRecurrence(); }},
           {1, [this] { DoBulk(); }},
           {6, [this] { DoSubscribe(); }},
           {4, [this] { DoUnsubscribe(); }},
           {37, [this] { DoAttachAny(); }},
           {18, [this] { DoDetach(); }},
           {197, [this] { DoSettleAny(); }},
           {245, [this] { StepShard(static_cast<uint16_t>(Random(shard_count_))); }},
           {alone * 245,
            [this] {
              if (!journal_.empty() && Random(1000) < 1) {
                store_->FailReads(absl::InternalError("bad sector"));
                fault_expected_ = true;
              }
              Commit(/*faults=*/3);
            }},
           {damages_ ? alone * 2 : 0, [this] { DoDamage(); }}});
}

void ConcurrentCalls::Send(uint16_t shard, protocol::Command command) {
  shards_[shard]->Handle(now_, std::move(command));
  CountMost("waited at a time", shards_[shard]->stats().waiting);
  Collect(shard);
}

// ---- Clients

Ask ConcurrentCalls::NewAsk(bool) {
  if (!asks_.empty() && Chance(7)) return OneOf(asks_);
  Ask ask;
  ask.number = ask.fingerprint = next_ask_++;
  ask.payload = absl::StrCat("c", ask.number);
  ask.deliver_ms = AnyTime();
  if (hot_key_ && Chance(70)) {
    ask.topic = kHotTopic;
    ask.key = keys_.front();
    ask.deliver_ms = now_.wall_ms + 100 + Random(5000);
    ask.on_conflict =
        OneOf<OnConflict>({OnConflict::kPushBack, OnConflict::kPushBack, OnConflict::kReplace,
                           OnConflict::kKeepTime, OnConflict::kFail});
    if (Chance(10)) ask.request_id = absl::StrCat("request-", next_ask_ / 2);
    if (Chance(10)) Remember(ask);
    return ask;
  }
  if (!Chance(45)) {
    ask.topic = TopicId{static_cast<uint32_t>(1 + Random(kTopics))};
    // A message that cannot be read holds its ordering key until the repair.
    const bool may_be_damaged = damages_ && static_cast<uint32_t>(ask.topic) <= kByUse;
    if (!may_be_damaged && Chance(ordered_percent_)) {
      ask.ordering_key = absl::StrCat("order-", Random(2));
    }
    return ask;
  }
  ask.topic = AnyKeyedTopic();
  if (Chance(90)) ask.key = OneOf(keys_);
  if (Chance(30)) ask.request_id = absl::StrCat("request-", next_ask_ / 2);
  if (!ask.key.empty()) {
    ask.on_conflict = static_cast<OnConflict>(Random(5));
    ask.only_if_exists = protocol::Replaces(ask.on_conflict) && Chance(15);
    if (ask.on_conflict == OnConflict::kPushBack && Chance(50)) ask.max_wait_ms = 1 + Random(5000);
  }
  Remember(ask);
  return ask;
}

void ConcurrentCalls::DoBulk() {
  protocol::OperationCommand command;
  command.tag = NewTag();
  command.name = absl::StrCat("operation-", static_cast<uint64_t>(command.tag));
  protocol::OperationSpec spec;
  spec.topic = AnyKeyedTopic();
  spec.filter.key_prefix = kBulkPrefix;
  spec.action = static_cast<protocol::BulkAction>(1 + Random(4));
  spec.shift_ms = static_cast<int64_t>(Random(20'000)) - 10'000;
  spec.horizon_ms = 100'000;
  const bool ends =
      spec.action == protocol::BulkAction::kCancel || spec.action == protocol::BulkAction::kPurge;
  contract_.OnBulk(spec.topic, kBulkPrefix, ends);
  command.spec = spec;
  if (shard_count_ > 1) {
    command.starting = true;
    bulk_starts_[command.tag].command = command;
  }
  Send(0, std::move(command));
}

void ConcurrentCalls::ContinueBulks() {
  std::vector<CallTag> ready;
  for (const auto& [tag, start] : bulk_starts_) {
    if (start.open == 0) ready.push_back(tag);
  }
  for (const CallTag tag : ready) {
    const auto start = bulk_starts_.find(tag);
    // An answer to the commands of another one has met a failure of the server.
    if (start == bulk_starts_.end()) continue;
    protocol::OperationCommand command = start->second.command;
    if (!std::exchange(start->second.sent_to_all, true)) {
      start->second.open = shard_count_;
      SendToAll(command);
    } else {
      bulk_starts_.erase(tag);
      command.starting = false;
      Send(0, std::move(command));
    }
  }
}

void ConcurrentCalls::DoRecurrence() {
  const bool whole = Chance(50);
  RecurrenceCommand command;
  command.tag = NewTag();
  command.name = kRecurrences[whole ? 0 : 1];
  using Kind = RecurrenceCommand::Kind;
  command.kind =
      OneOf<Kind>({Kind::kCreate, Kind::kCreate, Kind::kCreate, Kind::kCreate, Kind::kPause,
                   Kind::kPause, Kind::kResume, Kind::kResume, Kind::kUpdate, Kind::kDelete});
  const std::string payload = absl::StrCat("o", next_ask_++);
  storage::MessageRecord record;
  record.payload = payload;
  record.header.topic = kRecurring;
  command.spec.topic = kRecurring;
  command.spec.message = storage::EncodeMessageRecord(record);
  command.spec.content = {.high = next_ask_, .low = 1};
  command.spec.rule.interval_ms = static_cast<int64_t>(1000 + Random(500));
  command.spec.rule.start_ms = static_cast<int64_t>(now_.wall_ms);
  command.spec.misfire = Chance(50) ? protocol::Misfire::kFireAll : protocol::Misfire::kFireOnce;
  if (!whole) {
    command.spec.overlap = protocol::Overlap::kSkip;
    command.spec.misfire = protocol::Misfire::kSkip;
  }
  command.update_rule = Chance(50);
  Send(storage::ShardOfSlot(storage::SlotOfName("", command.name), shard_count_),
       std::move(command));
}

void ConcurrentCalls::StopRecurrences() {
  for (const std::string& name : kRecurrences) {
    RecurrenceCommand command;
    command.tag = NewTag();
    command.kind = RecurrenceCommand::Kind::kDelete;
    command.name = name;
    Send(storage::ShardOfSlot(storage::SlotOfName("", name), shard_count_), std::move(command));
  }
}

// ---- Subscriptions

void ConcurrentCalls::DoSubscribe() {
  auto& subscriptions = contract_.subscriptions();
  const TopicId topic{static_cast<uint32_t>(kByUse + 1 + Random(kTopics - kByUse))};
  const SubscriptionId first = storage::FirstSubscription(topic);
  size_t live = 0;
  for (const auto& [id, subscription] : subscriptions) {
    if (subscription.topic == topic && subscription.live) ++live;
    if (subscription.unknown) return;
  }
  if (live >= kSubscriptionsMax) return;
  const bool is_first = !subscriptions.contains(first);
  const SubscriptionId id = is_first ? first : SubscriptionId{next_subscription_++};
  ConcurrentContract::Subscription& subscription = subscriptions[id];
  subscription.topic = topic;
  subscription.live = true;
  const bool from_now = !is_first && Chance(50);
  subscription.first_number = is_first ? 0 : next_ask_;
  subscription.allowed_from = from_now ? next_ask_ : 0;
  if (Chance(60)) subscription.retry.set_min_backoff_ms(20 + Random(400));
  if (Chance(60)) subscription.retry.set_max_attempts(static_cast<uint32_t>(1 + Random(4)));
  if (Chance(40)) {
    subscription.bound = 1 + Random(12);
    subscription.bound_is_new = is_first;
    subscription.dead_letters = Chance(40);
  }
  ChangeSubscription(id, from_now);
}

void ConcurrentCalls::DoUnsubscribe() {
  auto& subscriptions = contract_.subscriptions();
  std::map<TopicId, size_t> live;
  for (const auto& [id, subscription] : subscriptions) {
    if (subscription.unknown) return;
    if (subscription.live) ++live[subscription.topic];
  }
  for (const auto& [tag, call] : calls_) {
    if (call.subscription != SubscriptionId{}) return;
  }
  // A topic's last subscription is not deleted, because it would leave its messages.
  std::vector<SubscriptionId> choices;
  for (const auto& [id, subscription] : subscriptions) {
    if (subscription.live && live[subscription.topic] > 1) choices.push_back(id);
  }
  if (choices.empty()) return;
  const SubscriptionId id = OneOf(choices);
  subscriptions[id].live = false;
  std::erase_if(streams_, [id](const auto& item) { return item.second.subscription == id; });
  Count("deleted");
  ChangeSubscription(id, /*from_now=*/false);
}

// Creates the subscription if it is live; otherwise deletes it.
void ConcurrentCalls::ChangeSubscription(SubscriptionId id, bool from_now) {
  const ConcurrentContract::Subscription& subscription = contract_.subscriptions().at(id);
  SubscriptionCommand command;
  command.tag = NewTag();
  command.kind =
      subscription.live ? SubscriptionCommand::Kind::kCreate : SubscriptionCommand::Kind::kDelete;
  command.from_now = from_now;
  command.state.id = id;
  command.state.topic = subscription.topic;
  command.state.name = absl::StrCat(static_cast<uint32_t>(id));
  protocol::SubscriptionSettings& settings = command.state.settings;
  *settings.mutable_retry() = subscription.retry;
  settings.set_retention_max_messages(subscription.bound);
  if (subscription.dead_letters)
    settings.set_retention_policy(protocol::SubscriptionSettings::DEAD_LETTER);
  Call& call = calls_[command.tag];
  call.subscription = id;
  call.open = shard_count_;
  SendToAll(command);
}

// ---- Streams

void ConcurrentCalls::DoAttachAny() {
  if (streams_.size() >= kStreamsMax) return;
  const auto& subscriptions = contract_.subscriptions();
  if (Chance(50) && !subscriptions.empty()) {
    const auto& [id, subscription] = *AnyOf(subscriptions);
    if (!subscription.live) return;
    DoAttach(id, subscription.topic, AnyCredit(), AnyLeaseMs(), /*reports_begun=*/Chance(50));
    return;
  }
  const uint64_t topic = Random(kByUse + 1);
  const TopicId by_use = topic == 0 ? kDeadLetters : TopicId{static_cast<uint32_t>(topic)};
  DoAttach(storage::FirstSubscription(by_use), by_use, AnyCredit(), AnyLeaseMs());
}

// ---- Damage

// Makes neighbours in the store unreadable, as a damaged block does.
void ConcurrentCalls::DoDamage() {
  if (failed_ || fault_expected_ || damaged_ >= kDamagedMax) return;
  const auto shard = static_cast<uint16_t>(Random(shard_count_));
  const auto last = storage::MessageKey::FirstAt(storage::MessageId::kDueMax);
  storage::Page<storage::MessageRef> page;
  // Reads without the planted fault.
  if (!store_->TestStore::Scan(shard, {}, last, {}, &page).ok()) Violate("a scan failed");
  const size_t first = Random(page.items.size());
  const size_t end = std::min<size_t>(page.items.size(), first + 1 + Random(3));
  for (size_t i = first; i < end; ++i) {
    const storage::MessageRef& item = page.items[i];
    // The others have recurrences, several subscriptions, or dead letters.
    if (static_cast<uint32_t>(item.topic) > kKeyedTopics) continue;
    const auto record = store_->Get(shard, item.key);
    if (!record.ok() || !record->has_value()) return Violate("a stored message is not there");
    contract_.OnDamaged(item.key.id, **record);
    host_->disk()->Damage(shard, item.key);
    ++damaged_;
    Count("damaged");
    Note("damaged ", item.key.id.ToString());
  }
}

void ConcurrentCalls::RepairDisk() {
  host_->Repair();
  damaged_ = 0;
  contract_.OnRepaired();
  Note("repaired");
}

// ---- The runtime

void ConcurrentCalls::StepShard(uint16_t shard) {
  ContinueBulks();
  base::Now now = now_;
  if (fault_ == PlantedFault::kEarlyClock) now.wall_ms += 5;
  const std::map<SubscriptionId, uint64_t> kept = CountKept();
  StepHeld(shard, now);
  Collect(shard);
  CheckDropped(shard, kept);
  CountMost("blocked at a time", shards_[shard]->stats().blocked);
}

// Applies the shard's effects, and puts its batch into the journal's queue.
void ConcurrentCalls::Collect(uint16_t shard) {
  Apply(shard, TakeEffects(shard));
  // With several shards, the runtime may collect the batch later.
  if (shard_count_ > 1 && !healing_ && Chance(40)) return;
  auto batch = shards_[shard]->TakeBatch();
  if (!batch.has_value()) return;
  Submit(shard, *std::move(batch), /*may_answer_early=*/true);
}

void ConcurrentCalls::OnCommitted(size_t participant, uint64_t sequence, AppendOutcome outcome) {
  World::OnCommitted(participant, sequence, outcome);
  const auto shard = static_cast<uint16_t>(participant);
  Apply(shard, TakeEffects(shard));
}

void ConcurrentCalls::OnOther(const protocol::Reply& reply) {
  if (const auto* gauges = std::get_if<protocol::InspectSubscriptionReply>(&reply)) {
    inspected_ = gauges->gauges;
  } else if (const auto* change = std::get_if<protocol::SubscriptionReply>(&reply)) {
    if (!change->status.ok()) {
      contract_.subscriptions().at(calls_.at(change->tag).subscription).unknown = true;
    }
    CloseCall(change->tag);
  } else if (const auto* operation = std::get_if<protocol::OperationReply>(&reply)) {
    const auto start = bulk_starts_.find(operation->tag);
    if (start == bulk_starts_.end()) return;
    if (!operation->status.ok()) {
      bulk_starts_.erase(start);
      return;
    }
    start->second.command.first_ms = operation->operation.first_ms;
    --start->second.open;
  }
}

}  // namespace duetime::simulation
