// SPDX-License-Identifier: Apache-2.0
//
// The part of LifecycleWorld that issues calls.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "tests/simulation/lifecycle_world.h"

namespace duetime::simulation {

using delivery::CallTag;
using delivery::LeaseToken;
using delivery::ScheduleOutcome;
using delivery::StreamId;
using scheduler::OnConflict;
using storage::MessageId;
using storage::TopicId;

namespace {

constexpr uint32_t kKeys = 3;

}  // namespace

TopicId LifecycleWorld::AnyTopic() {
  return TopicId{static_cast<uint32_t>(1 + Random(kLifecycleTopics))};
}

Wish LifecycleWorld::MakeWish(bool in_batch) {
  if (!in_batch && !wishes_.empty() && Chance(15)) {
    // Once more what was asked for a while ago; with another way out of a conflict, perhaps.
    Wish wish = OneOf(wishes_);
    if (!wish.key.empty() && Chance(50)) {
      wish.on_conflict = OneOf<OnConflict>({OnConflict::kFail, OnConflict::kReplace});
      wish.only_if_exists = false;
      wish.max_wait_ms = 0;
    }
    return wish;
  }
  Wish wish = NewWish(in_batch);
  // Those with a fixed time are the same when they come again.
  if (wish.fixed_time) wishes_.push_back(wish);
  if (wishes_.size() > 4) wishes_.erase(wishes_.begin());
  return wish;
}

Wish LifecycleWorld::NewWish(bool in_batch) {
  Wish wish;
  wish.topic = AnyTopic();
  // Few of everything, so that repeats and conflicts are common.
  if (Chance(75)) wish.key = absl::StrCat("key-", Random(kKeys));
  if (!in_batch && Chance(25)) wish.request_id = absl::StrCat("request-", Random(4));
  wish.payload = OneOf<std::string>({"a", "b", "", std::string(300, 'c')});
  if (Chance(80)) {
    const int64_t delay_ms =
        OneOf<int64_t>({0, 0, 1, 5, 20, 100, 500, 500, 3000, 3000, 20'000, 100'000, -50, -3000});
    wish.deliver_ms = now_.wall_ms + static_cast<uint64_t>(delay_ms);
    wish.time_as_given = absl::StrCat("in ", delay_ms);
  } else {
    wish.deliver_ms = (now_.wall_ms / 1000 + 1 + Random(3)) * 1000;
    wish.time_as_given = absl::StrCat("at ", wish.deliver_ms);
    wish.fixed_time = true;
  }
  if (Chance(25)) {
    wish.ttl_ms = OneOf<uint64_t>({1, 30, 1000});
    if (Chance(70)) wish.late_policy = storage::LatePolicy::kDrop;
  }
  if (Chance(15)) wish.spread_ms = OneOf<uint64_t>({1, 10, 1000});
  if (!wish.key.empty()) {
    wish.on_conflict = OneOf<OnConflict>(
        {OnConflict::kFail, OnConflict::kReplace, OnConflict::kKeepTime, OnConflict::kPushBack});
    wish.only_if_exists = wish.on_conflict != OnConflict::kFail && Chance(20);
    if (wish.on_conflict == OnConflict::kPushBack && Chance(50)) {
      wish.max_wait_ms = OneOf<uint64_t>({10, 1000, 10'000});
    }
  }
  wish.validate_only = Chance(8);
  return wish;
}

uint64_t LifecycleWorld::FingerprintOf(const Wish& wish) {
  return contents_.emplace(wish.Content(), contents_.size() + 1).first->second;
}

scheduler::NewMessage LifecycleWorld::MakeMessage(const Wish& wish) {
  storage::MessageRecord record;
  record.header = {.topic = wish.topic, .deliver_ms = wish.deliver_ms, .accept_ms = now_.wall_ms};
  record.key = wish.key;
  record.ttl_ms = wish.ttl_ms;
  record.late_policy = wish.late_policy;
  record.spread_ms = wish.spread_ms;
  record.payload = wish.payload;
  scheduler::NewMessage message;
  message.topic = wish.topic;
  message.slot = static_cast<uint32_t>(Random(MessageId::kSlotCount));
  message.deliver_ms = wish.deliver_ms;
  message.record = storage::EncodeMessageRecord(record);
  storage::MessageHeader header;
  if (storage::DecodeMessageHeader(message.record, &header).ok()) message.flags = header.flags;
  const bool plain =
      wish.key.empty() && wish.request_id.empty() && wish.spread_ms == 0 && !wish.validate_only;
  if (plain) return message;
  message.terms = std::make_unique<scheduler::Terms>();
  message.terms->key = wish.key;
  message.terms->request_id = wish.request_id;
  const uint64_t number = FingerprintOf(wish);
  message.terms->content = {.high = number, .low = ~number};
  message.terms->on_conflict = wish.on_conflict;
  message.terms->only_if_exists = wish.only_if_exists;
  message.terms->validate_only = wish.validate_only;
  message.terms->max_wait_ms = wish.max_wait_ms;
  message.terms->spread_ms = wish.spread_ms;
  if (sabotage_ == LifecycleSabotage::kPullForward && wish.on_conflict == OnConflict::kPushBack) {
    message.terms->on_conflict = OnConflict::kReplace;
  }
  return message;
}

void LifecycleWorld::DoSchedule() {
  delivery::ScheduleCommand command;
  command.tag = CallTag{next_call_++};
  const size_t count = Chance(80) ? 1 : 2 + Random(4);
  std::vector<Wish> wishes;
  for (size_t i = 0; i < count; ++i) {
    wishes.push_back(MakeWish(count > 1));
    command.messages.push_back(MakeMessage(wishes.back()));
  }
  const CallTag tag = command.tag;
  const delivery::Effects effects = Begin(std::move(command));
  if (effects.schedules.size() != 1 || effects.schedules[0].tag != tag ||
      !effects.schedules[0].status.ok() || effects.schedules[0].accepted.size() != count) {
    return model_.Violate("a schedule without a whole answer");
  }
  for (size_t i = 0; i < count; ++i) {
    const delivery::AcceptedMessage& accepted = effects.schedules[0].accepted[i];
    const Wish& wish = wishes[i];
    Note("schedule ", static_cast<uint32_t>(wish.topic), "/", wish.key, " conflict ",
         static_cast<int>(wish.on_conflict), wish.only_if_exists ? " if-exists" : "",
         wish.validate_only ? " validate-only" : "", " ", wish.request_id, " max-wait ",
         wish.max_wait_ms, " content ", FingerprintOf(wish), " for ", wish.deliver_ms, ": ",
         accepted.status.ok()
             ? absl::StrCat(accepted.id.ToString(), " outcome ", static_cast<int>(accepted.outcome),
                            " deliver ", accepted.deliver_ms)
             : std::string(accepted.status.message()));
    model_.OnSchedule(now_, wish, accepted);
    if (!accepted.status.ok()) {
      ++report_.refused;
    } else if (accepted.outcome == ScheduleOutcome::kCreated) {
      ++report_.created;
    } else if (accepted.outcome == ScheduleOutcome::kReplaced) {
      ++report_.replaced;
    } else {
      ++report_.unchanged;
    }
  }
  Finish(effects);
}

delivery::Target LifecycleWorld::AnyTarget() {
  delivery::Target target;
  const uint64_t what = Random(100);
  if (what < 50) {
    target.topic = AnyTopic();
    target.key = absl::StrCat("key-", Random(kKeys));
  } else if (what < 53 || model_.messages().empty()) {
    // One that was never given.
    target.id = MessageId::Make(1 + Random(1000), MessageId::kSequenceMax - Random(10), 0,
                                now_.wall_ms + Random(1000));
  } else {
    // Mostly one of the last, which are the highest.
    const size_t count = model_.messages().size();
    const size_t back = 1 + Random(Chance(80) ? std::min<size_t>(count, 15) : count);
    target.id = std::prev(model_.messages().end(), static_cast<int64_t>(back))->first;
  }
  return target;
}

void LifecycleWorld::DoCancel() {
  delivery::CancelBatchCommand batch;
  const CallTag tag{next_call_++};
  const size_t count = Chance(70) ? 1 : 1 + Random(4);
  for (uint32_t i = 0; i < count; ++i) {
    batch.items.push_back(
        {.tag = tag, .position = i, .target = AnyTarget(), .stop_redelivery = Chance(40)});
  }
  const std::vector<delivery::CancelCommand> items = batch.items;
  delivery::Effects effects =
      count == 1 && Chance(50) ? Begin(delivery::Command(batch.items[0])) : Begin(std::move(batch));
  if (effects.cancels.size() != items.size()) return model_.Violate("cancels without an answer");
  std::sort(effects.cancels.begin(), effects.cancels.end(),
            [](const auto& a, const auto& b) { return a.position < b.position; });
  for (size_t i = 0; i < items.size(); ++i) {
    const delivery::CancelReply& reply = effects.cancels[i];
    Note("cancel ", Text(items[i].target), items[i].stop_redelivery ? " stop: " : ": ",
         static_cast<int>(reply.outcome));
    if (reply.tag != tag || reply.position != i) model_.Violate("an answer to another cancel");
    model_.OnCancel(now_, items[i], reply);
    if (reply.outcome == delivery::Outcome::kDone) ++report_.cancelled;
    if (reply.delivery_uncertain) ++report_.uncertain;
  }
  Finish(effects);
}

void LifecycleWorld::DoReschedule() {
  delivery::RescheduleCommand command;
  command.tag = CallTag{next_call_++};
  command.target = AnyTarget();
  command.deliver_ms =
      now_.wall_ms + static_cast<uint64_t>(OneOf<int64_t>(
                         {0, 1, 10, 100, 1000, 3000, 3000, 20'000, 100'000, -20, -5000}));
  if (Chance(30)) command.revision = Random(4);
  delivery::RescheduleCommand sent = command;
  if (sabotage_ == LifecycleSabotage::kIgnoreEtags) sent.revision.reset();
  const delivery::Effects effects = Begin(std::move(sent));
  if (effects.reschedules.size() != 1 || effects.reschedules[0].tag != command.tag) {
    return model_.Violate("a reschedule without an answer");
  }
  Note("reschedule ", Text(command.target), " to ", command.deliver_ms, ": ",
       static_cast<int>(effects.reschedules[0].outcome));
  model_.OnReschedule(now_, command, effects.reschedules[0]);
  if (effects.reschedules[0].outcome == delivery::Outcome::kDone) ++report_.rescheduled;
  Finish(effects);
}

void LifecycleWorld::DoInspect() {
  delivery::InspectCommand command;
  command.tag = CallTag{next_call_++};
  for (const auto& [id, place] : stored_) {
    if (Chance(30)) command.keys.push_back(place.first);
  }
  const delivery::InspectCommand sent = command;
  const delivery::Effects effects = Begin(std::move(command));
  if (effects.inspects.size() != 1 || effects.inspects[0].tag != sent.tag) {
    return model_.Violate("an inspect without an answer");
  }
  model_.OnInspect(now_, sent, effects.inspects[0]);
  Finish(effects);
}

void LifecycleWorld::Sample() {
  for (int i = 0; i < 2 && ok(); ++i) {
    const delivery::GetCommand command{.tag = CallTag{next_call_++}, .target = AnyTarget()};
    const delivery::Effects effects = Begin(delivery::GetCommand(command));
    if (effects.gets.size() != 1 || effects.gets[0].tag != command.tag) {
      return model_.Violate("a get without an answer");
    }
    model_.OnGet(now_, command.target, effects.gets[0]);
    Finish(effects);
  }
}

// ---- Subscribers
// ------------------------------------------------------------------------------------------------

void LifecycleWorld::DoAttach(TopicId topic, int64_t messages_max, uint64_t lease_ms) {
  if (streams_.size() >= 4) return;
  const StreamId id{next_stream_++};
  Stream& stream = streams_[id];
  Note("attach ", static_cast<uint64_t>(id), " to ", static_cast<uint32_t>(topic), ", credit ",
       messages_max, ", lease ", lease_ms);
  stream.topic = topic;
  stream.lease_ms = lease_ms;
  stream.messages_max = messages_max;
  stream.credit = std::make_shared<delivery::StreamCredit>(messages_max, 1 << 20);
  Finish(Begin(delivery::AttachCommand{.stream = id,
                                       .topic = topic,
                                       .subscription = storage::FirstSubscription(topic),
                                       .lease_ms = lease_ms,
                                       .credit = stream.credit}));
}

void LifecycleWorld::DoDetach() {
  if (streams_.empty()) return;
  const auto it = std::next(streams_.begin(), static_cast<int64_t>(Random(streams_.size())));
  const StreamId id = it->first;
  streams_.erase(it);
  model_.OnDetach(id);
  Note("detach ", static_cast<uint64_t>(id));
  Finish(Begin(delivery::DetachCommand{.stream = id}));
}

void LifecycleWorld::DoSettle() {
  if (streams_.empty()) return;
  const auto it = std::next(streams_.begin(), static_cast<int64_t>(Random(streams_.size())));
  delivery::SettleCommand command;
  command.stream = it->first;
  std::vector<LeaseToken> keep;
  for (const LeaseToken token : it->second.held) {
    const uint64_t what = Random(10);
    if (what < 5) {
      command.acks.push_back(token);
    } else if (what == 5) {
      command.nacks.push_back(
          {.token = token, .delay_ms = Chance(50) ? 0 : 1 + Random(500), .reason = ""});
    } else {
      if (what == 6) command.extends.push_back({.token = token, .duration_ms = 1 + Random(1000)});
      keep.push_back(token);
    }
  }
  if (Chance(10)) command.acks.push_back(LeaseToken{random_() >> 6});  // nonsense, of this shard
  it->second.held = std::move(keep);
  SendSettle(std::move(command));
}

void LifecycleWorld::AckAll() {
  for (auto& [id, stream] : streams_) {
    if (stream.held.empty()) continue;
    delivery::SettleCommand command;
    command.stream = id;
    command.acks = std::exchange(stream.held, {});
    SendSettle(std::move(command));
  }
}

void LifecycleWorld::SendSettle(delivery::SettleCommand command) {
  const delivery::SettleCommand sent = command;
  Note("settle: ", sent.acks.size(), " acks, ", sent.nacks.size(), " nacks, ", sent.extends.size(),
       " extends");
  const delivery::Effects effects = Begin(std::move(command));
  delivery::SettleReply all;
  for (const delivery::SettleReply& reply : effects.settles) {
    if (reply.stream != sent.stream) model_.Violate("a settlement of another stream");
    all.settled.insert(all.settled.end(), reply.settled.begin(), reply.settled.end());
    all.extended.insert(all.extended.end(), reply.extended.begin(), reply.extended.end());
    all.refused.insert(all.refused.end(), reply.refused.begin(), reply.refused.end());
  }
  model_.OnSettled(now_, sent, all);
  Finish(effects);
}

}  // namespace duetime::simulation
