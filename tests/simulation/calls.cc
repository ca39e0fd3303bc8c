// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/calls.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"

#include "server/protocol/etag.h"
#include "storage/slot.h"

namespace duetime::simulation {

using protocol::CallTag;
using protocol::ScheduleOutcome;
using protocol::StreamId;
using storage::MessageId;
using storage::TopicId;

namespace {

// Shorter than in the daemon, so that a run sees several attempts.
constexpr uint64_t kGiveBackMs = 5'000;

uint32_t SlotOf(TopicId topic, const std::string& name) {
  return storage::SlotOfName(absl::StrCat("topic-", static_cast<uint32_t>(topic)), name);
}

std::string TextOf(const protocol::Target& target) {
  return target.key.empty() ? target.id.ToString()
                            : absl::StrCat(static_cast<uint32_t>(target.topic), "/", target.key);
}

}  // namespace

// ---- Clients

uint64_t Calls::AnyTime() {
  const uint64_t kind = Random(10);
  if (kind == 0) return now_.wall_ms - Random(5000);
  if (kind < 5) return now_.wall_ms + Random(100);
  return now_.wall_ms + (kind < 9 ? Random(3000) : Random(60'000));
}

void Calls::Remember(const Ask& ask) {
  asks_.push_back(ask);
  if (asks_.size() > 5) asks_.erase(asks_.begin());
}

void Calls::DoSchedule() {
  protocol::ScheduleCommand command;
  command.tag = NewTag();
  Call& call = calls_[command.tag];
  const size_t count = Chance(70) ? 1 : 2 + Random(3);
  auto shard = static_cast<uint16_t>(Random(shard_count_));
  for (size_t i = 0; i < count; ++i) {
    Question question{.kind = Question::Kind::kSchedule, .ask = NewAsk(count > 1)};
    const Ask& ask = question.ask;
    // The slot follows from the ordering key, the key or the request id. A message without them
    // goes to any shard.
    std::string name = ask.ordering_key.empty() ? ask.key : ask.ordering_key;
    if (name.empty() && !ask.request_id.empty()) name = absl::StrCat("#", ask.number);
    const uint32_t slot = name.empty() ? AnySlotOf(shard) : SlotOf(ask.topic, name);
    if (i == 0) shard = storage::ShardOfSlot(slot, shard_count_);
    if (storage::ShardOfSlot(slot, shard_count_) != shard) continue;
    contract().OnSent(&question);
    command.messages.push_back(MakeMessage(ask, slot));
    call.questions.push_back(std::move(question));
  }
  Send(shard, std::move(command));
}

protocol::Target Calls::AnyTarget() {
  const std::vector<MessageId>& ids = contract().ids();
  const uint64_t what = Random(100);
  if (what < 45) return {.id = {}, .topic = AnyKeyedTopic(), .key = OneOf(keys_)};
  if (what < 47 || ids.empty()) {
    // An id that no message has.
    return {.id = MessageId::Make(1 + Random(1000), MessageId::kSequenceMax - Random(10), 0,
                                  now_.wall_ms + Random(1000)),
            .topic = {},
            .key = ""};
  }
  // Mostly one of the last ids.
  const size_t span = Chance(80) ? std::min<size_t>(ids.size(), 20) : ids.size();
  return {.id = ids[ids.size() - 1 - Random(span)], .topic = {}, .key = ""};
}

uint16_t Calls::ShardOf(const protocol::Target& target) const {
  return target.key.empty() ? ShardOfId(target.id)
                            : storage::ShardOfSlot(SlotOf(target.topic, target.key), shard_count_);
}

void Calls::DoCancel() {
  const CallTag tag = NewTag();
  Call call;
  call.open = Chance(65) ? 1 : 2 + Random(3);
  std::vector<protocol::CancelBatchCommand> batches(shard_count_);
  for (uint32_t i = 0; i < call.open; ++i) {
    Question question{
        .kind = Question::Kind::kCancel, .target = AnyTarget(), .stop_redelivery = Chance(45)};
    contract().OnSent(&question);
    batches[ShardOf(question.target)].items.push_back(
        {.tag = tag,
         .position = i,
         .target = question.target,
         .stop_redelivery = question.stop_redelivery});
    call.questions.push_back(std::move(question));
  }
  const bool single = call.open == 1 && Chance(50);
  calls_[tag] = std::move(call);
  for (uint16_t i = 0; i < shard_count_; ++i) {
    if (batches[i].items.empty()) continue;
    if (single) {
      Send(i, batches[i].items[0]);
    } else {
      Send(i, std::move(batches[i]));
    }
  }
}

CallTag Calls::OpenCall(Question question) {
  const CallTag tag = NewTag();
  contract().OnSent(&question);
  calls_[tag].questions.push_back(std::move(question));
  return tag;
}

void Calls::DoReschedule() {
  Question question{
      .kind = Question::Kind::kReschedule, .target = AnyTarget(), .deliver_ms = AnyTime()};
  // Some moves lead to the time that the message has already.
  if (!asks_.empty() && Chance(15)) question.deliver_ms = OneOf(asks_).deliver_ms;
  if (Chance(25)) {
    question.revision = Random(4);
    const std::vector<MessageId>& ids = contract().ids();
    question.revision_of = question.target.id;
    // The message that has the key, or had it, or never had it.
    if (!question.target.key.empty() && !ids.empty()) {
      question.revision_of = ids[ids.size() - 1 - Random(std::min<size_t>(ids.size(), 10))];
    }
  }
  protocol::RescheduleCommand command;
  command.tag = OpenCall(question);
  command.target = question.target;
  command.deliver_ms = question.deliver_ms;
  if (question.revision.has_value() && fault_ != PlantedFault::kIgnoreEtags) {
    command.etag = protocol::EtagOf(question.revision_of, *question.revision);
  }
  Send(ShardOf(question.target), std::move(command));
}

void Calls::Get(const protocol::Target& target) {
  const CallTag tag = OpenCall({.kind = Question::Kind::kGet, .target = target});
  Send(ShardOf(target), protocol::GetCommand{.tag = tag, .target = target});
}

// ---- Subscribers

void Calls::DoDetach() {
  if (streams_.empty()) return;
  const auto it = AnyOf(streams_);
  const StreamId id = it->first;
  for (const protocol::LeaseToken token : it->second.held) {
    contract().OnDetached(now_, token);
  }
  streams_.erase(it);
  Note("detach ", static_cast<uint64_t>(id));
  SendToAll(protocol::DetachCommand{.stream = id, .keep_leases = false, .broke = Chance(50)});
}

void Calls::DoSettle(StreamId id, bool ack_all) {
  std::vector<protocol::SettleCommand> commands = MakeSettles(id, ack_all);
  for (uint16_t i = 0; i < shard_count_; ++i) {
    protocol::SettleCommand& command = commands[i];
    if (command.empty()) continue;
    Note("settle: ", command.settlements.size());
    for (const protocol::Settlement& one : command.settlements) {
      if (one.action != protocol::SettleAction::kNack) continue;
      Note("nack ", static_cast<uint64_t>(one.token), " delay ", one.ms.value_or(0));
    }
    contract().OnSettleSent(now_, command);
    Send(i, std::move(command));
  }
}

// ---- Effects

Question* Calls::FindQuestion(CallTag tag, size_t position) {
  const auto it = calls_.find(tag);
  if (it == calls_.end() || position >= it->second.questions.size() ||
      it->second.questions[position].answered) {
    Violate("an answer to no call, or a second one");
    return nullptr;
  }
  it->second.questions[position].answered = true;
  return &it->second.questions[position];
}

void Calls::CloseCall(CallTag tag) {
  const auto it = calls_.find(tag);
  if (it == calls_.end()) return Violate("an answer to no call, or a second one");
  if (--it->second.open == 0) calls_.erase(it);
}

void Calls::On(const protocol::ScheduleReply& reply) {
  const auto call = calls_.find(reply.tag);
  const size_t count = call == calls_.end() ? 0 : call->second.questions.size();
  if (reply.status.ok() && reply.accepted.size() != count) {
    return Violate("a schedule with another number of answers");
  }
  for (size_t i = 0; i < count; ++i) {
    Question* const question = FindQuestion(reply.tag, i);
    if (question == nullptr) return;
    protocol::AcceptedMessage answer;
    answer.status = reply.status;
    if (reply.status.ok()) answer = reply.accepted[i];
    const Ask& ask = question->ask;
    Note("schedule ", static_cast<uint32_t>(ask.topic), "/", ask.key, " conflict ",
         static_cast<int>(ask.on_conflict), ask.only_if_exists ? " if-exists" : "",
         ask.validate_only ? " validate-only" : "", " ", ask.request_id, " max-wait ",
         ask.max_wait_ms, " content ", ask.fingerprint, " for ", ask.deliver_ms, ": ",
         answer.status.ok()
             ? absl::StrCat(answer.id.ToString(), " outcome ", static_cast<int>(answer.outcome),
                            " deliver ", answer.deliver_ms)
             : std::string(answer.status.message()));
    if (answer.status.ok()) Count("accepted");
    Count(!answer.status.ok()                            ? "refused"
          : answer.outcome == ScheduleOutcome::kCreated  ? "created"
          : answer.outcome == ScheduleOutcome::kReplaced ? "replaced"
                                                         : "unchanged");
    contract().OnAnswer(now_, *question, answer);
  }
  CloseCall(reply.tag);
}

template <typename T>
void Calls::On(const T& reply) {
  if constexpr (requires(Question question) { contract().OnAnswer(now_, question, reply); }) {
    size_t position = 0;
    if constexpr (requires { reply.position; }) position = reply.position;
    const Question* const question = FindQuestion(reply.tag, position);
    if (question == nullptr) return;
    if constexpr (requires { reply.outcome; }) {
      const bool cancels = question->kind == Question::Kind::kCancel;
      const bool done = reply.status.ok() && reply.outcome == protocol::Outcome::kDone;
      Note(cancels ? "cancel " : "reschedule ", TextOf(question->target),
           question->stop_redelivery ? " stop" : "", " to ", question->deliver_ms, ": ",
           static_cast<int>(reply.outcome));
      if (done) Count(cancels ? "cancelled" : "moved");
      if (reply.delivery_uncertain) Count("uncertain");
    }
    contract().OnAnswer(now_, *question, reply);
    CloseCall(reply.tag);
  } else {
    OnOther(reply);
  }
}

void Calls::GiveBack(uint16_t shard, StreamId id, protocol::LeaseToken token) {
  const auto it = streams_.find(id);
  if (it == streams_.end()) return;
  std::erase(it->second.held, token);
  protocol::SettleCommand command;
  command.stream = id;
  command.settlements.push_back(
      {.token = token, .action = protocol::SettleAction::kRelease, .ms = kGiveBackMs});
  Count("given back");
  Send(shard, std::move(command));
}

void Calls::CheckContract() {
  if (!contract().violation().empty()) Violate(contract().violation());
}

void Calls::Apply(uint16_t shard, const protocol::Effects& effects) {
  for (const protocol::Reply& reply : effects.replies) {
    std::visit([this](const auto& each) { On(each); }, reply);
  }
  for (const auto& reply : effects.settles) contract().OnSettled(now_, reply);
  // Deliveries come after the answers, because they follow from them.
  std::vector<std::pair<StreamId, protocol::LeaseToken>> unreadable;
  for (const auto& frame : effects.frames) {
    const Stream* const stream = Receive(frame);
    if (stream == nullptr) return;
    for (const auto& delivery : frame.deliveries) {
      if (delivery.record.empty()) {
        unreadable.emplace_back(frame.stream, delivery.token);
        OnUnreadable(stream->subscription, delivery);
        continue;
      }
      contract().OnDelivery(now_, shard, stream->topic, stream->subscription, stream->lease_ms,
                            delivery);
      contract().OnHolder(delivery.token, ClientOf(frame.stream));
      if (stream->reports_begun) contract().OnReported(delivery.token);
    }
  }
  for (const auto& [stream, token] : unreadable) GiveBack(shard, stream, token);
  for (const auto& wake : effects.wakes) {
    for (uint16_t i = 0; i < shard_count_; ++i) {
      if ((wake.shard_mask >> i & 1) != 0) {
        Send(i, protocol::CreditCommand{.stream = wake.stream});
      }
    }
  }
  if (effects.failed) OnFailure();
}

}  // namespace duetime::simulation
