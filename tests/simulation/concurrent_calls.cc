// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/concurrent_calls.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

#include "storage/message_record.h"
#include "storage/slot.h"

namespace duetime::simulation {

using protocol::CallTag;
using protocol::OnConflict;
using protocol::RecurrenceCommand;
using protocol::StreamId;
using protocol::SubscriptionCommand;
using storage::AppendOutcome;
using storage::Durability;
using storage::MessageId;
using storage::SubscriptionId;
using storage::TopicId;

namespace {

constexpr size_t kSubscriptionsMax = 3;
constexpr size_t kStreamsMax = 10;

// Few keys, so that calls about the same key overlap. Bulk operations cover the keys that begin
// with "b".
const std::vector<std::string> kUserKeys = {"k-0", "k-1", "k-2", "b-0", "b-1"};
constexpr const char* kBulkPrefix = "b";
const std::string kRecurrences[] = {std::string(kWholeRecurrence), "with gaps"};

}  // namespace

ConcurrentCalls::ConcurrentCalls(uint64_t seed, PlantedFault fault)
    : World(seed, fault, 3), contract_(kByUse) {
  limits_.frame_bytes_max = 50 + Random(400);
  if (Chance(67)) limits_.failure_rate = static_cast<uint32_t>(1 + Random(50));
  if (Chance(25)) limits_.startup_rate = static_cast<uint32_t>(5 + Random(60));
  if (Chance(30)) limits_.tombstone_retention_ms = Chance(50) ? 0 : 1 + Random(3000);
  if (Chance(20)) limits_.waiting_max = 1 + Random(4);
  Start();
  while (Chance(75)) DoSubscribe();
}

void ConcurrentCalls::Start() {
  Open();
  failed_ = fault_expected_ = false;
  contract_.OnStart(now_, store_->epoch());
  for (uint32_t i = kByUse + 1; i <= kTopics; ++i) {
    protocol::TopicCommand command;
    command.topic = TopicId{i};
    command.dead_letter = kDeadLetters;
    SendToAll(command);
  }
  // A client repeats a change of a subscription whose answer a crash lost.
  for (auto& [id, subscription] : contract_.subscriptions()) {
    if (!std::exchange(subscription.unknown, false)) continue;
    if (subscription.live) subscription.first_number = next_ask_;
    ChangeSubscription(id, /*from_now=*/true);
  }
}

void ConcurrentCalls::Crash() {
  // Some crashes come when all work is done. Such a crash may forget only which messages are in
  // flight.
  const bool rest = !failed_ && !fault_expected_ && Chance(40);
  if (rest) {
    const bool was_healing = std::exchange(healing_, true);
    for (uint16_t i = 0; i < shard_count_; ++i) StepShard(i);
    do {
      while (!journal_.empty()) Commit();
      for (uint16_t i = 0; i < shard_count_; ++i) Collect(i);
    } while (!journal_.empty());
    healing_ = was_healing;
  }
  const bool power = !rest && Chance(50);
  const size_t unsynced = disk_.unsynced_appends();
  std::vector<Contract::Question> open;
  for (const auto& [tag, call] : calls_) {
    open.insert(open.end(), call.questions.begin(), call.questions.end());
    if (call.subscription != SubscriptionId{}) {
      contract_.subscriptions().at(call.subscription).unknown = true;
    }
  }
  contract_.OnCrash(power, rest, open);
  calls_.clear();
  journal_.clear();
  Note("crash, ", rest ? "at rest" : power ? "of the power" : "of the process");
  Close(power ? Random(unsynced + 1) : unsynced, /*clock_goes_back=*/true);
  Start();
}

void ConcurrentCalls::Tick() {
  const uint64_t what = Random(100);
  const uint64_t step = what < 90 ? Random(8) : (what < 99 ? Random(200) : Random(4000));
  now_.mono_ms += step;
  if (!Chance(5)) now_.wall_ms += step;  // else the wall clock was set back: server time waits
}

void ConcurrentCalls::Event() {
  Tick();
  const uint64_t what = Random(1000);
  if (failed_ || what < 3) {
    Crash();
  } else if (what < 170) {
    DoSchedule();
  } else if (what < 215) {
    DoCancel();
  } else if (what < 240) {
    DoGetOrMove();
  } else if (what < 247) {
    DoRecurrence();
  } else if (what < 248) {
    DoBulk();
  } else if (what < 254) {
    DoSubscribe();
  } else if (what < 258) {
    DoUnsubscribe();
  } else if (what < 295) {
    DoAttachAny();
  } else if (what < 313) {
    DoDetach();
  } else if (what < 510) {
    if (!streams_.empty()) DoSettle(AnyOf(streams_)->first, /*ack_all=*/false);
  } else if (what < 755) {
    StepShard(static_cast<uint16_t>(Random(shard_count_)));
  } else {
    Commit();
  }
  if (Random(10) == 0) CheckInvariants();
  if (!contract_.violation().empty()) Violate(contract_.violation());
}

void ConcurrentCalls::Send(uint16_t shard, protocol::Command command) {
  shards_[shard]->Handle(now_, std::move(command));
  CountMost("waited at a time", shards_[shard]->stats().waiting);
  Collect(shard);
}

// ---- Clients

uint16_t ConcurrentCalls::ShardOf(const Place& place) const {
  const std::string topic = absl::StrCat("topic-", static_cast<uint32_t>(place.first));
  return storage::ShardOfSlot(storage::SlotOfName(topic, place.second), shard_count_);
}

uint64_t ConcurrentCalls::AnyTime() {
  const uint64_t kind = Random(10);
  if (kind == 0) return now_.wall_ms - Random(5000);
  if (kind < 5) return now_.wall_ms + Random(100);
  return now_.wall_ms + (kind < 9 ? Random(3000) : Random(60'000));
}

Ask ConcurrentCalls::NewAsk() {
  // At times repeats an earlier ask.
  if (!asks_.empty() && Chance(7)) return OneOf(asks_);
  Ask ask;
  ask.number = ask.fingerprint = next_ask_++;
  ask.payload = absl::StrCat("c", ask.number);
  ask.deliver_ms = AnyTime();
  if (!Chance(45)) {
    ask.topic = TopicId{static_cast<uint32_t>(1 + Random(kTopics))};
    if (static_cast<uint32_t>(ask.topic) > kByUse && Chance(30)) {
      ask.ordering_key = absl::StrCat("order-", Random(2));
    }
    return ask;
  }
  ask.topic = TopicId{static_cast<uint32_t>(1 + Random(kKeyedTopics))};
  if (Chance(90)) ask.key = OneOf(kUserKeys);
  if (Chance(30)) ask.request_id = absl::StrCat("request-", next_ask_ / 2);
  if (!ask.key.empty()) {
    ask.on_conflict = static_cast<OnConflict>(Random(4));
    ask.only_if_exists = ask.on_conflict != OnConflict::kFail && Chance(15);
    if (ask.on_conflict == OnConflict::kPushBack && Chance(50)) ask.max_wait_ms = 1 + Random(5000);
  }
  asks_.push_back(ask);
  if (asks_.size() > 5) asks_.erase(asks_.begin());
  return ask;
}

void ConcurrentCalls::DoSchedule() {
  protocol::ScheduleCommand command;
  command.tag = NewTag();
  Call& call = calls_[command.tag];
  const size_t count = Chance(60) ? 1 : 2 + Random(3);
  uint16_t shard = 0;
  for (size_t i = 0; i < count; ++i) {
    Ask ask = NewAsk();
    const std::string topic = absl::StrCat("topic-", static_cast<uint32_t>(ask.topic));
    // The slot follows from the key, or else from the ordering key. A message without either goes
    // to any shard.
    const std::string name =
        ask.ordering_key.empty() ? Contract::PlaceOf(ask).second : ask.ordering_key;
    const bool anywhere = ask.key.empty() && ask.request_id.empty() && ask.ordering_key.empty();
    if (i == 0)
      shard = anywhere ? static_cast<uint16_t>(Random(shard_count_)) : ShardOf({ask.topic, name});
    if (!anywhere && ShardOf({ask.topic, name}) != shard) continue;
    const uint32_t slot = anywhere ? AnySlotOf(shard) : storage::SlotOfName(topic, name);
    call.questions.push_back(contract_.AskSchedule(&ask));
    command.messages.push_back(MakeMessage(ask, slot));
    call.asks.push_back(std::move(ask));
  }
  Send(shard, std::move(command));
}

bool ConcurrentCalls::AnyTarget(protocol::Target* target, Place* place, uint16_t* shard) {
  if (Chance(40)) {
    *place = {TopicId{static_cast<uint32_t>(1 + Random(kKeyedTopics))}, OneOf(kUserKeys)};
    target->topic = place->first;
    target->key = place->second;
    *shard = ShardOf(*place);
    return true;
  }
  const std::vector<MessageId>& ids = contract_.ids();
  if (ids.empty()) return false;
  // Mostly one of the last ids.
  const size_t span = Chance(80) ? std::min<size_t>(ids.size(), 20) : ids.size();
  target->id = ids[ids.size() - 1 - Random(span)];
  *place = contract_.PlaceOf(target->id);
  *shard = ShardOfId(target->id);
  return true;
}

void ConcurrentCalls::DoGetOrMove() {
  protocol::Target target;
  Place place;
  uint16_t shard = 0;
  if (!AnyTarget(&target, &place, &shard)) return;
  const bool by_key = !target.key.empty();
  const CallTag tag = NewTag();
  Call& call = calls_[tag];
  call.ids = {target.id};
  if (Chance(50)) {
    call.questions = {contract_.AskGet(place, by_key)};
    return Send(shard, protocol::GetCommand{.tag = tag, .target = target});
  }
  protocol::RescheduleCommand command;
  command.tag = tag;
  command.target = target;
  command.deliver_ms = call.deliver_ms = AnyTime();
  if (Chance(20)) command.revision = Random(3);
  call.questions = {contract_.AskReschedule(place, by_key, command.deliver_ms)};
  Send(shard, std::move(command));
}

void ConcurrentCalls::DoCancel() {
  const CallTag tag = NewTag();
  std::vector<protocol::CancelBatchCommand> batches(shard_count_);
  Call call;
  if (contract_.ids().empty()) return;
  const size_t count = Chance(60) ? 1 : 2 + Random(3);
  for (size_t i = 0; i < count; ++i) {
    protocol::Target target;
    Place place;
    uint16_t shard = 0;
    if (!AnyTarget(&target, &place, &shard)) return;
    batches[shard].items.push_back({.tag = tag,
                                    .position = static_cast<uint32_t>(i),
                                    .target = target,
                                    .stop_redelivery = Chance(45)});
    call.questions.push_back(contract_.AskCancel(place, !target.key.empty()));
    call.ids.push_back(target.id);
  }
  call.open = count;
  calls_[tag] = std::move(call);
  const bool single = count == 1 && Chance(50);
  for (uint16_t i = 0; i < shard_count_; ++i) {
    if (batches[i].items.empty()) continue;
    if (single) {
      Send(i, batches[i].items[0]);
    } else {
      Send(i, std::move(batches[i]));
    }
  }
}

void ConcurrentCalls::DoBulk() {
  protocol::OperationCommand command;
  command.tag = NewTag();
  command.name = absl::StrCat("operation-", static_cast<uint64_t>(command.tag));
  protocol::OperationSpec spec;
  spec.topic = TopicId{static_cast<uint32_t>(1 + Random(kKeyedTopics))};
  spec.filter.key_prefix = kBulkPrefix;
  spec.action = static_cast<protocol::BulkAction>(1 + Random(4));
  spec.shift_ms = static_cast<int64_t>(Random(20'000)) - 10'000;
  spec.horizon_ms = 100'000;
  const bool ends =
      spec.action == protocol::BulkAction::kCancel || spec.action == protocol::BulkAction::kPurge;
  contract_.OnBulk(spec.topic, kBulkPrefix, ends);
  command.spec = spec;
  SendToAll(command);
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
  Contract::Subscription& subscription = subscriptions[id];
  subscription.topic = topic;
  subscription.live = true;
  const bool from_now = !is_first && Chance(50);
  subscription.first_number = is_first ? 0 : next_ask_;
  subscription.allowed_from = from_now ? next_ask_ : 0;
  if (Chance(60)) subscription.retry.min_backoff_ms = 20 + Random(400);
  if (Chance(60)) subscription.retry.max_attempts = static_cast<uint32_t>(1 + Random(4));
  if (Chance(40)) {
    subscription.bound = 1 + Random(12);
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
  const Contract::Subscription& subscription = contract_.subscriptions().at(id);
  SubscriptionCommand command;
  command.tag = NewTag();
  command.kind =
      subscription.live ? SubscriptionCommand::Kind::kCreate : SubscriptionCommand::Kind::kDelete;
  command.from_now = from_now;
  command.state.id = id;
  command.state.topic = subscription.topic;
  command.state.name = absl::StrCat(static_cast<uint32_t>(id));
  protocol::SubscriptionSettings& settings = command.state.settings;
  settings.retry = subscription.retry;
  settings.retention_max_messages = subscription.bound;
  if (subscription.dead_letters) settings.retention_policy = protocol::RetentionPolicy::kDeadLetter;
  Call& call = calls_[command.tag];
  call.subscription = id;
  call.open = shard_count_;
  SendToAll(command);
}

// ---- Streams

void ConcurrentCalls::DoAttachAny() {
  if (streams_.size() >= kStreamsMax) return;
  const int64_t credit = OneOf<int64_t>({1, 3, 1000});
  const uint64_t lease_ms = 20 + Random(1500);
  const auto& subscriptions = contract_.subscriptions();
  if (Chance(50) && !subscriptions.empty()) {
    const auto& [id, subscription] = *AnyOf(subscriptions);
    if (subscription.live) DoAttach(id, subscription.topic, credit, lease_ms);
    return;
  }
  const uint64_t topic = Random(kByUse + 1);
  const TopicId by_use = topic == 0 ? kDeadLetters : TopicId{static_cast<uint32_t>(topic)};
  DoAttach(storage::FirstSubscription(by_use), by_use, credit, lease_ms);
}

void ConcurrentCalls::DoAttach(SubscriptionId subscription, TopicId topic, int64_t messages_max,
                               uint64_t lease_ms) {
  SendToAll(NewStream(subscription, topic, messages_max, lease_ms));
}

void ConcurrentCalls::DoDetach() {
  if (streams_.empty()) return;
  const auto it = AnyOf(streams_);
  const StreamId id = it->first;
  for (const protocol::LeaseToken token : it->second.held) {
    contract_.OnFailed(now_, token, std::nullopt);
  }
  streams_.erase(it);
  SendToAll(protocol::DetachCommand{.stream = id, .keep_leases = false});
}

bool ConcurrentCalls::MayReject(protocol::LeaseToken token) { return contract_.MayReject(token); }

void ConcurrentCalls::DoSettle(StreamId id, bool ack_all) {
  std::vector<protocol::SettleCommand> commands = MakeSettles(id, ack_all);
  for (uint16_t i = 0; i < shard_count_; ++i) {
    protocol::SettleCommand& command = commands[i];
    const size_t items = command.acks.size() + command.nacks.size() + command.extends.size() +
                         command.dead_letters.size();
    if (items == 0) continue;
    for (const auto& nack : command.nacks) {
      Note("nack ", static_cast<uint64_t>(nack.token), " delay ", nack.delay_ms.value_or(0));
    }
    contract_.OnSettleSent(now_, command);
    Send(i, std::move(command));
  }
}

// ---- The runtime

void ConcurrentCalls::StepShard(uint16_t shard) {
  base::Now now = now_;
  if (fault_ == PlantedFault::kEarlyClock) now.wall_ms += 5;
  const std::map<SubscriptionId, uint64_t> kept = CountKept();
  shards_[shard]->Step(now);
  Collect(shard);
  CheckDropped(shard, kept);
  CountMost("blocked at a time", shards_[shard]->stats().blocked);
}

// Applies the shard's effects, and puts its batch into the journal's queue.
void ConcurrentCalls::Collect(uint16_t shard) {
  Apply(shard, shards_[shard]->TakeEffects());
  // With several shards, the runtime may collect the batch later.
  if (shard_count_ > 1 && !healing_ && Chance(40)) return;
  auto batch = shards_[shard]->TakeBatch();
  if (!batch.has_value()) return;
  if (fault_ == PlantedFault::kAnswerBeforeAppend && !healing_) {
    shards_[shard]->OnCommitted(now_, batch->sequence, AppendOutcome::kAccepted);
    Apply(shard, shards_[shard]->TakeEffects());
  }
  journal_.push_back({.shard = shard, .batch = std::move(*batch)});
}

// Appends one group: the first batches in the queue.
void ConcurrentCalls::Commit() {
  if (journal_.empty()) return;
  const size_t count = 1 + Random(std::min<size_t>(journal_.size(), 5));
  std::vector<storage::RecordBatch> group;
  Durability durability = Durability::kBuffered;
  for (size_t i = 0; i < count; ++i) {
    group.push_back(journal_[i].batch.records);
    if (journal_[i].batch.durability == Durability::kSynced) durability = Durability::kSynced;
  }
  if (!healing_ && Random(1000) < 3) {
    store_->FailNextAppend(static_cast<storage::MemoryStore::Fault>(Random(3)));
    fault_expected_ = true;
  }
  if (!healing_ && Random(1000) < 1) {
    store_->FailReads(absl::InternalError("bad sector"));
    fault_expected_ = true;
  }
  const AppendOutcome outcome = store_->Append(group, durability);
  for (size_t i = 0; i < count; ++i) {
    InFlight in_flight = std::move(journal_.front());
    journal_.pop_front();
    if (fault_ == PlantedFault::kAnswerBeforeAppend && !healing_) continue;
    shards_[in_flight.shard]->OnCommitted(now_, in_flight.batch.sequence, outcome);
    Apply(in_flight.shard, shards_[in_flight.shard]->TakeEffects());
  }
  if (outcome != AppendOutcome::kAccepted) failed_ = true;
}

void ConcurrentCalls::Apply(uint16_t shard, const protocol::Effects& effects) {
  for (const protocol::Reply& reply : effects.replies) {
    std::visit([this](const auto& each) { On(each); }, reply);
  }
  for (const auto& frame : effects.frames) {
    const Stream* const stream = Receive(frame);
    if (stream == nullptr) return;
    for (const auto& delivery : frame.deliveries) {
      contract_.OnDelivery(now_, shard, stream->topic, stream->subscription, stream->lease_ms,
                           delivery);
    }
  }
  for (const auto& reply : effects.settles) contract_.OnSettled(reply, now_);
  for (const auto& wake : effects.wakes) {
    for (uint16_t i = 0; i < shard_count_; ++i) {
      if ((wake.shard_mask >> i & 1) != 0) {
        Send(i, protocol::CreditCommand{.stream = wake.stream});
      }
    }
  }
  if (!effects.failed) return;
  if (!fault_expected_) Violate("a shard failed while nothing was wrong");
  failed_ = true;
}

ConcurrentCalls::Call* ConcurrentCalls::FindCall(CallTag tag) {
  const auto it = calls_.find(tag);
  return it == calls_.end() ? nullptr : &it->second;
}

void ConcurrentCalls::On(const protocol::ScheduleReply& reply) {
  const auto node = calls_.extract(reply.tag);
  if (node.empty()) return;
  const Call& call = node.mapped();
  for (size_t i = 0; i < call.asks.size(); ++i) {
    const protocol::AcceptedMessage none;
    const protocol::AcceptedMessage& answer = reply.status.ok() ? reply.accepted.at(i) : none;
    contract_.OnSchedule(now_, call.questions[i], call.asks[i], answer, reply.status);
  }
}

void ConcurrentCalls::On(const protocol::CancelReply& reply) {
  Call* const call = FindCall(reply.tag);
  if (call == nullptr) return;
  Contract::Question& question = call->questions[reply.position];
  contract_.OnCancel(question, call->ids[reply.position], reply);
  // This cancel is answered, also if a crash loses the other answers.
  question.cancels = false;
  if (--call->open == 0) calls_.erase(reply.tag);
}

void ConcurrentCalls::On(const protocol::RescheduleReply& reply) {
  const auto node = calls_.extract(reply.tag);
  if (node.empty()) return;
  const Call& call = node.mapped();
  contract_.OnReschedule(call.questions[0], call.ids[0], call.deliver_ms, reply);
}

void ConcurrentCalls::On(const protocol::GetReply& reply) {
  const auto node = calls_.extract(reply.tag);
  if (node.empty()) return;
  contract_.OnGet(node.mapped().questions[0], node.mapped().ids[0], reply);
}

void ConcurrentCalls::On(const protocol::SubscriptionReply& reply) {
  Call* const call = FindCall(reply.tag);
  if (call == nullptr) return;
  if (!reply.status.ok()) contract_.subscriptions().at(call->subscription).unknown = true;
  if (--call->open == 0) calls_.erase(reply.tag);
}

}  // namespace duetime::simulation
