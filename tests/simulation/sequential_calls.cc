// SPDX-License-Identifier: Apache-2.0
//
// The part of SequentialCalls that issues calls.
#include "tests/simulation/sequential_calls.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "tests/support/replies.h"

namespace duetime::simulation {

using protocol::CallTag;
using protocol::OnConflict;
using protocol::ScheduleOutcome;
using protocol::StreamId;
using storage::MessageId;
using storage::TopicId;

namespace {

constexpr uint32_t kKeys = 3;

}  // namespace

TopicId SequentialCalls::AnyTopic() { return TopicId{static_cast<uint32_t>(1 + Random(kTopics))}; }

Ask SequentialCalls::MakeAsk(bool in_batch) {
  if (!in_batch && !asks_.empty() && Chance(15)) {
    // Repeats an earlier ask, perhaps with another conflict rule.
    Ask ask = OneOf(asks_);
    if (!ask.key.empty() && Chance(50)) {
      ask.on_conflict = OneOf<OnConflict>({OnConflict::kFail, OnConflict::kReplace});
      ask.only_if_exists = false;
      ask.max_wait_ms = 0;
    }
    return ask;
  }
  Ask ask = NewAsk(in_batch);
  // Only an ask with a fixed time asks for the same when it is repeated.
  if (ask.fixed_time) asks_.push_back(ask);
  if (asks_.size() > 4) asks_.erase(asks_.begin());
  return ask;
}

Ask SequentialCalls::NewAsk(bool in_batch) {
  Ask ask;
  ask.topic = AnyTopic();
  // Few topics, keys and request ids, so that repeats and conflicts are common.
  if (Chance(75)) ask.key = absl::StrCat("key-", Random(kKeys));
  if (!in_batch && Chance(25)) ask.request_id = absl::StrCat("request-", Random(4));
  ask.payload = OneOf<std::string>({"a", "b", "", std::string(300, 'c')});
  if (Chance(80)) {
    const int64_t delay_ms =
        OneOf<int64_t>({0, 0, 1, 5, 20, 100, 500, 500, 3000, 3000, 20'000, 100'000, -50, -3000});
    ask.deliver_ms = now_.wall_ms + static_cast<uint64_t>(delay_ms);
    ask.time_as_given = absl::StrCat("in ", delay_ms);
  } else {
    ask.deliver_ms = (now_.wall_ms / 1000 + 1 + Random(3)) * 1000;
    ask.time_as_given = absl::StrCat("at ", ask.deliver_ms);
    ask.fixed_time = true;
  }
  if (Chance(25)) {
    ask.ttl_ms = OneOf<uint64_t>({1, 30, 1000});
    if (Chance(70)) ask.late_policy = storage::LatePolicy::kDrop;
  }
  if (Chance(15)) ask.spread_ms = OneOf<uint64_t>({1, 10, 1000});
  if (!ask.key.empty()) {
    ask.on_conflict = OneOf<OnConflict>(
        {OnConflict::kFail, OnConflict::kReplace, OnConflict::kKeepTime, OnConflict::kPushBack});
    ask.only_if_exists = ask.on_conflict != OnConflict::kFail && Chance(20);
    if (ask.on_conflict == OnConflict::kPushBack && Chance(50)) {
      ask.max_wait_ms = OneOf<uint64_t>({10, 1000, 10'000});
    }
  }
  ask.validate_only = Chance(8);
  const std::string content =
      absl::StrCat(ask.payload, "|", ask.time_as_given, "|", ask.ttl_ms, "|",
                   static_cast<int>(ask.late_policy), "|", ask.spread_ms);
  ask.fingerprint = fingerprints_.emplace(content, fingerprints_.size() + 1).first->second;
  return ask;
}

void SequentialCalls::DoSchedule() {
  protocol::ScheduleCommand command;
  command.tag = NewTag();
  const size_t count = Chance(80) ? 1 : 2 + Random(4);
  std::vector<Ask> asks;
  for (size_t i = 0; i < count; ++i) {
    asks.push_back(MakeAsk(count > 1));
    command.messages.push_back(MakeMessage(asks.back(), AnySlotOf(0)));
  }
  const CallTag tag = command.tag;
  const protocol::Effects effects = Begin(std::move(command));
  const auto replies = test::RepliesOf<protocol::ScheduleReply>(effects);
  if (replies.size() != 1 || replies[0].tag != tag || !replies[0].status.ok() ||
      replies[0].accepted.size() != count) {
    return Violate("a schedule without a whole answer");
  }
  for (size_t i = 0; i < count; ++i) {
    const protocol::AcceptedMessage& accepted = replies[0].accepted[i];
    const Ask& ask = asks[i];
    Note("schedule ", static_cast<uint32_t>(ask.topic), "/", ask.key, " conflict ",
         static_cast<int>(ask.on_conflict), ask.only_if_exists ? " if-exists" : "",
         ask.validate_only ? " validate-only" : "", " ", ask.request_id, " max-wait ",
         ask.max_wait_ms, " content ", ask.fingerprint, " for ", ask.deliver_ms, ": ",
         accepted.status.ok()
             ? absl::StrCat(accepted.id.ToString(), " outcome ", static_cast<int>(accepted.outcome),
                            " deliver ", accepted.deliver_ms)
             : std::string(accepted.status.message()));
    contract_.OnSchedule(now_, ask, accepted);
    if (!accepted.status.ok()) {
      Count("refused");
    } else if (accepted.outcome == ScheduleOutcome::kCreated) {
      Count("created");
    } else if (accepted.outcome == ScheduleOutcome::kReplaced) {
      Count("replaced");
    } else {
      Count("unchanged");
    }
  }
  Finish(effects);
}

protocol::Target SequentialCalls::AnyTarget() {
  protocol::Target target;
  const uint64_t what = Random(100);
  if (what < 50) {
    target.topic = AnyTopic();
    target.key = absl::StrCat("key-", Random(kKeys));
  } else if (what < 53 || contract_.messages().empty()) {
    // An id that no message has.
    target.id = MessageId::Make(1 + Random(1000), MessageId::kSequenceMax - Random(10), 0,
                                now_.wall_ms + Random(1000));
  } else {
    // Mostly one of the last ids, which are the highest.
    const size_t count = contract_.messages().size();
    const size_t back = 1 + Random(Chance(80) ? std::min<size_t>(count, 15) : count);
    target.id = std::prev(contract_.messages().end(), static_cast<int64_t>(back))->first;
  }
  return target;
}

void SequentialCalls::DoCancel() {
  protocol::CancelBatchCommand batch;
  const CallTag tag = NewTag();
  const size_t count = Chance(70) ? 1 : 1 + Random(4);
  for (uint32_t i = 0; i < count; ++i) {
    batch.items.push_back(
        {.tag = tag, .position = i, .target = AnyTarget(), .stop_redelivery = Chance(40)});
  }
  const std::vector<protocol::CancelCommand> items = batch.items;
  protocol::Effects effects =
      count == 1 && Chance(50) ? Begin(protocol::Command(batch.items[0])) : Begin(std::move(batch));
  auto replies = test::RepliesOf<protocol::CancelReply>(effects);
  if (replies.size() != items.size()) return Violate("cancels without an answer");
  std::sort(replies.begin(), replies.end(),
            [](const auto& a, const auto& b) { return a.position < b.position; });
  for (size_t i = 0; i < items.size(); ++i) {
    const protocol::CancelReply& reply = replies[i];
    Note("cancel ", Text(items[i].target), items[i].stop_redelivery ? " stop: " : ": ",
         static_cast<int>(reply.outcome));
    if (reply.tag != tag || reply.position != i) Violate("an answer to another cancel");
    contract_.OnCancel(now_, items[i], reply);
    if (reply.outcome == protocol::Outcome::kDone) Count("cancelled");
    if (reply.delivery_uncertain) Count("uncertain");
  }
  Finish(effects);
}

void SequentialCalls::DoReschedule() {
  protocol::RescheduleCommand command;
  command.tag = NewTag();
  command.target = AnyTarget();
  command.deliver_ms =
      now_.wall_ms + static_cast<uint64_t>(OneOf<int64_t>(
                         {0, 1, 10, 100, 1000, 3000, 3000, 20'000, 100'000, -20, -5000}));
  if (Chance(30)) command.revision = Random(4);
  protocol::RescheduleCommand sent = command;
  if (fault_ == PlantedFault::kIgnoreEtags) sent.revision.reset();
  const protocol::Effects effects = Begin(std::move(sent));
  const auto replies = test::RepliesOf<protocol::RescheduleReply>(effects);
  if (replies.size() != 1 || replies[0].tag != command.tag) {
    return Violate("a reschedule without an answer");
  }
  Note("reschedule ", Text(command.target), " to ", command.deliver_ms, ": ",
       static_cast<int>(replies[0].outcome));
  contract_.OnReschedule(now_, command, replies[0]);
  if (replies[0].outcome == protocol::Outcome::kDone) Count("rescheduled");
  Finish(effects);
}

void SequentialCalls::DoInspect() {
  protocol::InspectCommand command;
  command.tag = NewTag();
  for (const auto& [id, place] : stored_) {
    if (Chance(30)) command.keys.push_back(place.first);
  }
  const protocol::InspectCommand sent = command;
  const protocol::Effects effects = Begin(std::move(command));
  const auto replies = test::RepliesOf<protocol::InspectReply>(effects);
  if (replies.size() != 1 || replies[0].tag != sent.tag) {
    return Violate("an inspect without an answer");
  }
  contract_.OnInspect(now_, sent, replies[0]);
  Finish(effects);
}

void SequentialCalls::Sample() {
  for (int i = 0; i < 2 && ok(); ++i) {
    const protocol::GetCommand command{.tag = NewTag(), .target = AnyTarget()};
    const protocol::Effects effects = Begin(protocol::GetCommand(command));
    const auto replies = test::RepliesOf<protocol::GetReply>(effects);
    if (replies.size() != 1 || replies[0].tag != command.tag) {
      return Violate("a get without an answer");
    }
    contract_.OnGet(now_, command.target, replies[0]);
    Finish(effects);
  }
}

// ---- Subscribers

void SequentialCalls::DoAttach(TopicId topic, int64_t messages_max, uint64_t lease_ms) {
  if (streams_.size() >= 4) return;
  Send(0, NewStream(storage::FirstSubscription(topic), topic, messages_max, lease_ms));
}

void SequentialCalls::DoDetach() {
  if (streams_.empty()) return;
  const auto it = AnyOf(streams_);
  const StreamId id = it->first;
  streams_.erase(it);
  contract_.OnDetach(id);
  Note("detach ", static_cast<uint64_t>(id));
  Send(0, protocol::DetachCommand{.stream = id});
}

void SequentialCalls::DoSettle(StreamId id, bool ack_all) {
  protocol::SettleCommand command = std::move(MakeSettles(id, ack_all)[0]);
  const protocol::SettleCommand sent = command;
  Note("settle: ", sent.acks.size(), " acks, ", sent.nacks.size(), " nacks, ", sent.extends.size(),
       " extends");
  const protocol::Effects effects = Begin(std::move(command));
  protocol::SettleReply all;
  for (const protocol::SettleReply& reply : effects.settles) {
    if (reply.stream != sent.stream) Violate("a settlement of another stream");
    all.settled.insert(all.settled.end(), reply.settled.begin(), reply.settled.end());
    all.extended.insert(all.extended.end(), reply.extended.begin(), reply.extended.end());
    all.refused.insert(all.refused.end(), reply.refused.begin(), reply.refused.end());
  }
  contract_.OnSettled(now_, sent, all);
  Finish(effects);
}

}  // namespace duetime::simulation
