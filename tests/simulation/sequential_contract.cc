// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/sequential_contract.h"

#include <algorithm>

#include "server/base/error.h"

namespace duetime::simulation {

using protocol::AcceptedMessage;
using protocol::LeaseToken;
using protocol::MessageState;
using protocol::OnConflict;
using protocol::Outcome;
using protocol::ScheduleOutcome;
using protocol::SettleAction;
using storage::EndState;
using storage::MessageId;

namespace {

// The final states have the order of the ends.
MessageState StateOfEnd(EndState end) {
  const int past_acked = static_cast<int>(end) - static_cast<int>(EndState::kAcked);
  return static_cast<MessageState>(static_cast<int>(MessageState::kAcked) + past_acked);
}

MessageState StateByTime(base::Now now, uint64_t deliver_ms) {
  return deliver_ms <= now.wall_ms ? MessageState::kDue : MessageState::kScheduled;
}

}  // namespace

// ---- Finding

SequentialContract::Key* SequentialContract::FindKey(base::Now now, const Name& name) {
  const auto it = keys_.find(name);
  return it != keys_.end() && Counts(now, it->second.expire_ms) ? &it->second : nullptr;
}

SequentialContract::Message* SequentialContract::Find(base::Now now, const MessageId& id) {
  const auto it = messages_.find(id);
  if (it == messages_.end()) return nullptr;
  Message& message = it->second;
  return message.pending() || Counts(now, message.expire_ms) ? &message : nullptr;
}

SequentialContract::Message* SequentialContract::Find(base::Now now,
                                                      const protocol::Target& target) {
  if (target.key.empty()) return Find(now, target.id);
  const Key* const key = FindKey(now, {target.topic, target.key});
  return key == nullptr ? nullptr : Find(now, key->id);
}

bool SequentialContract::Uncertain(const Message& message) const {
  if (message.last > 0) return false;
  if (message.listed_uncertain.has_value()) return *message.listed_uncertain;
  const uint64_t place_ms = message.place_ms != 0
                                ? message.place_ms
                                : std::max(message.deliver_ms, message.placed_wall_ms);
  return !message.moved_here && message.id.epoch() <= recovered_.uncertain.epoch &&
         place_ms <= recovered_.uncertain.until_ms;
}

Outcome SequentialContract::OutcomeOf(const Message* message) const {
  if (message == nullptr) return Outcome::kNotFound;
  if (message->end.has_value()) return Contract::OutcomeOf(*message->end);
  return Untouched(*message) ? Outcome::kDone : Outcome::kInFlight;
}

bool SequentialContract::Expires(base::Now now, const Message& message) {
  return message.ask.ttl_ms > 0 && message.ask.late_policy == storage::LatePolicy::kDrop &&
         now.wall_ms > message.deliver_ms + message.ask.ttl_ms;
}

MessageState SequentialContract::StateOf(base::Now now, const Message& message) const {
  if (message.end.has_value()) return StateOfEnd(*message.end);
  return message.Leased(now) ? MessageState::kInFlight : StateByTime(now, message.deliver_ms);
}

SequentialContract::Message* SequentialContract::FindLease(LeaseToken token) {
  const auto it = leases_.find(token);
  if (it == leases_.end()) return nullptr;
  Message& message = messages_.at(it->second);
  return message.pending() && message.lease == token ? &message : nullptr;
}

void SequentialContract::End(Message& message, EndState how, uint64_t end_ms) {
  message.end = how;
  message.end_ms = end_ms;
  message.expire_ms = end_ms + tombstone_retention_ms_.at(message.ask.topic);
  message.lease.reset();
  const auto key = keys_.find({message.ask.topic, message.ask.key});
  if (key != keys_.end() && key->second.id == message.id) {
    key->second.expire_ms = message.expire_ms;
  }
}

// ---- Schedule

void SequentialContract::OnAnswer(base::Now now, const Question& question,
                                  const AcceptedMessage& actual) {
  const Ask& ask = question.ask;
  const auto request = requests_.find(RequestOf(ask));
  if (request != requests_.end() && Counts(now, request->second.expire_ms)) {
    if (request->second.fingerprint != ask.fingerprint) {
      return Refused("schedule", actual.status, absl::StatusCode::kAlreadyExists,
                     "REQUEST_ID_REUSED");
    }
    AcceptedMessage expected = request->second.answer;
    const Message* const message = Find(now, expected.id);
    expected.state = message == nullptr ? MessageState::kUnspecified : StateOf(now, *message);
    expected.ended = message == nullptr || !message->pending();
    expected.revision = message == nullptr ? 0 : message->revision;
    expected.update_ms = message == nullptr || !message->pending() ? 0 : message->update_ms;
    return CompareAccepted(expected, actual);
  }
  if (ask.key.empty()) return Create(now, ask, std::nullopt, actual);
  Key* const key = FindKey(now, {ask.topic, ask.key});
  Message* const message = key == nullptr ? nullptr : Find(now, key->id);
  // After its end a message keeps its key for ONCE only.
  const bool live = message != nullptr && message->pending();
  if ((live && ask.on_conflict == OnConflict::kFail) ||
      (message != nullptr && ask.on_conflict == OnConflict::kOnce)) {
    return Existing(now, ask, *key, *message, actual);
  }
  if (live && Untouched(*message)) {
    return Replace(now, ask, *key, *message, actual);
  }
  if (ask.only_if_exists) {
    return Refused("schedule", actual.status, absl::StatusCode::kNotFound, "MESSAGE_NOT_FOUND");
  }
  Create(now, ask, message == nullptr ? std::nullopt : std::optional(message->id), actual);
}

void SequentialContract::Refused(absl::string_view what, const absl::Status& actual,
                                 absl::StatusCode code, absl::string_view reason) {
  const auto detail = base::GetErrorDetail(actual);
  if (actual.code() == code && detail.has_value() && detail->reason == reason) return;
  Violate(absl::StrCat(what, ": ", reason, " expected, got ", actual.ToString()));
}

void SequentialContract::Existing(base::Now now, const Ask& ask, const Key& key,
                                  const Message& message, const AcceptedMessage& actual) {
  if (key.fingerprint != ask.fingerprint) {
    return Refused("schedule", actual.status, absl::StatusCode::kAlreadyExists, "CONTENT_MISMATCH");
  }
  AcceptedMessage expected;
  expected.id = message.id;
  expected.state = StateOf(now, message);
  expected.outcome = ScheduleOutcome::kUnchanged;
  expected.ended = !message.pending();
  expected.deliver_ms = expected.old_deliver_ms = message.deliver_ms;
  expected.accept_ms = message.accept_ms;
  expected.revision = message.revision;
  if (message.pending()) expected.update_ms = message.update_ms;
  CompareAccepted(expected, actual);
  Remember(now, ask, expected);
}

void SequentialContract::Replace(base::Now now, const Ask& ask, Key& key, Message& message,
                                 const AcceptedMessage& actual) {
  // Where the message goes for this point in the spread.
  const auto resolve = [&](uint64_t point_ms) {
    uint64_t deliver_ms = ask.deliver_ms + point_ms;
    if (ask.on_conflict == OnConflict::kKeepTime) return message.deliver_ms;
    if (ask.on_conflict == OnConflict::kPushBack) {
      if (ask.max_wait_ms > 0) {
        deliver_ms = std::min(deliver_ms, message.accept_ms + ask.max_wait_ms);
      }
      deliver_ms = std::max(deliver_ms, message.deliver_ms);
    }
    return deliver_ms;
  };
  const auto point = points_.find({message.id, ask.spread_ms});
  AcceptedMessage expected;
  if (ask.spread_ms == 0 || point != points_.end()) {
    expected.deliver_ms = resolve(ask.spread_ms == 0 ? 0 : point->second);
  } else {
    // The point is unknown, so any time between the bounds is right. Only REPLACE shows the point.
    const uint64_t low_ms = resolve(0);
    const uint64_t high_ms = resolve(ask.spread_ms);
    expected.deliver_ms = std::clamp(actual.deliver_ms, low_ms, high_ms);
    const bool shown = ask.on_conflict == OnConflict::kReplace;
    if (shown) CheckPoint(message.id, ask.spread_ms, expected.deliver_ms - ask.deliver_ms);
  }
  const bool changes =
      expected.deliver_ms != message.deliver_ms || key.fingerprint != ask.fingerprint;
  expected.id = message.id;
  expected.state = StateByTime(now, expected.deliver_ms);
  expected.outcome = changes ? ScheduleOutcome::kReplaced : ScheduleOutcome::kUnchanged;
  expected.accept_ms = message.accept_ms;
  expected.revision = message.revision + (changes ? 1 : 0);
  expected.update_ms = changes ? now.wall_ms : message.update_ms;
  expected.old_deliver_ms = message.deliver_ms;
  CompareAccepted(expected, actual);
  if (ask.validate_only) return;
  Remember(now, ask, expected);
  if (!changes) return;
  key.fingerprint = ask.fingerprint;
  message.ask = ask;
  Change(now, expected.deliver_ms, &message);
}

void SequentialContract::Change(base::Now now, uint64_t deliver_ms, Message* message) {
  message->deliver_ms = deliver_ms;
  ++message->revision;
  message->update_ms = message->placed_wall_ms = now.wall_ms;
  message->place_ms = 0;
  message->listed_uncertain.reset();
  message->moved_here = true;
}

void SequentialContract::Create(base::Now now, const Ask& ask, std::optional<MessageId> previous,
                                const AcceptedMessage& actual) {
  AcceptedMessage expected;
  expected.id = ask.validate_only ? MessageId{} : actual.id;
  expected.deliver_ms = ask.deliver_ms;
  if (ask.spread_ms > 0 && !ask.validate_only) {
    expected.deliver_ms =
        std::clamp(actual.deliver_ms, ask.deliver_ms, ask.deliver_ms + ask.spread_ms);
  }
  expected.state = StateByTime(now, expected.deliver_ms);
  expected.accept_ms = now.wall_ms;
  expected.previous_id = previous;
  CompareAccepted(expected, actual);
  if (ask.validate_only || !violation().empty()) return;
  if (actual.id.epoch() != recovered_.epoch) Violate("an id of another epoch");
  CheckPoint(actual.id, ask.spread_ms, expected.deliver_ms - ask.deliver_ms);
  Message message;
  message.id = actual.id;
  message.ask = ask;
  message.deliver_ms = expected.deliver_ms;
  message.accept_ms = now.wall_ms;
  message.placed_wall_ms = now.wall_ms;
  if (!messages_.emplace(actual.id, std::move(message)).second) Violate("an id was given twice");
  ids_.push_back(actual.id);
  if (!ask.key.empty()) keys_[{ask.topic, ask.key}] = {actual.id, ask.fingerprint, 0};
  Remember(now, ask, expected);
}

void SequentialContract::Remember(base::Now now, const Ask& ask, const AcceptedMessage& answer) {
  if (ask.request_id.empty() || ask.validate_only) return;
  requests_[RequestOf(ask)] = {.fingerprint = ask.fingerprint,
                               .expire_ms = now.wall_ms + request_retention_ms_,
                               .answer = answer};
}

void SequentialContract::CheckPoint(const MessageId& id, uint64_t spread_ms, uint64_t point_ms) {
  if (spread_ms == 0) return Same("point without a spread", uint64_t{0}, point_ms);
  if (point_ms > spread_ms) Violate("a point outside the spread");
  Same("point of the spread", points_.emplace(std::pair(id, spread_ms), point_ms).first->second,
       point_ms);
}

void SequentialContract::CompareAccepted(const AcceptedMessage& expected,
                                         const AcceptedMessage& actual) {
  if (!actual.status.ok()) return Violate("schedule refused: " + actual.status.ToString());
  Same("schedule: outcome", expected.outcome, actual.outcome);
  Same("schedule: id", expected.id, actual.id);
  Same("schedule: state", expected.state, actual.state);
  Same("schedule: ended", expected.ended, actual.ended);
  Same("schedule: deliver_ms", expected.deliver_ms, actual.deliver_ms);
  Same("schedule: accept_ms", expected.accept_ms, actual.accept_ms);
  Same("schedule: revision", expected.revision, actual.revision);
  Same("schedule: update_ms", expected.update_ms, actual.update_ms);
  if (expected.outcome != ScheduleOutcome::kCreated) {
    Same("schedule: old_deliver_ms", expected.old_deliver_ms, actual.old_deliver_ms);
  }
  Same("schedule: previous_id", expected.previous_id, actual.previous_id);
}

// ---- Cancel, reschedule, get

template <typename Reply>
SequentialContract::Message* SequentialContract::CompareOutcome(base::Now now,
                                                                absl::string_view what,
                                                                const Question& question,
                                                                const Reply& actual) {
  if (!actual.status.ok()) Violate(absl::StrCat(what, ": ", actual.status.ToString()));
  Message* const message = Find(now, question.target);
  const Outcome outcome = OutcomeOf(message);
  Same(absl::StrCat(what, ": outcome"), outcome, actual.outcome);
  if (message == nullptr) {
    Same(absl::StrCat(what, ": state"), MessageState::kUnspecified, actual.state);
    return nullptr;
  }
  Same(absl::StrCat(what, ": id"), message->id, actual.id);
  if (outcome != Outcome::kDone) {
    Same(absl::StrCat(what, ": state"), StateOf(now, *message), actual.state);
  }
  if (message->pending()) {
    Same(absl::StrCat(what, ": delivery_uncertain"), Uncertain(*message),
         actual.delivery_uncertain);
    return message;
  }
  Same(absl::StrCat(what, ": end_ms"), message->end_ms, actual.end_ms);
  if constexpr (requires { actual.redelivery_stopped; }) {
    Same(absl::StrCat(what, ": redelivery_stopped"), message->stopped, actual.redelivery_stopped);
  }
  return nullptr;
}

void SequentialContract::OnAnswer(base::Now now, const Question& question,
                                  const protocol::CancelReply& actual) {
  Message* const message = CompareOutcome(now, "cancel", question, actual);
  if (message == nullptr) return;
  const bool untouched = Untouched(*message);
  const bool stops = !untouched && question.stop_redelivery;
  Same("cancel: redelivery_stopped", stops, actual.redelivery_stopped);
  if (untouched) Same("cancel: state", StateOf(now, *message), actual.state);
  if (untouched && message->deliveries > 0) {
    Violate("CANCELLED although it has been delivered (P3)");
  }
  if (!untouched && !stops) return;
  message->stopped = stops;
  End(*message, EndState::kCancelled, now.wall_ms);
}

void SequentialContract::OnAnswer(base::Now now, const Question& question,
                                  const protocol::RescheduleReply& actual) {
  const Message* const target = Find(now, question.target);
  const bool other_etag =
      question.revision.has_value() && target != nullptr &&
      (question.revision_of != target->id || *question.revision != target->revision);
  if (OutcomeOf(target) == Outcome::kDone && other_etag) {
    return Refused("reschedule", actual.status, absl::StatusCode::kAborted, "ETAG_MISMATCH");
  }
  Message* const message = CompareOutcome(now, "reschedule", question, actual);
  if (message == nullptr || !Untouched(*message)) return;
  Same("reschedule: old_deliver_ms", message->deliver_ms, actual.old_deliver_ms);
  storage::MessageRecord head;
  if (!DecodeHead("reschedule: ", actual.head, &head)) return;
  const uint64_t deliver_ms = std::clamp(head.header.deliver_ms, question.deliver_ms,
                                         question.deliver_ms + message->ask.spread_ms);
  CheckPoint(message->id, message->ask.spread_ms, deliver_ms - question.deliver_ms);
  Same("reschedule: state", StateByTime(now, deliver_ms), actual.state);
  if (deliver_ms != message->deliver_ms) Change(now, deliver_ms, message);
  CompareRecord(*message, head, /*with_payload=*/false);
}

void SequentialContract::OnAnswer(base::Now now, const Question& question,
                                  const protocol::GetReply& actual) {
  const Message* const message = Find(now, question.target);
  if (message == nullptr) {
    return Refused("get", actual.status, absl::StatusCode::kNotFound, "MESSAGE_NOT_FOUND");
  }
  const std::string name = absl::StrCat("get ", message->id.ToString());
  if (!actual.status.ok()) return Violate(absl::StrCat(name, ": ", actual.status.ToString()));
  Same(name + ": id", message->id, actual.id);
  Same(name + ": state", StateOf(now, *message), actual.state);
  Same(name + ": attempts", message->last, actual.attempts);
  Same(name + ": has a tombstone", !message->pending(), actual.tombstone.has_value());
  if (!actual.tombstone.has_value()) {
    storage::MessageRecord record;
    if (!Decode(name + ": ", actual.record, &record)) return;
    CompareRecord(*message, record, /*with_payload=*/true);
    if (message->deliver_ms <= now.wall_ms) CompareAttempts(name, *message, actual);
    const uint64_t lease_end_ms =
        message->Leased(now) ? now.wall_ms + (message->lease_end_mono_ms - now.mono_ms) : 0;
    return Same(name + ": lease_end_ms", lease_end_ms, actual.timeline.lease_end_ms);
  }
  const storage::Tombstone& tombstone = *actual.tombstone;
  Same(name + ": topic", message->ask.topic, tombstone.topic);
  Same(name + ": key", message->ask.key, tombstone.key);
  Same(name + ": payload_bytes", message->ask.payload.size(), size_t{tombstone.payload_bytes});
  Same(name + ": deliver_ms", message->deliver_ms, tombstone.deliver_ms);
  Same(name + ": accept_ms", message->accept_ms, tombstone.accept_ms);
  Same(name + ": revision", message->revision, tombstone.revision);
  Same(name + ": end_ms", message->end_ms, tombstone.end_ms);
  Same(name + ": expire_ms", message->expire_ms, tombstone.expire_ms);
  Same(name + ": redelivery_stopped", message->stopped, tombstone.redelivery_stopped);
}

void SequentialContract::OnInspect(base::Now now, const std::vector<storage::MessageKey>& keys,
                                   const protocol::InspectReply& actual) {
  if (!actual.status.ok()) return Violate("inspect: " + actual.status.ToString());
  Same("inspect: size", keys.size(), actual.messages.size());
  for (size_t i = 0; i < actual.messages.size() && violation().empty(); ++i) {
    const Message& message = messages_.at(keys[i].id);
    const protocol::InspectedMessage& inspected = actual.messages[i];
    Same("inspect: state",
         message.Leased(now) ? MessageState::kInFlight : StateByTime(now, message.place_ms),
         inspected.state);
    // The backlog lists messages without their attempts.
    if (inspected.attempts != 0 || message.Leased(now)) {
      Same("inspect: attempts", message.last, inspected.attempts);
    }
  }
}

void SequentialContract::CompareRecord(const Message& message, const storage::MessageRecord& actual,
                                       bool with_payload) {
  const std::string name = absl::StrCat("record of ", message.id.ToString(), ": ");
  const Ask& ask = message.ask;
  Same(name + "topic", ask.topic, actual.header.topic);
  Same(name + "deliver_ms", message.deliver_ms, actual.header.deliver_ms);
  Same(name + "accept_ms", message.accept_ms, actual.header.accept_ms);
  Same(name + "key", absl::string_view(ask.key), actual.key);
  Same(name + "ttl_ms", ask.ttl_ms, actual.ttl_ms);
  if (ask.ttl_ms > 0) Same(name + "late_policy", ask.late_policy, actual.late_policy);
  Same(name + "spread_ms", ask.spread_ms, actual.spread_ms);
  Same(name + "revision", message.revision, actual.revision);
  if (message.revision > 0) Same(name + "update_ms", message.update_ms, actual.update_ms);
  if (with_payload) Same(name + "payload", absl::string_view(ask.payload), actual.payload);
}

// ---- Subscribers

void SequentialContract::OnDelivery(base::Now now, uint16_t, storage::TopicId topic,
                                    storage::SubscriptionId, uint64_t lease_ms,
                                    const protocol::Delivery& actual) {
  const std::string name = absl::StrCat("delivery of ", actual.id.ToString(), ": ");
  const auto it = messages_.find(actual.id);
  if (it == messages_.end()) return Violate(name + "nobody scheduled it");
  Message& message = it->second;
  if (!message.pending()) return Violate(name + "it has ended");
  NewAttempt(now, actual.attempt, &message);
  if (Expires(now, message)) Violate(name + "later than its time to live");
  Same(name + "topic", message.ask.topic, topic);
  Same(name + "attempt", message.last + 1, actual.attempt);
  Same(name + "maybe_redelivered", !Untouched(message), actual.maybe_redelivered);
  Same(name + "dispatch_ms", now.wall_ms, actual.dispatch_ms);
  storage::MessageRecord record;
  if (!Decode(name, actual.record, &record)) return;
  CompareRecord(message, record, /*with_payload=*/true);
  if (!leases_.emplace(actual.token, actual.id).second) Violate(name + "a token was used twice");
  BeginAttempt(name, now, lease_ms, message.deliver_ms, actual, &message);
}

void SequentialContract::OnSettleSent(base::Now now, const protocol::SettleCommand& command) {
  settler_ = command.stream;
  // Returns the message with this live lease.
  const auto take = [&](LeaseToken token, Settlement expected) -> Message* {
    Message* const message = FindLease(token);
    const bool live = message != nullptr && message->Leased(now);
    settling_.emplace(live ? expected : Settlement::kRefused, token);
    return live ? message : nullptr;
  };
  for (const protocol::Settlement& one : command.settlements) {
    const bool extends = one.action == SettleAction::kExtend;
    Message* const message =
        take(one.token, extends ? Settlement::kExtended : Settlement::kSettled);
    if (message == nullptr) continue;
    switch (one.action) {
      case SettleAction::kAck:
        End(*message, EndState::kAcked, now.wall_ms);
        break;
      case SettleAction::kNack:
        EndAttempt(now, storage::AttemptEnd::kNacked, one.ms.value_or(0), one.reason, message);
        OnFailed(now, one.token, one.ms);
        break;
      case SettleAction::kRelease:
        EndAttempt(now, storage::AttemptEnd::kReleased, one.ms.value_or(0), "", message);
        OnFailed(now, one.token, one.ms.value_or(0));
        break;
      case SettleAction::kExtend:
        message->lease_end_mono_ms = now.mono_ms + one.ms.value();
        break;
      case SettleAction::kDeadLetter:
        Violate("the sequential contract has no dead letters");
    }
  }
}

void SequentialContract::OnSettled(base::Now, const protocol::SettleReply& actual) {
  if (actual.stream != settler_) Violate("a settlement of another stream");
  const auto answer = [this](Settlement how, LeaseToken token) {
    if (settling_.erase({how, token}) == 0) Violate("settle: another answer for a lease");
  };
  for (const LeaseToken token : actual.settled) answer(Settlement::kSettled, token);
  for (const LeaseToken token : actual.extended) answer(Settlement::kExtended, token);
  for (const protocol::RefusedSettlement& refused : actual.refused) {
    answer(Settlement::kRefused, refused.token);
  }
}

void SequentialContract::OnFailed(base::Now now, LeaseToken token,
                                  std::optional<uint64_t> delay_ms) {
  if (Message* const message = FindLease(token)) message->Fail(now, delay_ms.value_or(0));
}

// ---- The store

void SequentialContract::OnStored(const Stored& stored) {
  for (const auto& [id, place_and_record] : stored) {
    const auto& [key, bytes] = place_and_record;
    const auto it = messages_.find(id);
    if (it == messages_.end() || !it->second.pending()) {
      return Violate(absl::StrCat("the store holds ", id.ToString(), ", which is not pending"));
    }
    Message& message = it->second;
    storage::MessageRecord record;
    if (!Decode("store: ", bytes, &record)) return;
    CompareRecord(message, record, /*with_payload=*/true);
    if (message.place_ms == 0) {
      // Neither before the deliver_time nor before the decision. The low watermark, which may be
      // one millisecond ahead of the clock, can move the place.
      const uint64_t least_ms = std::max(message.deliver_ms, message.placed_wall_ms);
      if (key.due_ms < least_ms || key.due_ms > std::max(least_ms, message.placed_wall_ms + 1)) {
        Violate(absl::StrCat(id.ToString(), " stands at ", key.due_ms, ", is for ", least_ms));
      }
      message.place_ms = key.due_ms;
    }
    Same("place in the store", message.place_ms, key.due_ms);
  }
  for (const auto& [id, message] : messages_) {
    if (message.pending() && !stored.contains(id)) {
      return Violate(absl::StrCat(id.ToString(), " is pending and not in the store: lost (P1)"));
    }
  }
}

void SequentialContract::OnRest(base::Now now, const std::vector<MessageId>& erased) {
  if (!settling_.empty()) Violate("settle: a lease without an answer");
  for (auto& [id, message] : messages_) EndIfLate(now, &message);
  for (const MessageId& id : erased) {
    const auto it = messages_.find(id);
    if (it == messages_.end()) return Violate("erased what nobody scheduled");
    Message& message = it->second;
    if (!message.pending()) continue;
    if (!Expires(now, message) || message.Leased(now)) {
      return Violate(absl::StrCat(id.ToString(), " was erased without a reason: lost (P1)"));
    }
    End(message, EndState::kExpired, now.wall_ms);
  }
}

// ---- Crashes

void SequentialContract::OnLost(const std::vector<MessageId>& ids) {
  for (const MessageId& id : ids) {
    Message& message = messages_.at(id);
    if (message.end != EndState::kAcked && message.end != EndState::kExpired) {
      return Violate("the power took an end that was on stable storage");
    }
    message.end.reset();
    message.expire_ms = message.end_ms = 0;
    const auto key = keys_.find({message.ask.topic, message.ask.key});
    if (key != keys_.end() && key->second.id == id) key->second.expire_ms = 0;
  }
}

void SequentialContract::OnRestart(const Recovered& recovered, Host::End how) {
  const bool clean = how == Host::End::kStop;
  // The attempts before a clean stop, and whether the message was untouched.
  std::map<MessageId, std::pair<uint32_t, bool>> known;
  for (const auto& [id, message] : messages_) {
    // A move into the claim of an earlier run is not written down.
    const bool moved = message.moved_here && message.place_ms <= recovered_.uncertain.until_ms;
    if (clean && message.pending() && !(moved && Untouched(message))) {
      known[id] = {message.last, Untouched(message)};
    }
  }
  recovered_ = recovered;
  for (auto& [id, message] : messages_) {
    message.moved_here = false;
    message.lease.reset();
    message.retry_mono_ms = message.retry_wall_ms = 0;
    if (!message.pending()) continue;
    message.last = 0;
    message.listed_uncertain.reset();
    const storage::MessageKey key{.due_ms = message.place_ms, .id = id};
    // The store keeps the failed attempts and the retry time. The model does not follow this wait,
    // which begins when the shard reads the message again.
    const auto noted = recovered.progress.find(key);
    RecoverAttempts(noted == recovered.progress.end() ? nullptr : &noted->second, how, &message);
    if (noted != recovered.progress.end()) {
      message.last = noted->second.attempts;
      if (noted->second.retry_ms > 0) message.retry_mono_ms = UINT64_MAX;
    }
    const auto listed = recovered.backlog.find(key);
    if (listed != recovered.backlog.end()) {
      const auto claim = recovered.backlog_claims.find(message.ask.topic);
      const auto& [place, entry] = listed->second;
      message.last = std::max(message.last, entry.attempts);
      message.listed_uncertain =
          entry.maybe_delivered ||
          (claim != recovered.backlog_claims.end() && place <= claim->second &&
           id.epoch() <= recovered.uncertain.epoch);
    }
    if (const auto before = known.find(id);
        before != known.end() && before->second != std::pair(message.last, Untouched(message))) {
      Violate(absl::StrCat(id.ToString(), ": ", before->second.first,
                           " attempts before a clean stop, ", message.last, " after it, untouched ",
                           before->second.second, ", ", Untouched(message)));
    }
    if (message.deliveries > 0 && Untouched(message)) {
      Violate(absl::StrCat(id.ToString(), " was delivered, and nothing claims it (P3)"));
    }
  }
}

void SequentialContract::CheckDrained() {
  for (const auto& [id, message] : messages_) {
    if (message.pending()) Violate(absl::StrCat(id.ToString(), " never ended: lost (P1)"));
  }
}

}  // namespace duetime::simulation
