// SPDX-License-Identifier: Apache-2.0
//
// The part of World that keys, replaces, moves, repeats and cancels in bulk.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "storage/message_record.h"
#include "storage/slot.h"
#include "tests/simulation/world.h"

namespace duetime::simulation {

using delivery::CallTag;
using delivery::RecurrenceCommand;
using scheduler::OnConflict;
using storage::MessageId;
using storage::TopicId;

namespace {

// Few, so that calls about the same one overlap. Those with a "b" meet bulk operations.
constexpr const char* kKeys[] = {"k-0", "k-1", "k-2", "b-0", "b-1"};
constexpr const char* kBulkPrefix = "b";
// Once for each run, so that the names are not all the same.
const std::string kRecurrences[] = {std::string(kWholeRecurrence), "with gaps"};

}  // namespace

uint16_t World::ShardOf(const ChangeModel::Place& place) const {
  const std::string topic = absl::StrCat("topic-", static_cast<uint32_t>(place.first));
  return storage::ShardOfSlot(storage::SlotOfName(topic, place.second), shard_count_);
}

uint64_t World::AnyTime() {
  const uint64_t kind = Random(10);
  if (kind == 0) return now_.wall_ms - Random(5000);
  if (kind < 4) return now_.wall_ms + Random(100);
  return now_.wall_ms + (kind < 8 ? Random(3000) : Random(60'000));
}

Ask World::NewAsk() {
  // Once more what was asked for a while ago, at times.
  if (!asks_.empty() && Chance(0.15)) return asks_[Random(asks_.size())];
  Ask ask;
  ask.number = next_ask_++;
  ask.topic = TopicId{static_cast<uint32_t>(1 + Random(2))};
  if (Chance(0.9)) ask.key = kKeys[Random(std::size(kKeys))];
  if (Chance(0.3)) ask.request_id = absl::StrCat("request-", next_ask_ / 2);
  ask.deliver_ms = AnyTime();
  if (!ask.key.empty()) {
    ask.on_conflict = static_cast<OnConflict>(Random(4));
    ask.only_if_exists = ask.on_conflict != OnConflict::kFail && Chance(0.15);
    if (ask.on_conflict == OnConflict::kPushBack && Chance(0.5)) {
      ask.max_wait_ms = 1 + Random(5000);
    }
  }
  asks_.push_back(ask);
  if (asks_.size() > 5) asks_.erase(asks_.begin());
  return ask;
}

scheduler::NewMessage World::MakeMessage(const Ask& ask) {
  const std::string payload = ChangeModel::PayloadOf(ask.number);
  storage::MessageRecord record;
  record.header = {.topic = ask.topic, .deliver_ms = ask.deliver_ms, .accept_ms = now_.wall_ms};
  record.key = ask.key;
  record.payload = payload;
  scheduler::NewMessage message;
  message.topic = ask.topic;
  const auto [topic, name] = ChangeModel::PlaceOf(ask);
  message.slot = storage::SlotOfName(absl::StrCat("topic-", static_cast<uint32_t>(topic)), name);
  message.deliver_ms = ask.deliver_ms;
  message.record = storage::EncodeMessageRecord(record);
  storage::MessageHeader header;
  if (storage::DecodeMessageHeader(message.record, &header).ok()) message.flags = header.flags;
  if (ask.key.empty() && ask.request_id.empty()) return message;
  message.terms = std::make_unique<scheduler::Terms>();
  message.terms->key = ask.key;
  message.terms->request_id = ask.request_id;
  message.terms->content = {.high = ask.number, .low = ~ask.number};
  message.terms->on_conflict = ask.on_conflict;
  message.terms->only_if_exists = ask.only_if_exists;
  message.terms->max_wait_ms = ask.max_wait_ms;
  return message;
}

void World::DoScheduleKeyed() {
  delivery::ScheduleCommand command;
  command.tag = CallTag{next_call_++};
  ChangeCall& call = change_calls_[command.tag];
  const size_t count = Chance(0.8) ? 1 : 2 + Random(2);
  uint16_t shard = 0;
  for (size_t i = 0; i < count; ++i) {
    Ask ask = NewAsk();
    const uint16_t its_shard = ShardOf(ChangeModel::PlaceOf(ask));
    if (i > 0 && its_shard != shard) continue;
    shard = its_shard;
    call.questions.push_back(changes_.AskSchedule(&ask));
    command.messages.push_back(MakeMessage(ask));
    call.asks.push_back(std::move(ask));
  }
  Send(shard, std::move(command));
}

bool World::AnyTarget(delivery::Target* target, ChangeModel::Place* place, bool* by_key) {
  *by_key = Chance(0.6);
  if (*by_key) {
    *place = {TopicId{static_cast<uint32_t>(1 + Random(2))}, kKeys[Random(std::size(kKeys))]};
    target->topic = place->first;
    target->key = place->second;
    return true;
  }
  const auto& ids = changes_.ids();
  if (ids.empty()) return false;
  // Mostly one of the last.
  const size_t span = Chance(0.8) ? std::min<size_t>(ids.size(), 10) : ids.size();
  target->id = ids[ids.size() - 1 - Random(span)];
  *place = changes_.PlaceOf(target->id);
  return true;
}

void World::DoChangeOne() {
  delivery::Target target;
  ChangeModel::Place place;
  bool by_key = false;
  if (!AnyTarget(&target, &place, &by_key)) return;
  const CallTag tag{next_call_++};
  ChangeCall& call = change_calls_[tag];
  call.ids = {target.id};
  const uint16_t shard =
      by_key ? ShardOf(place) : storage::ShardOfSlot(target.id.slot(), shard_count_);
  if (Chance(0.3)) {
    call.questions = {changes_.AskGet(place, by_key)};
    return Send(shard, delivery::GetCommand{.tag = tag, .target = target});
  }
  delivery::RescheduleCommand command;
  command.tag = tag;
  command.target = target;
  command.deliver_ms = call.deliver_ms = AnyTime();
  if (Chance(0.2)) command.revision = Random(3);
  call.questions = {changes_.AskReschedule(place, by_key, command.deliver_ms)};
  Send(shard, std::move(command));
}

void World::DoCancelMany() {
  const CallTag tag{next_call_++};
  std::vector<delivery::CancelBatchCommand> batches(shard_count_);
  ChangeCall call;
  const size_t count = Chance(0.6) ? 1 : 2 + Random(3);
  for (size_t i = 0; i < count; ++i) {
    delivery::Target target;
    ChangeModel::Place place;
    bool by_key = false;
    if (!AnyTarget(&target, &place, &by_key)) continue;
    const uint16_t shard =
        by_key ? ShardOf(place) : storage::ShardOfSlot(target.id.slot(), shard_count_);
    batches[shard].items.push_back({.tag = tag,
                                    .position = static_cast<uint32_t>(call.ids.size()),
                                    .target = target,
                                    .stop_redelivery = Chance(0.4)});
    call.questions.push_back(changes_.AskCancel(place, by_key));
    call.ids.push_back(target.id);
  }
  call.open = call.ids.size();
  if (call.open == 0) return;
  change_calls_[tag] = std::move(call);
  for (uint16_t i = 0; i < shard_count_; ++i) {
    if (!batches[i].items.empty()) Send(i, std::move(batches[i]));
  }
}

void World::DoRecurrence() {
  const bool whole = Chance(0.5);
  RecurrenceCommand command;
  command.tag = CallTag{next_call_++};
  command.name = kRecurrences[whole ? 0 : 1];
  const uint64_t what = Random(10);
  command.kind = what < 4   ? RecurrenceCommand::Kind::kCreate
                 : what < 6 ? RecurrenceCommand::Kind::kPause
                 : what < 8 ? RecurrenceCommand::Kind::kResume
                 : what < 9 ? RecurrenceCommand::Kind::kUpdate
                            : RecurrenceCommand::Kind::kDelete;
  const std::string payload = absl::StrCat("o", next_ask_++);
  storage::MessageRecord record;
  record.payload = payload;
  record.header.topic = TopicId{3};
  command.spec.topic = TopicId{3};
  command.spec.message = storage::EncodeMessageRecord(record);
  command.spec.content = {.high = next_ask_, .low = 1};
  command.spec.rule.interval_ms = static_cast<int64_t>(1000 + Random(500));
  command.spec.rule.start_ms = static_cast<int64_t>(now_.wall_ms);
  command.spec.misfire = Chance(0.5) ? delivery::Misfire::kFireAll : delivery::Misfire::kFireOnce;
  if (!whole) {
    command.spec.overlap = delivery::Overlap::kSkip;
    command.spec.misfire = delivery::Misfire::kSkip;
  }
  command.update_rule = Chance(0.5);
  Send(storage::ShardOfSlot(storage::SlotOfName("", command.name), shard_count_),
       std::move(command));
}

void World::StopRecurrences() {
  for (const std::string& name : kRecurrences) {
    RecurrenceCommand command;
    command.tag = CallTag{next_call_++};
    command.kind = RecurrenceCommand::Kind::kDelete;
    command.name = name;
    Send(storage::ShardOfSlot(storage::SlotOfName("", name), shard_count_), std::move(command));
  }
}

void World::DoBulk() {
  delivery::OperationCommand command;
  command.tag = CallTag{next_call_++};
  command.name = absl::StrCat("operation-", static_cast<uint64_t>(command.tag));
  delivery::OperationSpec spec;
  spec.topic = TopicId{static_cast<uint32_t>(1 + Random(2))};
  spec.filter.key_prefix = kBulkPrefix;
  spec.action = static_cast<delivery::BulkAction>(1 + Random(4));
  spec.shift_ms = static_cast<int64_t>(Random(20'000)) - 10'000;
  spec.horizon_ms = 100'000;
  const bool ends =
      spec.action == delivery::BulkAction::kCancel || spec.action == delivery::BulkAction::kPurge;
  changes_.OnBulk(spec.topic, kBulkPrefix, ends);
  command.spec = spec;
  for (uint16_t i = 0; i < shard_count_; ++i) {
    command.position = i;
    Send(i, command);
  }
}

void World::DoChange() {
  const uint64_t what = Random(1000);
  if (what < 600) {
    DoScheduleKeyed();
  } else if (what < 780) {
    DoChangeOne();
  } else if (what < 920) {
    DoCancelMany();
  } else if (what < 995) {
    DoRecurrence();
  } else {
    DoBulk();
  }
}

// ---- Answers
// ----------------------------------------------------------------------------------------------------

bool World::ApplySchedule(const delivery::ScheduleReply& reply) {
  const auto it = change_calls_.find(reply.tag);
  if (it == change_calls_.end()) return false;
  const ChangeCall call = std::move(it->second);
  change_calls_.erase(it);
  for (size_t i = 0; i < call.asks.size(); ++i) {
    const delivery::AcceptedMessage none;
    const delivery::AcceptedMessage& answer = reply.status.ok() ? reply.accepted.at(i) : none;
    changes_.OnSchedule(call.questions[i], call.asks[i], answer, reply.status);
  }
  return true;
}

void World::ApplyChanges(const delivery::Effects& effects) {
  for (const auto& reply : effects.schedules) ApplySchedule(reply);
  for (const auto& reply : effects.cancels) {
    const auto it = change_calls_.find(reply.tag);
    if (it == change_calls_.end()) continue;
    ChangeCall& call = it->second;
    changes_.OnCancel(call.questions[reply.position], call.ids[reply.position], reply);
    // It is not open any more, should the process end before the others are answered.
    call.questions[reply.position].cancels = false;
    if (--call.open == 0) change_calls_.erase(it);
  }
  for (const auto& reply : effects.reschedules) {
    const auto node = change_calls_.extract(reply.tag);
    const ChangeCall& call = node.mapped();
    changes_.OnReschedule(call.questions[0], call.ids[0], call.deliver_ms, reply);
  }
  for (const auto& reply : effects.gets) {
    const auto it = change_calls_.find(reply.tag);
    if (it == change_calls_.end()) continue;
    const ChangeCall call = std::move(it->second);
    change_calls_.erase(it);
    changes_.OnGet(call.questions[0], call.ids[0], reply);
  }
}

void World::CrashChanges(bool power) {
  std::vector<ChangeModel::Question> open;
  for (const auto& [tag, call] : change_calls_) {
    open.insert(open.end(), call.questions.begin(), call.questions.end());
  }
  change_calls_.clear();
  changes_.OnCrash(power, open);
}

}  // namespace duetime::simulation
