// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/subscription_world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "server/delivery/backlog_place.h"
#include "server/delivery/retry_backoff.h"

namespace duetime::simulation {

using delivery::CallTag;
using delivery::LeaseToken;
using delivery::StreamId;
using delivery::SubscriptionCommand;
using storage::AppendOutcome;
using storage::Durability;
using storage::RecordType;
using storage::SubscriptionId;
using storage::TopicId;

namespace {

constexpr uint64_t kStartMs = 1'800'000'000'000;
constexpr uint32_t kTopics = 2;
constexpr TopicId kDeadLetters{9};
constexpr size_t kSubscriptionsMax = 3;

// A MemoryStore with the faults of a sabotage.
class SabotagedStore : public storage::MemoryStore {
 public:
  SabotagedStore(storage::MemoryDisk* disk, SubscriptionSabotage sabotage)
      : MemoryStore(disk), sabotage_(sabotage) {}

  AppendOutcome Append(std::span<const storage::RecordBatch> group,
                       Durability durability) override {
    std::vector<storage::RecordBatch> batches(group.begin(), group.end());
    for (storage::RecordBatch& batch : batches) {
      std::erase_if(batch, [this](const storage::Record& record) { return Loses(record); });
      for (storage::Record& record : batch) {
        if (sabotage_ == SubscriptionSabotage::kForgetRetryTimes) record.progress.retry_ms = 0;
        if (sabotage_ == SubscriptionSabotage::kForgetAttempts) record.progress.attempts = 0;
      }
    }
    return MemoryStore::Append(batches, durability);
  }

  absl::StatusOr<std::vector<storage::ProgressRef>> GetProgress(
      uint16_t shard, const storage::MessageKey& key) override {
    if (sabotage_ == SubscriptionSabotage::kForgetProgress) {
      return std::vector<storage::ProgressRef>();
    }
    return MemoryStore::GetProgress(shard, key);
  }

 private:
  bool Loses(const storage::Record& record) const {
    switch (sabotage_) {
      case SubscriptionSabotage::kLoseProgress:
        return record.type == RecordType::kProgress;
      case SubscriptionSabotage::kLoseDeadLetters:
        return record.type == RecordType::kAccept && record.topic == kDeadLetters;
      case SubscriptionSabotage::kLoseSubscriptions:
        return record.type == RecordType::kObject;
      default:
        return false;
    }
  }

  const SubscriptionSabotage sabotage_;
};

}  // namespace

void SubscriptionReport::Add(const SubscriptionReport& other) {
  events += other.events;
  accepted += other.accepted;
  deliveries += other.deliveries;
  failures += other.failures;
  dead_letters += other.dead_letters;
  blocked += other.blocked;
  deleted += other.deleted;
  crashes += other.crashes;
  spilled += other.spilled;
  given_up += other.given_up;
}

SubscriptionWorld::SubscriptionWorld(uint64_t seed, SubscriptionSabotage sabotage)
    : random_(seed), sabotage_(sabotage), now_{.wall_ms = kStartMs, .mono_ms = 1000} {
  // Small limits, so that every one is met all the time.
  limits_.load_window_ms = 20 + Random(4000);
  limits_.loaded_max = 1 + Random(60);
  if (Random(2) == 0) limits_.fire_per_step = 1 + Random(5);
  limits_.due_max = 2 + Random(40);
  // Not drawn: so that seeds that found something still do.
  if (seed % 3 > 0) limits_.failure_rate = static_cast<uint32_t>(1 + seed % 50);
  if (seed % 4 == 1) limits_.catch_up_rate = static_cast<uint32_t>(5 + seed % 60);
  limits_.due_idle_max = 1 + Random(10);
  limits_.frame_messages_max = 1 + Random(8);
  limits_.claim_renew_ms = 1 + Random(100);
  limits_.claim_ahead_ms = limits_.claim_renew_ms + 1 + Random(200);
  limits_.spill_age_ms = 1100 + Random(5000);
  limits_.safe_period_ms = 10 + Random(500);
  Start();
  while (Chance(70)) DoSubscribe();
}

SubscriptionWorld::~SubscriptionWorld() = default;

void SubscriptionWorld::Start() {
  store_ = std::make_unique<SabotagedStore>(&disk_, sabotage_);
  shard_ = std::make_unique<delivery::Shard>(0, limits_, store_.get());
  if (!shard_->Recover(now_).ok()) Violate("Recover failed");
  for (uint32_t i = 1; i <= kTopics; ++i) {
    delivery::TopicCommand command;
    command.topic = TopicId{i};
    command.dead_letter = kDeadLetters;
    command.dead_letter_name = "dead";
    Send(std::move(command));
  }
  // What was not answered is asked for again.
  for (auto& [id, subscription] : subscriptions_) {
    if (!subscription.unknown) continue;
    subscription.unknown = false;
    SubscriptionCommand command;
    command.tag = CallTag{next_call_++};
    const bool create = subscription.live;
    command.kind = create ? SubscriptionCommand::Kind::kCreate : SubscriptionCommand::Kind::kDelete;
    command.state.id = id;
    command.state.topic = subscription.topic;
    command.state.name = absl::StrCat(static_cast<uint32_t>(id));
    command.state.settings = SettingsOf(subscription);
    command.from_now = true;
    if (create) subscription.first_number = next_message_;
    changes_[command.tag] = {id, create};
    Send(std::move(command));
  }
}

void SubscriptionWorld::EndLeases() {
  for (auto& [key, pair] : pairs_) {
    if (pair.ack_sent) pair.maybe_settled = true;
    pair.ack_sent = false;
    pair.lease.reset();
  }
}

void SubscriptionWorld::Crash() {
  ++report_.crashes;
  // At times everything has come to rest before: then nothing may be forgotten but what is in
  // flight.
  const bool rest = Chance(50);
  if (rest) {
    Step();
    do {
      while (!journal_.empty()) Commit();
      Collect();
    } while (!journal_.empty());
  }
  const bool power = !rest && Chance(50);
  const size_t unsynced = disk_.unsynced_appends();
  disk_.PowerCut(power ? Random(unsynced + 1) : unsynced);
  for (auto& [tag, number] : schedules_) messages_[number].unknown = true;
  for (auto& [tag, number] : cancels_) messages_[number].unknown = true;
  for (auto& [tag, change] : changes_) subscriptions_[change.first].unknown = true;
  schedules_.clear();
  cancels_.clear();
  changes_.clear();
  for (auto& [key, pair] : pairs_) {
    if (power && pair.acked) pair.maybe_settled = true;
    if (power) pair.acked = false;
    const bool in_flight = pair.lease.has_value();
    // What failed counts; what was in flight is not known to have failed.
    if (rest && pair.run == run_) pair.failed = pair.attempts - (in_flight ? 1 : 0);
    if (in_flight || !rest) pair.retry_wall_ms = 0;
    pair.retry_mono_ms = UINT64_MAX;
  }
  ++run_;
  EndLeases();
  settling_.clear();
  streams_.clear();
  journal_.clear();
  for (auto& [id, subscription] : subscriptions_) subscription.dropped = 0;
  report_.spilled += shard_->stats().spilled;
  shard_.reset();
  now_.wall_ms += Random(300);
  now_.mono_ms = Random(1000);
  Start();
}

SubscriptionReport SubscriptionWorld::Run(int events) {
  for (int i = 0; i < events && report_.violation.empty(); ++i) {
    Event();
    ++report_.events;
  }
  if (report_.violation.empty()) Drain();
  report_.spilled += shard_->stats().spilled;
  return report_;
}

void SubscriptionWorld::Event() {
  const uint64_t pace = Random(100);
  const uint64_t step = pace < 90 ? Random(8) : (pace < 99 ? Random(200) : Random(4000));
  now_.mono_ms += step;
  now_.wall_ms += step;
  const uint64_t what = Random(1000);
  if (what < 4) {
    Crash();
  } else if (what < 150) {
    DoSchedule();
  } else if (what < 170) {
    DoCancel();
  } else if (what < 176) {
    DoSubscribe();
  } else if (what < 180) {
    DoUnsubscribe();
  } else if (what < 230) {
    const int64_t credit = Chance(50) ? 3 : 1000;
    const uint64_t lease_ms = 20 + Random(1500);
    if (Chance(20)) {
      DoAttach(storage::FirstSubscription(kDeadLetters), credit, lease_ms);
    } else if (!subscriptions_.empty()) {
      auto it = subscriptions_.begin();
      std::advance(it, static_cast<int64_t>(Random(subscriptions_.size())));
      if (it->second.live) DoAttach(it->first, credit, lease_ms);
    }
  } else if (what < 250) {
    DoDetach();
  } else if (what < 500) {
    if (streams_.empty()) return;
    auto it = streams_.begin();
    std::advance(it, static_cast<int64_t>(Random(streams_.size())));
    DoSettle(it->first, &it->second, false);
  } else if (what < 750) {
    Step();
  } else {
    Commit();
  }
  report_.blocked = std::max(report_.blocked, shard_->stats().blocked);
  if (Random(10) == 0) shard_->CheckInvariants();
}

void SubscriptionWorld::Send(delivery::Command command) {
  shard_->Handle(now_, std::move(command));
  Collect();
}

void SubscriptionWorld::DoSchedule() {
  delivery::ScheduleCommand command;
  command.tag = CallTag{next_call_++};
  const uint64_t number = next_message_++;
  Message& message = messages_[number];
  message.topic = TopicId{static_cast<uint32_t>(1 + Random(kTopics))};
  message.deliver_ms = now_.wall_ms + (Chance(60) ? Random(100) : Random(3000));
  if (Chance(30)) message.order = absl::StrCat("order-", Random(2));
  const std::string payload = absl::StrCat(number);
  scheduler::NewMessage fresh;
  fresh.topic = message.topic;
  fresh.slot = static_cast<uint32_t>(Random(storage::MessageId::kSlotCount));
  fresh.deliver_ms = message.deliver_ms;
  fresh.record = storage::EncodeMessageRecord({.header = {.topic = message.topic,
                                                          .deliver_ms = message.deliver_ms,
                                                          .accept_ms = now_.wall_ms},
                                               .ordering_key = message.order,
                                               .payload = payload});
  command.messages.push_back(std::move(fresh));
  schedules_[command.tag] = number;
  Send(std::move(command));
}

void SubscriptionWorld::DoCancel() {
  if (messages_.empty()) return;
  const uint64_t span = std::min<uint64_t>(next_message_ - 1, 30);
  const uint64_t number = next_message_ - 1 - Random(span);
  Message& message = messages_[number];
  if (!message.accepted) return;
  const CallTag tag{next_call_++};
  cancels_[tag] = number;
  message.maybe_cancelled = true;
  Send(delivery::CancelCommand{.tag = tag,
                               .target = {.id = message.id, .topic = {}, .key = ""},
                               .stop_redelivery = Chance(50)});
}

void SubscriptionWorld::DoSubscribe() {
  const TopicId topic{static_cast<uint32_t>(1 + Random(kTopics))};
  const SubscriptionId first = storage::FirstSubscription(topic);
  size_t live = 0;
  for (const auto& [id, subscription] : subscriptions_) {
    if (subscription.topic == topic && subscription.live) ++live;
    if (subscription.unknown) return;
  }
  if (live >= kSubscriptionsMax) return;
  const bool is_first = !subscriptions_.contains(first);
  const SubscriptionId id = is_first ? first : SubscriptionId{next_subscription_++};
  Subscription& subscription = subscriptions_[id];
  subscription.topic = topic;
  subscription.live = true;
  SubscriptionCommand command;
  command.tag = CallTag{next_call_++};
  command.kind = SubscriptionCommand::Kind::kCreate;
  command.from_now = !is_first && Chance(50);
  subscription.first_number = is_first ? 0 : next_message_;
  subscription.allowed_from = command.from_now ? next_message_ : 0;
  if (Chance(60)) subscription.retry.min_backoff_ms = 20 + Random(400);
  if (Chance(60)) subscription.retry.max_attempts = static_cast<uint32_t>(1 + Random(4));
  command.state.id = id;
  command.state.topic = topic;
  command.state.name = absl::StrCat(static_cast<uint32_t>(id));
  if (Chance(40)) {
    subscription.bound = 1 + Random(12);
    subscription.dead_letters = Chance(40);
  }
  command.state.settings = SettingsOf(subscription);
  changes_[command.tag] = {id, true};
  Send(std::move(command));
}

void SubscriptionWorld::DoUnsubscribe() {
  std::vector<SubscriptionId> choices;
  for (const auto& [id, subscription] : subscriptions_) {
    if (subscription.unknown) return;
    if (!subscription.live) continue;
    const bool others = std::any_of(subscriptions_.begin(), subscriptions_.end(),
                                    [&, topic = subscription.topic, self = id](const auto& other) {
                                      return other.first != self && other.second.topic == topic &&
                                             other.second.live;
                                    });
    if (others) choices.push_back(id);
  }
  if (choices.empty() || !changes_.empty()) return;
  const SubscriptionId id = choices[Random(choices.size())];
  subscriptions_[id].live = false;
  std::erase_if(streams_, [id](const auto& item) { return item.second.subscription == id; });
  ++report_.deleted;
  SubscriptionCommand command;
  command.tag = CallTag{next_call_++};
  command.kind = SubscriptionCommand::Kind::kDelete;
  command.state.id = id;
  changes_[command.tag] = {id, false};
  Send(std::move(command));
}

void SubscriptionWorld::DoAttach(SubscriptionId subscription, int64_t messages_max,
                                 uint64_t lease_ms) {
  const StreamId id{next_stream_++};
  Stream& stream = streams_[id];
  stream.subscription = subscription;
  stream.lease_ms = lease_ms;
  stream.credit = std::make_shared<delivery::StreamCredit>(messages_max, 100'000);
  const auto known = subscriptions_.find(subscription);
  const TopicId topic = known == subscriptions_.end() ? kDeadLetters : known->second.topic;
  Send(delivery::AttachCommand{.stream = id,
                               .topic = topic,
                               .subscription = subscription,
                               .lease_ms = lease_ms,
                               .credit = stream.credit});
}

void SubscriptionWorld::DoDetach() {
  if (streams_.empty()) return;
  auto it = streams_.begin();
  std::advance(it, static_cast<int64_t>(Random(streams_.size())));
  const StreamId id = it->first;
  for (const LeaseToken token : it->second.held) {
    if (!settling_.contains(token)) OnFailed(token, std::nullopt);
  }
  streams_.erase(it);
  Send(delivery::DetachCommand{.stream = id, .keep_leases = false});
}

void SubscriptionWorld::DoSettle(StreamId id, Stream* stream, bool ack_all) {
  delivery::SettleCommand command;
  command.stream = id;
  std::vector<LeaseToken> keep;
  for (const LeaseToken token : stream->held) {
    const uint64_t what = ack_all ? 0 : Random(100);
    if (what >= 60) {
      keep.push_back(token);
    } else if (what < 30) {
      command.acks.push_back(token);
      settling_[token] = false;
    } else if (what < 55) {
      const auto delay_ms = Chance(50) ? std::optional<uint64_t>() : Random(500);
      command.nacks.push_back({.token = token, .delay_ms = delay_ms, .reason = "no"});
    } else if (leases_[token].first != 0) {
      command.dead_letters.push_back({.token = token, .reason = "never"});
      settling_[token] = true;
    }
  }
  stream->held = std::move(keep);
  for (const auto& [token, reject] : settling_) {
    Pair& pair = pairs_[leases_[token]];
    if (pair.lease == token) pair.ack_sent = true;
  }
  for (const delivery::NackItem& nack : command.nacks) OnFailed(nack.token, nack.delay_ms);
  Send(std::move(command));
}

void SubscriptionWorld::OnFailed(LeaseToken token, std::optional<uint64_t> delay_ms) {
  const PairKey key = leases_[token];
  Pair& pair = pairs_[key];
  if (pair.lease != token) return;
  // An expired one may have ended before.
  if (now_.mono_ms >= pair.lease_end_mono_ms) return;
  ++report_.failures;
  pair.lease.reset();
  const auto subscription = subscriptions_.find(key.second);
  if (subscription == subscriptions_.end()) return;
  const uint64_t backoff_ms = delivery::BackoffMs(subscription->second.retry, pair.attempts, 0);
  pair.retry_mono_ms = now_.mono_ms + delay_ms.value_or(backoff_ms);
  pair.retry_wall_ms = now_.wall_ms + delay_ms.value_or(backoff_ms);
}

void SubscriptionWorld::OnSettled(LeaseToken token) {
  const auto sent = settling_.find(token);
  if (sent == settling_.end()) return;
  Pair& pair = pairs_[leases_[token]];
  (sent->second ? pair.dead : pair.acked) = true;
  pair.ack_sent = false;
  pair.lease.reset();
  settling_.erase(sent);
}

delivery::SubscriptionSettings SubscriptionWorld::SettingsOf(
    const Subscription& subscription) const {
  delivery::SubscriptionSettings settings;
  settings.retry = subscription.retry;
  settings.retention_max_messages = subscription.bound;
  if (subscription.dead_letters) settings.retention_policy = delivery::RetentionPolicy::kDeadLetter;
  return settings;
}

void SubscriptionWorld::Step() {
  // Only then the store says how many there are. A look at all of it takes its time.
  const bool look = journal_.empty() && Chance(40);
  std::map<SubscriptionId, uint64_t> before;
  for (const auto& [id, subscription] : subscriptions_) {
    if (look && subscription.live && subscription.bound > 0) {
      const std::set<storage::MessageKey> unsettled = Unsettled(id, subscription);
      before[id] = unsettled.size() + Echoes(id, unsettled);
    }
  }
  shard_->Step(now_);
  Collect();
  CheckGivenUp(before);
}

void SubscriptionWorld::Collect() {
  Apply(shard_->TakeEffects());
  if (auto batch = shard_->TakeBatch(); batch.has_value()) journal_.push_back(std::move(*batch));
}

std::set<storage::MessageKey> SubscriptionWorld::Unsettled(SubscriptionId id,
                                                           const Subscription& subscription) {
  storage::Page<storage::MessageRef> page;
  if (!store_->Scan(0, {}, storage::MessageKey::FirstAt(now_.wall_ms + 1), {}, &page).ok())
    return {};
  std::set<storage::MessageKey> unsettled;
  for (const storage::MessageRef& item : page.items) {
    if (item.topic != subscription.topic) continue;
    const auto bytes = store_->Get(0, item.key);
    storage::MessageRecord record;
    uint64_t number = 0;
    if (!storage::DecodeMessageRecord(**bytes, &record).ok() ||
        !absl::SimpleAtoi(record.payload, &number) || number < subscription.allowed_from) {
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

uint64_t SubscriptionWorld::Echoes(SubscriptionId id,
                                   const std::set<storage::MessageKey>& unsettled) {
  storage::Page<storage::BacklogRef> page;
  if (!store_->ScanBacklog(0, id, {}, {}, &page).ok()) return 0;
  return static_cast<uint64_t>(std::count_if(
      page.items.begin(), page.items.end(),
      [&unsettled](const auto& item) { return !unsettled.contains(delivery::KeyOf(item)); }));
}

void SubscriptionWorld::Commit() {
  if (journal_.empty()) return;
  const delivery::PendingBatch batch = std::move(journal_.front());
  journal_.pop_front();
  const AppendOutcome outcome = store_->Append(std::span(&batch.records, 1), batch.durability);
  shard_->OnCommitted(now_, batch.sequence, outcome);
  Collect();
}

// Eager subscribers and time enough; then nothing may be left.
void SubscriptionWorld::Drain() {
  if (Chance(50)) Crash();
  while (!journal_.empty()) Commit();
  CheckBounds(store_.get());
  for (const auto& [id, subscription] : subscriptions_) {
    if (subscription.live) DoAttach(id, 1000, 30'000);
  }
  for (uint32_t i = 1; i <= kTopics; ++i) {
    const SubscriptionId first = storage::FirstSubscription(TopicId{i});
    if (subscriptions_.contains(first)) continue;
    // Nobody has asked for this topic: now somebody does.
    Subscription& subscription = subscriptions_[first];
    subscription.topic = TopicId{i};
    subscription.live = true;
    DoAttach(first, 1000, 30'000);
  }
  DoAttach(storage::FirstSubscription(kDeadLetters), 1000, 30'000);
  constexpr int kRoundsMax = 1000;
  for (int round = 0; round < kRoundsMax && report_.violation.empty(); ++round) {
    now_.mono_ms += 100;
    now_.wall_ms += 100;
    Step();
    for (auto& [id, stream] : streams_) DoSettle(id, &stream, true);
    Collect();
    while (!journal_.empty()) Commit();
    if (round % 20 == 0) shard_->CheckInvariants();
    if (round % 20 == 19 && Empty()) break;
  }
  if (report_.violation.empty()) CheckDrained();
}

bool SubscriptionWorld::Empty() {
  const delivery::ShardStats stats = shard_->stats();
  if (stats.due_ready + stats.in_flight + stats.delayed + stats.blocked + stats.wheel_timers != 0) {
    return false;
  }
  storage::Page<storage::MessageRef> page;
  const auto end = storage::MessageKey::FirstAt(storage::MessageId::kDueMax);
  if (!store_->Scan(0, {}, end, {}, &page).ok() || !page.items.empty()) return false;
  const auto behind = store_->BacklogSubscriptions(0);
  return behind.ok() && behind->empty();
}

}  // namespace duetime::simulation
