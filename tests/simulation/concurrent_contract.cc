// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/contract.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace duetime::simulation {

using protocol::MessageState;
using protocol::OnConflict;
using protocol::Outcome;
using protocol::ScheduleOutcome;
using storage::MessageId;
using storage::TopicId;

Contract::Place Contract::PlaceOf(const Ask& ask) {
  return {ask.topic, ask.key.empty() ? absl::StrCat("#", ask.number) : ask.key};
}

Contract::Key& Contract::KeyOf(const Place& place) {
  const auto [it, added] = keys_.try_emplace(place);
  Key& key = it->second;
  if (!added) return key;
  for (const std::string& prefix : bulk_prefixes_[place.first]) {
    if (absl::StartsWith(place.second, prefix)) key.unsure = key.any_time = true;
  }
  for (const std::string& prefix : bulk_end_prefixes_[place.first]) {
    if (absl::StartsWith(place.second, prefix)) key.bulk_ends = true;
  }
  return key;
}

Contract::Message& Contract::MessageOf(const MessageId& id, const Place& place) {
  const auto [it, added] = messages_.try_emplace(id);
  Message& message = it->second;
  if (added) {
    message.id = id;
    message.place = place;
    order_.push_back(id);
    KeyOf(place).ids.insert(id);
  } else if (message.place != place) {
    Violate(absl::StrCat(id.ToString(), " of ", message.place.second, " is said to be of ",
                         place.second));
  }
  return message;
}

bool Contract::Acked(const Message& message) {
  return std::any_of(message.pairs.begin(), message.pairs.end(),
                     [](const auto& entry) { return entry.second.acked; });
}

bool Contract::Unacked(const Message& message) {
  return std::none_of(message.pairs.begin(), message.pairs.end(), [](const auto& entry) {
    const Pair& pair = entry.second;
    return pair.acked || pair.ack_sent || pair.maybe_settled;
  });
}

bool Contract::MayBeCancelled(const Message& message) {
  const Key& key = KeyOf(message.place);
  return message.cancelled || message.stopped || message.maybe_ended || key.bulk_ends ||
         key.cancels_open > 0;
}

// A created subscription may give a message up without an answer to a client.
bool Contract::MustExist(const Message& message) {
  return message.confirmed && !MayBeCancelled(message) && Unacked(message) && ByUse(message);
}

// ---- Calls

Contract::Question Contract::Open(const Place& place, bool by_key) {
  const Key& key = KeyOf(place);
  Question question;
  question.place = place;
  question.by_key = by_key;
  if (!key.ids.empty()) {
    // The latest message has the key. Ids of one shard grow.
    const Message& latest = messages_.at(*key.ids.rbegin());
    const bool known = latest.id.epoch() == epoch_ || !key.maybe_created;
    if (known && latest.deliveries == 0 && MustExist(latest)) question.owner = latest.id;
  }
  return question;
}

// True if the message that had the key when the call was sent still has it, undelivered.
bool Contract::StillOwns(const Question& question) {
  if (question.owner == MessageId{}) return false;
  const Message& message = messages_.at(question.owner);
  return message.deliveries == 0 && MustExist(message);
}

Contract::Question Contract::AskSchedule(Ask* ask) {
  const Place place = PlaceOf(*ask);
  Question question = Open(place, /*by_key=*/true);
  question.schedules = question.changes = true;
  Key& key = KeyOf(place);
  ++key.changes_open;
  key.times.insert(ask->deliver_ms);
  key.numbers.insert(ask->number);
  if (ask->max_wait_ms > 0) key.any_time = true;
  ++possible_[ask->number];
  ask->repeats =
      !ask->request_id.empty() && !requests_sent_.insert({place, ask->request_id}).second;
  return question;
}

Contract::Question Contract::AskCancel(const Place& place, bool by_key) {
  Question question = Open(place, by_key);
  question.cancels = true;
  ++KeyOf(place).cancels_open;
  return question;
}

Contract::Question Contract::AskReschedule(const Place& place, bool by_key, uint64_t deliver_ms) {
  Question question = Open(place, by_key);
  question.changes = true;
  Key& key = KeyOf(place);
  ++key.changes_open;
  key.times.insert(deliver_ms);
  return question;
}

void Contract::Close(const Question& question) {
  Key& key = KeyOf(question.place);
  if (question.changes) --key.changes_open;
  if (question.cancels) --key.cancels_open;
}

void Contract::Lose(const Question& question) {
  Key& key = KeyOf(question.place);
  if (question.changes) key.unsure = true;
  if (question.schedules) key.maybe_created = true;
  if (question.cancels) {
    for (const MessageId& id : key.ids) messages_.at(id).maybe_ended = true;
  }
}

void Contract::OnBulk(TopicId topic, const std::string& prefix, bool ends) {
  bulk_prefixes_[topic].insert(prefix);
  if (ends) bulk_end_prefixes_[topic].insert(prefix);
  for (auto& [place, key] : keys_) {
    if (place.first != topic || !absl::StartsWith(place.second, prefix)) continue;
    key.unsure = key.any_time = true;
    key.bulk_ends |= ends;
  }
}

void Contract::OnStart(base::Now now, uint64_t epoch) {
  epoch_ = epoch;
  // The store keeps the wall-clock time of the retry. From here the wait follows the monotonic
  // clock, and a wall clock that stands still does not prolong it.
  for (auto& [id, message] : messages_) {
    for (auto& [subscription, pair] : message.pairs) {
      const uint64_t wait_ms = pair.retry_wall_ms - std::min(pair.retry_wall_ms, now.wall_ms);
      pair.retry_mono_ms = now.mono_ms + wait_ms;
    }
  }
}

void Contract::OnCrash(bool power, bool rest, const std::vector<Question>& open) {
  for (const Question& question : open) {
    Lose(question);
    Close(question);
  }
  for (auto& [id, message] : messages_) {
    for (auto& [subscription, pair] : message.pairs) {
      if (pair.ack_sent || (pair.acked && power)) pair.maybe_settled = true;
      if (power) pair.acked = false;
      pair.ack_sent = false;
      // Attempts that failed before a crash count. The last one may still be in flight.
      const bool in_flight = pair.lease.has_value();
      if (rest && pair.epoch == epoch_) pair.failed = pair.attempts - (in_flight ? 1 : 0);
      if (in_flight || !rest) pair.retry_wall_ms = 0;
      pair.lease.reset();
    }
  }
  for (auto& [id, subscription] : subscriptions_) subscription.dropped.clear();
  settling_.clear();
  last_first_.clear();
}

// ---- Answers

void Contract::Confirm(Message* message, uint64_t revision, Version version) {
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

void Contract::CheckVersion(const Message& message, uint64_t revision, const Version& seen) {
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

void Contract::OnSchedule(base::Now now, const Question& question, const Ask& ask,
                          const protocol::AcceptedMessage& answer, const absl::Status& status) {
  const absl::Status& result = status.ok() ? answer.status : status;
  if (!result.ok()) {
    const bool refused = absl::IsAlreadyExists(result) || absl::IsResourceExhausted(result) ||
                         (absl::IsNotFound(result) && ask.only_if_exists);
    if (refused) {
      --possible_[ask.number];
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
  if (!ask.request_id.empty()) {
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
  ++counts_["accepted"];
  if (ask.repeats) {
    // Since the first answer, forgotten calls may have ended the message, and this answer does not
    // tell which change was made, or when.
    message.unsure = true;
    if (fresh) message.maybe_ended = true;
  } else if (answer.outcome == ScheduleOutcome::kCreated) {
    OnCreated(question, ask, answer);
  } else if (answer.outcome == ScheduleOutcome::kReplaced) {
    OnReplaced(ask, answer);
  }
  Close(question);
}

void Contract::OnCreated(const Question& question, const Ask& ask,
                         const protocol::AcceptedMessage& answer) {
  Message& message = messages_.at(answer.id);
  const std::string name = answer.id.ToString();
  if (ask.only_if_exists) Violate(name + ": CREATED although only_if_exists");
  if (answer.deliver_ms != ask.deliver_ms) Violate(name + ": another time than was asked for");
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

void Contract::OnReplaced(const Ask& ask, const protocol::AcceptedMessage& answer) {
  Message& message = messages_.at(answer.id);
  const std::string name = answer.id.ToString();
  ++counts_["replaced"];
  if (ask.on_conflict == OnConflict::kFail) Violate(name + ": REPLACED although FAIL");
  const uint64_t time_ms = answer.deliver_ms;
  const bool right = ask.on_conflict == OnConflict::kReplace    ? time_ms == ask.deliver_ms
                     : ask.on_conflict == OnConflict::kKeepTime ? time_ms == answer.old_deliver_ms
                                                                : time_ms >= answer.old_deliver_ms;
  if (!right) Violate(name + ": REPLACED with a wrong time");
  Confirm(&message, answer.revision, {.number = ask.number, .deliver_ms = time_ms});
  const auto before = message.versions.find(answer.revision - 1);
  if (before != message.versions.end() && before->second.deliver_ms != answer.old_deliver_ms) {
    Violate(name + ": REPLACED over another time than it had");
  }
}

void Contract::OnCancel(const Question& question, const MessageId& id,
                        const protocol::CancelReply& reply) {
  Close(question);
  if (!reply.status.ok()) {
    if (!absl::IsResourceExhausted(reply.status)) Lose(question);
    return;
  }
  if (reply.outcome == Outcome::kNotFound) {
    const bool wrong = question.by_key ? StillOwns(question) : MustExist(messages_.at(id));
    if (wrong) Violate(absl::StrCat(question.place.second, ": cancel finds nothing (P1)"));
    return;
  }
  Message& message = MessageOf(reply.id, question.place);
  const std::string name = reply.id.ToString();
  switch (reply.outcome) {
    case Outcome::kDone:
      ++counts_["cancelled"];
      if (message.deliveries > 0) Violate(name + ": CANCELLED although it was delivered (P3)");
      if (message.cancelled) Violate(name + ": CANCELLED twice");
      if (Acked(message)) Violate(name + ": CANCELLED after its ack");
      message.cancelled = true;
      return;
    case Outcome::kInFlight:
      if (message.cancelled) Violate(name + ": IN_FLIGHT after CANCELLED");
      if (Acked(message) && ByUse(message)) Violate(name + ": IN_FLIGHT after its ack");
      // A created subscription may have given the message up.
      if (message.deliveries == 0 && !reply.delivery_uncertain && ByUse(message)) {
        Violate(name + ": IN_FLIGHT, certainly, although it was not delivered");
      }
      if (reply.delivery_uncertain && message.id.epoch() == epoch_) {
        Violate(name + ": uncertain although it was accepted by this run");
      }
      message.stopped |= reply.redelivery_stopped;
      return;
    case Outcome::kAlreadyCancelled:
      if (message.confirmed && !MayBeCancelled(message)) {
        Violate(name + ": ALREADY_CANCELLED although no call cancelled it");
      }
      return;
    case Outcome::kSettled:
      if (!ByUse(message)) return;
      if (reply.state != MessageState::kAcked) Violate(name + ": SETTLED, not by an ack");
      if (Unacked(message) && !message.maybe_ended) Violate(name + ": SETTLED without an ack");
      return;
    case Outcome::kNotFound:
      return;
  }
}

void Contract::OnReschedule(const Question& question, const MessageId& id, uint64_t deliver_ms,
                            const protocol::RescheduleReply& reply) {
  Close(question);
  if (!reply.status.ok()) {
    if (absl::IsUnavailable(reply.status)) Lose(question);
    return;
  }
  if (reply.outcome == Outcome::kNotFound) {
    const bool wrong = question.by_key ? StillOwns(question) : MustExist(messages_.at(id));
    if (wrong) Violate(absl::StrCat(question.place.second, ": reschedule finds nothing (P1)"));
    return;
  }
  Message& message = MessageOf(reply.id, question.place);
  const std::string name = reply.id.ToString();
  if (reply.outcome == Outcome::kDone) {
    storage::MessageRecord record;
    if (!storage::DecodeMessageHead(reply.head, &record).ok()) {
      return Violate(name + ": a head that cannot be read");
    }
    ++counts_["moved"];
    if (message.cancelled || message.stopped || message.deliveries > 0) {
      Violate(name + ": moved after its end, or its delivery");
    }
    if (record.header.deliver_ms != deliver_ms) Violate(name + ": moved to another time");
    uint64_t number = 0;
    if (const auto it = message.versions.find(record.revision - 1);
        record.revision > 0 && reply.old_deliver_ms != deliver_ms && it != message.versions.end()) {
      number = it->second.number;
    }
    Confirm(&message, record.revision, {.number = number, .deliver_ms = deliver_ms});
  } else if (reply.outcome == Outcome::kInFlight) {
    if (message.deliveries == 0 && message.id.epoch() == epoch_ && ByUse(message)) {
      Violate(name + ": IN_FLIGHT although it was never delivered");
    }
  } else if (MustExist(message)) {
    Violate(name + ": reschedule finds ended what must be pending (P1)");
  }
}

void Contract::OnGet(const Question& question, const MessageId& id,
                     const protocol::GetReply& reply) {
  Close(question);
  if (!reply.status.ok()) {
    if (!absl::IsNotFound(reply.status)) return;
    const bool wrong = question.by_key ? StillOwns(question) : MustExist(messages_.at(id));
    if (wrong) Violate(absl::StrCat(question.place.second, ": Get finds nothing (P1)"));
    return;
  }
  Message& message = MessageOf(reply.id, question.place);
  const std::string name = reply.id.ToString();
  if (reply.tombstone.has_value()) {
    if (MustExist(message)) Violate(name + ": Get finds ended what must be pending (P1)");
    return;
  }
  if (message.cancelled || message.stopped || (Acked(message) && ByUse(message))) {
    Violate(name + ": Get finds pending what has ended");
  }
  storage::MessageRecord record;
  uint64_t number = 0;
  if (!storage::DecodeMessageRecord(reply.record, &record).ok() || record.payload.empty() ||
      !absl::SimpleAtoi(record.payload.substr(1), &number)) {
    return Violate(name + ": a record that cannot be read");
  }
  if (message.occurrence) return;
  if (record.revision < message.highest) Violate(name + ": Get finds what was replaced");
  CheckVersion(message, record.revision,
               {.number = number, .deliver_ms = record.header.deliver_ms});
  if (HasKey(message.place) && record.key != message.place.second) Violate(name + ": another key");
}

}  // namespace duetime::simulation
