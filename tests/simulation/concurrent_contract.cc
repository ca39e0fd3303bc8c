// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/concurrent_contract.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "server/base/error.h"
#include "storage/time_units.h"

namespace duetime::simulation {

using protocol::AcceptedMessage;
using protocol::MessageState;
using protocol::OnConflict;
using protocol::Outcome;
using protocol::ScheduleOutcome;
using storage::MessageId;
using storage::TopicId;
using Kind = Question::Kind;

namespace {

bool Changes(const Question& question) {
  return question.kind == Kind::kSchedule || question.kind == Kind::kReschedule;
}

}  // namespace

ConcurrentContract::Key& ConcurrentContract::KeyOf(const Place& place) {
  const auto [it, added] = keys_.try_emplace(place);
  if (added) {
    for (const Bulk& bulk : bulks_) MayChange(bulk, place, &it->second);
  }
  return it->second;
}

ConcurrentContract::Message& ConcurrentContract::MessageOf(const MessageId& id,
                                                           const Place& place) {
  const auto [it, added] = messages_.try_emplace(id);
  Message& message = it->second;
  if (added) {
    message.id = id;
    message.place = place;
    ids_.push_back(id);
    KeyOf(place).ids.insert(id);
  } else if (message.place != place) {
    Violate(absl::StrCat(id.ToString(), " of ", message.place.second, " is said to be of ",
                         place.second));
  }
  return message;
}

bool ConcurrentContract::Acked(const Message& message) {
  return std::any_of(message.pairs.begin(), message.pairs.end(),
                     [](const auto& entry) { return entry.second.acked; });
}

bool ConcurrentContract::Unacked(const Message& message) {
  return std::none_of(message.pairs.begin(), message.pairs.end(), [](const auto& entry) {
    const Pair& pair = entry.second;
    return pair.acked || pair.ack_sent || pair.maybe_settled;
  });
}

bool ConcurrentContract::MayBeCancelled(const Message& message) {
  const Key& key = KeyOf(message.place);
  return message.cancelled || message.stopped || message.maybe_ended || key.bulk_ends ||
         key.cancels_open > 0;
}

// A created subscription may give a message up without an answer to a client.
bool ConcurrentContract::MustExist(const Message& message) {
  return message.confirmed && !message.damaged && !MayBeCancelled(message) && Unacked(message) &&
         ByUse(message);
}

// ---- Calls

MessageId ConcurrentContract::OwnerOf(const Place& place) {
  const Key& key = KeyOf(place);
  if (key.ids.empty()) return {};
  // The latest message has the key. Ids of one shard grow.
  const Message& latest = messages_.at(*key.ids.rbegin());
  const bool known = latest.id.epoch() == epoch_ || !key.maybe_created;
  return known && MustBeUntouched(latest) ? latest.id : MessageId{};
}

// True if the message that had the key when the call was sent still has it, undelivered.
bool ConcurrentContract::StillOwns(const Question& question) {
  return question.owner != MessageId{} && MustBeUntouched(messages_.at(question.owner));
}

void ConcurrentContract::OnSent(Question* question) {
  const Ask& ask = question->ask;
  if (question->kind == Kind::kSchedule) {
    question->place = {ask.topic, ask.key.empty() ? absl::StrCat("#", ask.number) : ask.key};
  } else if (question->by_key()) {
    question->place = {question->target.topic, question->target.key};
  } else if (const auto it = messages_.find(question->target.id); it != messages_.end()) {
    question->place = it->second.place;
  }
  question->owner = OwnerOf(question->place);
  Key& key = KeyOf(question->place);
  if (question->kind == Kind::kCancel) ++key.cancels_open;
  if (question->kind == Kind::kReschedule) key.times.insert(question->deliver_ms);
  if (Changes(*question)) ++key.changes_open;
  if (question->kind != Kind::kSchedule) return;
  key.times.insert(ask.deliver_ms);
  key.numbers.insert(ask.number);
  if (ask.max_wait_ms > 0) key.any_time = true;
  ++possible_[ask.number];
  if (ask.topic == limits_.topic) ++sent_to_limited_;
  if (!ask.request_id.empty()) ++requests_sent_[{question->place, ask.request_id}];
}

void ConcurrentContract::Close(const Question& question) {
  Key& key = KeyOf(question.place);
  if (Changes(question)) --key.changes_open;
  if (question.kind == Kind::kCancel) --key.cancels_open;
}

void ConcurrentContract::Lose(const Question& question) {
  Key& key = KeyOf(question.place);
  if (Changes(question)) key.unsure = true;
  if (question.kind == Kind::kSchedule) key.maybe_created = true;
  if (question.kind == Kind::kCancel) {
    for (const MessageId& id : key.ids) messages_.at(id).maybe_ended = true;
  }
}

void ConcurrentContract::OnBulk(TopicId topic, const std::string& prefix, bool ends) {
  bulks_.push_back({.topic = topic, .prefix = prefix, .ends = ends});
  for (auto& [place, key] : keys_) MayChange(bulks_.back(), place, &key);
}

void ConcurrentContract::MayChange(const Bulk& bulk, const Place& place, Key* key) {
  if (place.first != bulk.topic || !absl::StartsWith(place.second, bulk.prefix)) return;
  key->unsure = key->any_time = true;
  key->bulk_ends |= bulk.ends;
}

void ConcurrentContract::OnStart(base::Now now, uint64_t epoch) {
  epoch_ = epoch;
  if (!std::exchange(clean_, false)) certain_from_ = epoch;
  // The store keeps the wall-clock time of the retry. From here the wait follows the monotonic
  // clock, and a wall clock that stands still does not prolong it.
  for (auto& [id, message] : messages_) {
    for (auto& [subscription, pair] : message.pairs) {
      const uint64_t wait_ms = pair.retry_wall_ms - std::min(pair.retry_wall_ms, now.wall_ms);
      pair.retry_mono_ms = now.mono_ms + wait_ms;
    }
  }
}

void ConcurrentContract::OnEnd(End how, const std::vector<Question>& open) {
  const bool power = how == End::kPowerCut;
  clean_ = how == End::kCleanStop;
  const bool rest = clean_ || how == End::kCrashAtRest;
  for (const Question& question : open) {
    if (question.answered) continue;
    Lose(question);
    Close(question);
  }
  for (auto& [id, message] : messages_) {
    for (auto& [subscription, pair] : message.pairs) {
      if (pair.ack_sent || (pair.acked && power)) pair.maybe_settled = true;
      if (power) pair.acked = false;
      pair.ack_sent = false;
      // Attempts that failed before a crash count. The last one may still be in flight. A clean
      // stop takes it back, and keeps its number.
      const bool in_flight = pair.lease.has_value();
      if (rest && pair.epoch == epoch_) pair.failed = pair.last - (in_flight && !clean_ ? 1 : 0);
      if (!power) pair.failed = std::max(pair.failed, pair.nacked);
      pair.nacked = 0;
      if (in_flight || !rest) pair.spared += 2;
      if (in_flight || !rest) pair.retry_wall_ms = 0;
      pair.lease.reset();
    }
  }
  for (auto& [id, subscription] : subscriptions_) subscription.dropped.clear();
  settling_.clear();
  nacking_.clear();
  last_first_.clear();
}

// ---- Answers

void ConcurrentContract::Confirm(Message* message, uint64_t revision, Version version) {
  message->confirmed = true;
  message->highest = std::max(message->highest, revision);
  CheckVersion(*message, revision, version);
  Version& known = message->versions[revision];
  if (known.number == 0) known.number = version.number;
  known.deliver_ms = version.deliver_ms;
  if (message->deliveries > 0 && message->delivered_revision < revision) {
    Violate(absl::StrCat(message->id.ToString(), ": revision ", revision,
                         " although another was delivered"));
  }
}

void ConcurrentContract::CheckVersion(const Message& message, uint64_t revision,
                                      const Version& seen) {
  const auto it = message.versions.find(revision);
  if (it == message.versions.end()) return;
  const Version& known = it->second;
  const bool other_content = known.number != 0 && seen.number != 0 && known.number != seen.number;
  if (other_content || known.deliver_ms != seen.deliver_ms) {
    Violate(absl::StrCat(message.id.ToString(), ": revision ", revision, " is content ",
                         seen.number, " for ", seen.deliver_ms, " and was content ", known.number,
                         " for ", known.deliver_ms));
  }
}

void ConcurrentContract::OnAnswer(base::Now now, const Question& question,
                                  const AcceptedMessage& answer) {
  const Ask& ask = question.ask;
  const absl::Status& result = answer.status;
  if (!result.ok()) {
    const bool refused = absl::IsAlreadyExists(result) || absl::IsResourceExhausted(result) ||
                         (absl::IsNotFound(result) && ask.only_if_exists) ||
                         IsDamaged(question, result);
    if (refused) {
      --possible_[ask.number];
      CheckLimitReached(ask, result);
      if (absl::IsNotFound(result) && StillOwns(question) && question.owner.epoch() == epoch_) {
        Violate(absl::StrCat(question.owner.ToString(), ": NOT_FOUND although it can be changed"));
      }
    } else if (absl::IsUnavailable(result)) {
      Lose(question);
    } else {
      Violate(absl::StrCat("a schedule was answered ", result.ToString()));
    }
    return Close(question);
  }
  bool repeated = false;
  if (!ask.request_id.empty()) {
    // The server may have decided a repeat before the request that was sent first.
    repeated = requests_sent_.at({question.place, ask.request_id}) > 1;
    const std::pair value(ask.number, answer.id);
    const auto [it, added] = requests_.emplace(std::pair(question.place, ask.request_id), value);
    if (!added && it->second != value) {
      Violate(absl::StrCat("request ", ask.request_id, " was answered in two ways"));
    }
  }
  const bool fresh = !messages_.contains(answer.id);
  Message& message = MessageOf(answer.id, question.place);
  message.ordering_key = ask.ordering_key;
  if (!message.confirmed) message.confirmed_wall_ms = now.wall_ms;
  if (repeated) {
    // Since the first answer, forgotten calls may have ended the message, and this answer does not
    // tell which change was made, or when.
    message.unsure = true;
    if (fresh) message.maybe_ended = true;
  } else if (answer.outcome == ScheduleOutcome::kCreated) {
    OnCreated(question, answer);
  } else if (answer.outcome == ScheduleOutcome::kReplaced) {
    OnReplaced(ask, answer);
  }
  Close(question);
  if (!repeated && answer.outcome == ScheduleOutcome::kCreated) CheckLimits(now, message);
}

void ConcurrentContract::OnCreated(const Question& question, const AcceptedMessage& answer) {
  const Ask& ask = question.ask;
  Message& message = messages_.at(answer.id);
  const std::string name = answer.id.ToString();
  if (ask.only_if_exists) Violate(name + ": CREATED although only_if_exists");
  if (!TimeFits(ask.topic, ask.deliver_ms, answer.deliver_ms)) {
    Violate(name + ": another time than was asked for");
  }
  if (answer.deliver_ms != ask.deliver_ms) ++counts_["spread"];
  if (!ask.key.empty() && StillOwns(question) && question.owner != answer.id) {
    if (!answer.previous_id.has_value()) {
      Violate(absl::StrCat(name, ": CREATED although ", question.owner.ToString(), " had the key"));
    } else if (question.owner.epoch() == epoch_) {
      Violate(absl::StrCat(name, ": took the key from ", question.owner.ToString(),
                           ", which was never delivered"));
    }
  }
  if (answer.previous_id.has_value()) MessageOf(*answer.previous_id, question.place);
  Confirm(&message, 0, {.number = ask.number, .deliver_ms = answer.deliver_ms});
}

void ConcurrentContract::OnReplaced(const Ask& ask, const AcceptedMessage& answer) {
  Message& message = messages_.at(answer.id);
  const std::string name = answer.id.ToString();
  if (!protocol::Replaces(ask.on_conflict)) Violate(name + ": REPLACED although FAIL or ONCE");
  const uint64_t time_ms = answer.deliver_ms;
  const bool right = ask.on_conflict == OnConflict::kReplace
                         ? TimeFits(ask.topic, ask.deliver_ms, time_ms)
                     : ask.on_conflict == OnConflict::kKeepTime ? time_ms == answer.old_deliver_ms
                                                                : time_ms >= answer.old_deliver_ms;
  if (!right) Violate(name + ": REPLACED with a wrong time");
  Confirm(&message, answer.revision, {.number = ask.number, .deliver_ms = time_ms});
  const auto before = message.versions.find(answer.revision - 1);
  if (before != message.versions.end() && before->second.deliver_ms != answer.old_deliver_ms) {
    Violate(name + ": REPLACED over another time than it had");
  }
}

// ---- Limits

void ConcurrentContract::CheckLimitReached(const Ask& ask, const absl::Status& refusal) {
  const auto detail = base::GetErrorDetail(refusal);
  if (!detail.has_value()) return;
  const bool limited = ask.topic == limits_.topic;
  if (detail->reason == "TOPIC_FULL") {
    ++counts_["topic full"];
    if (!limited || limits_.pending_max == 0 || sent_to_limited_ <= limits_.pending_max) {
      Violate("TOPIC_FULL for a topic that is not full");
    }
  } else if (detail->reason == "MINUTE_FULL") {
    ++counts_["minute full"];
    if (!limited || limits_.minute_max == 0) Violate("MINUTE_FULL without a limit");
  }
}

// Counts the messages that certainly exist, and in the minute those that certainly have their first
// time: only a new message, and a replaced one, is subject to the limit. One that was due at its
// acceptance is not.
void ConcurrentContract::CheckLimits(base::Now now, const Message& created) {
  if (created.place.first != limits_.topic) return;
  const auto minute_of = [](uint64_t time_ms) { return time_ms - time_ms % storage::kMinuteMs; };
  const auto shard_of = [this](const MessageId& id) {
    return storage::ShardOfSlot(id.slot(), limits_.shards);
  };
  const uint64_t minute_ms = minute_of(created.versions.at(0).deliver_ms);
  const uint16_t shard = shard_of(created.id);
  uint64_t pending = 0;
  uint64_t in_minute = 0;
  for (const auto& [id, message] : messages_) {
    if (message.place.first != limits_.topic || !MustExist(message)) continue;
    ++pending;
    const auto first = message.versions.find(0);
    const Key& key = KeyOf(message.place);
    if (first == message.versions.end() || message.highest > 0 || message.unsure || key.unsure ||
        key.changes_open > 0 || id.epoch() != epoch_) {
      continue;
    }
    if (shard_of(id) == shard && minute_of(first->second.deliver_ms) == minute_ms) ++in_minute;
  }
  if (limits_.pending_max > 0 && pending > limits_.pending_max) {
    Violate(absl::StrCat(created.id.ToString(), ": accepted, and the topic has ", pending,
                         " messages instead of ", limits_.pending_max));
  }
  const uint64_t share = (limits_.minute_max + limits_.shards - 1) / limits_.shards;
  if (limits_.minute_max > 0 && minute_ms > now.wall_ms && in_minute > share) {
    Violate(absl::StrCat(created.id.ToString(), ": accepted, and its minute has ", in_minute,
                         " messages instead of ", share));
  }
}

// ---- Damage

bool ConcurrentContract::IsDamaged(const Question& question, const absl::Status& answer) {
  if (!absl::IsDataLoss(answer)) return false;
  std::set<MessageId> needed = {question.target.id};
  if (question.by_key()) needed = KeyOf(question.place).ids;
  const std::string& request_id = question.ask.request_id;
  if (!request_id.empty() && question.ask.key.empty()) {
    // The scope of the request id is the topic, and its first request may have had other content.
    for (const auto& [request, times] : requests_sent_) {
      const auto& [place, id] = request;
      const bool keyed = !place.second.starts_with('#');
      if (keyed || place.first != question.place.first || id != request_id) continue;
      needed.merge(std::set<MessageId>(KeyOf(place).ids));
    }
  }
  const bool damaged = std::any_of(needed.begin(), needed.end(), [this](const MessageId& id) {
    const auto it = messages_.find(id);
    return it != messages_.end() && it->second.damaged;
  });
  if (!damaged) Violate(question.place.second + ": DATA_LOSS, but its message is sound");
  return true;
}

void ConcurrentContract::OnDamaged(const MessageId& id, const std::string& bytes) {
  storage::MessageRecord record;
  uint64_t number = 0;
  if (!DecodeContent("damaged: ", bytes, &record, &number)) return;
  Place place(record.header.topic, std::string(record.key));
  if (record.key.empty()) place.second = absl::StrCat("#", number);
  Message& message = MessageOf(id, place);
  message.damaged = message.was_damaged = true;
}

void ConcurrentContract::OnRepaired() {
  for (auto& [id, message] : messages_) message.damaged = false;
}

void ConcurrentContract::OnUnreadable(storage::SubscriptionId subscription,
                                      const protocol::Delivery& delivery) {
  leases_[delivery.token] = {MessageId{}, subscription};
  const std::string name = delivery.id.ToString() + ": ";
  const auto it = messages_.find(delivery.id);
  if (it == messages_.end() || !it->second.damaged) {
    Violate(name + "handed out without its record, which is sound");
  } else if (it->second.cancelled) {
    Violate(name + "handed out after CANCELLED (P3)");
  }
}

// ---- Outcomes

bool ConcurrentContract::MayBe(const Message& message, Outcome outcome, bool uncertain) {
  const bool ended = message.cancelled || message.stopped || (Acked(message) && ByUse(message));
  switch (outcome) {
    case Outcome::kDone:
      return !ended && message.deliveries == 0;
    case Outcome::kInFlight:
      // A created subscription may have given the message up.
      return !ended &&
             (message.deliveries > 0 || message.was_damaged || uncertain || !ByUse(message));
    case Outcome::kAlreadyCancelled:
      return !message.confirmed || MayBeCancelled(message);
    case Outcome::kSettled:
      return !Unacked(message) || message.maybe_ended || !ByUse(message);
    case Outcome::kNotFound:
      return !MustExist(message);
  }
  return false;
}

ConcurrentContract::Message* ConcurrentContract::CheckOutcome(const Question& question,
                                                              const MessageId& id, Outcome outcome,
                                                              bool uncertain) {
  const std::string what = absl::StrCat("outcome ", static_cast<int>(outcome),
                                        " in an answer of kind ", static_cast<int>(question.kind));
  const bool known = question.by_key() || messages_.contains(question.target.id);
  if (outcome == Outcome::kNotFound) {
    const bool may_be = question.by_key()
                            ? !StillOwns(question)
                            : !known || MayBe(messages_.at(question.target.id), outcome, uncertain);
    if (!may_be) Violate(absl::StrCat(question.place.second, ": ", what, " (P1)"));
    return nullptr;
  }
  if (!known) Violate(id.ToString() + " was found, and no call created it");
  Message& message = MessageOf(id, question.place);
  if (!MayBe(message, outcome, uncertain)) {
    Violate(absl::StrCat(
        id.ToString(), ": ", what, ", after ", message.deliveries, " deliveries",
        message.confirmed ? "" : ", not confirmed", message.cancelled ? ", CANCELLED (P3)" : "",
        message.stopped ? ", redelivery_stopped" : "", Acked(message) ? ", acked" : "",
        MustExist(message) ? ", must be pending (P1)" : ""));
  }
  const bool certain = message.id.epoch() >= certain_from_ && !message.was_damaged;
  if (outcome == Outcome::kInFlight && uncertain && certain && question.kind != Kind::kGet) {
    Violate(id.ToString() + ": uncertain although no run has crashed since its acceptance");
  }
  return &message;
}

void ConcurrentContract::OnAnswer(base::Now, const Question& question,
                                  const protocol::CancelReply& answer) {
  Close(question);
  if (!answer.status.ok()) {
    const bool refused =
        absl::IsResourceExhausted(answer.status) || IsDamaged(question, answer.status);
    if (!refused) Lose(question);
    return;
  }
  Message* const message =
      CheckOutcome(question, answer.id, answer.outcome, answer.delivery_uncertain);
  if (message == nullptr) return;
  if (answer.outcome == Outcome::kSettled && ByUse(*message) &&
      answer.state != MessageState::kAcked) {
    Violate(answer.id.ToString() + ": SETTLED, not by an ack");
  }
  if (answer.outcome == Outcome::kDone) message->cancelled = true;
  if (answer.outcome == Outcome::kInFlight) message->stopped |= answer.redelivery_stopped;
}

void ConcurrentContract::OnAnswer(base::Now, const Question& question,
                                  const protocol::RescheduleReply& answer) {
  Close(question);
  if (!answer.status.ok()) {
    if (absl::IsUnavailable(answer.status)) Lose(question);
    static_cast<void>(IsDamaged(question, answer.status));
    return;
  }
  Message* const message =
      CheckOutcome(question, answer.id, answer.outcome, answer.delivery_uncertain);
  if (message == nullptr || answer.outcome != Outcome::kDone) return;
  const std::string name = answer.id.ToString() + ": ";
  storage::MessageRecord record;
  if (!DecodeHead(name, answer.head, &record)) return;
  if (record.header.deliver_ms != question.deliver_ms) Violate(name + "moved to another time");
  uint64_t number = 0;
  const auto before = message->versions.find(record.revision - 1);
  if (record.revision > 0 && answer.old_deliver_ms != question.deliver_ms &&
      before != message->versions.end()) {
    number = before->second.number;
  }
  Confirm(message, record.revision, {.number = number, .deliver_ms = question.deliver_ms});
}

void ConcurrentContract::OnAnswer(base::Now, const Question& question,
                                  const protocol::GetReply& answer) {
  Close(question);
  if (!answer.status.ok() && !absl::IsNotFound(answer.status)) {
    static_cast<void>(IsDamaged(question, answer.status));
    return;
  }
  // A pending message may be in flight, or not.
  const Outcome outcome = !answer.status.ok()            ? Outcome::kNotFound
                          : answer.tombstone.has_value() ? OutcomeOf(answer.tombstone->state)
                                                         : Outcome::kInFlight;
  Message* const message = CheckOutcome(question, answer.id, outcome, /*uncertain=*/true);
  if (message == nullptr || answer.tombstone.has_value()) return;
  const std::string name = answer.id.ToString() + ": ";
  storage::MessageRecord record;
  uint64_t number = 0;
  if (!DecodeContent(name, answer.record, &record, &number) || message->occurrence) return;
  if (record.revision < message->highest) Violate(name + "Get finds what was replaced");
  CheckVersion(*message, record.revision,
               {.number = number, .deliver_ms = record.header.deliver_ms});
  const bool has_key = message->place.second[0] != '#';
  if (has_key && record.key != message->place.second) Violate(name + "another key");
}

bool ConcurrentContract::DecodeContent(const std::string& name, const std::string& bytes,
                                       storage::MessageRecord* record, uint64_t* number) {
  if (!Decode(name, bytes, record)) return false;
  const bool ok = !record->payload.empty() && absl::SimpleAtoi(record->payload.substr(1), number);
  if (!ok) Violate(name + "a content that no call sent");
  return ok;
}

}  // namespace duetime::simulation
