// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/change_model.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace duetime::simulation {

using delivery::LeaseToken;
using delivery::MessageState;
using delivery::Outcome;
using delivery::ScheduleOutcome;
using scheduler::OnConflict;
using storage::MessageId;
using storage::TopicId;

ChangeModel::Place ChangeModel::PlaceOf(const Ask& ask) {
  return {ask.topic, ask.key.empty() ? absl::StrCat("#", ask.number) : ask.key};
}

std::string ChangeModel::PayloadOf(uint64_t number) { return absl::StrCat("c", number); }

ChangeModel::Key& ChangeModel::KeyOf(const Place& place) {
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

ChangeModel::Item& ChangeModel::ItemOf(const MessageId& id, const Place& place) {
  const auto [it, added] = items_.try_emplace(id);
  Item& item = it->second;
  if (added) {
    item.id = id;
    item.place = place;
    order_.push_back(id);
    KeyOf(place).ids.insert(id);
  } else if (item.place != place) {
    Violate(
        absl::StrCat(id.ToString(), " of ", item.place.second, " is said to be of ", place.second));
  }
  return item;
}

bool ChangeModel::MustExist(const Item& item) {
  const Key& key = KeyOf(item.place);
  return item.confirmed && !item.cancelled && !item.stopped && !item.acked && !item.ack_sent &&
         !item.maybe_ended && key.cancels_open == 0 && !key.bulk_ends;
}

// ---- Calls
// ------------------------------------------------------------------------------------------------------

ChangeModel::Question ChangeModel::Open(const Place& place, bool by_key) {
  const Key& key = KeyOf(place);
  Question question;
  question.place = place;
  question.by_key = by_key;
  if (!key.ids.empty()) {
    // The latest has the key; ids of one shard grow.
    const Item& latest = items_.at(*key.ids.rbegin());
    const bool known = latest.id.epoch() == epoch_ || !key.maybe_created;
    if (known && latest.deliveries == 0 && MustExist(latest)) question.owner = latest.id;
  }
  return question;
}

// True if the message that had the key when the call was sent has it still, and nobody was given
// it.
bool ChangeModel::StillOwns(const Question& question) {
  if (question.owner == MessageId{}) return false;
  const Item& item = items_.at(question.owner);
  return item.deliveries == 0 && MustExist(item);
}

ChangeModel::Question ChangeModel::AskSchedule(Ask* ask) {
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

ChangeModel::Question ChangeModel::AskCancel(const Place& place, bool by_key) {
  Question question = Open(place, by_key);
  question.cancels = true;
  ++KeyOf(place).cancels_open;
  return question;
}

ChangeModel::Question ChangeModel::AskReschedule(const Place& place, bool by_key,
                                                 uint64_t deliver_ms) {
  Question question = Open(place, by_key);
  question.changes = true;
  Key& key = KeyOf(place);
  ++key.changes_open;
  key.times.insert(deliver_ms);
  return question;
}

ChangeModel::Question ChangeModel::AskGet(const Place& place, bool by_key) {
  return Open(place, by_key);
}

void ChangeModel::Close(const Question& question) {
  Key& key = KeyOf(question.place);
  if (question.changes) --key.changes_open;
  if (question.cancels) --key.cancels_open;
}

void ChangeModel::Lose(const Question& question) {
  Key& key = KeyOf(question.place);
  if (question.changes) key.unsure = true;
  if (question.schedules) key.maybe_created = true;
  if (question.cancels) {
    for (const MessageId& id : key.ids) items_.at(id).maybe_ended = true;
  }
}

void ChangeModel::OnBulk(TopicId topic, const std::string& prefix, bool ends) {
  bulk_prefixes_[topic].insert(prefix);
  if (ends) bulk_end_prefixes_[topic].insert(prefix);
  for (auto& [place, key] : keys_) {
    if (place.first != topic || !absl::StartsWith(place.second, prefix)) continue;
    key.unsure = key.any_time = true;
    key.bulk_ends |= ends;
  }
}

void ChangeModel::OnCrash(bool power, const std::vector<Question>& open) {
  for (const Question& question : open) {
    Lose(question);
    Close(question);
  }
  for (auto& [id, item] : items_) {
    if (item.ack_sent) item.maybe_ended = true;
    item.ack_sent = false;
    if (item.acked && power) item.ack_may_be_lost = true;
  }
  leases_.clear();
}

// ---- Answers
// ----------------------------------------------------------------------------------------------------

void ChangeModel::Confirm(Item* item, uint64_t revision, Version version) {
  item->confirmed = true;
  item->highest = std::max(item->highest, revision);
  CheckVersion(*item, revision, version);
  Version& known = item->versions[revision];
  if (known.number == 0) known.number = version.number;
  known.deliver_ms = version.deliver_ms;
  if (item->deliveries > 0 && item->delivered_revision < revision) {
    Violate(absl::StrCat(item->id.ToString(), ": revision ", revision,
                         " although another was delivered"));
  }
}

void ChangeModel::CheckVersion(const Item& item, uint64_t revision, const Version& seen) {
  const auto it = item.versions.find(revision);
  if (it == item.versions.end()) return;
  const Version& known = it->second;
  const bool other_content = known.number != 0 && seen.number != 0 && known.number != seen.number;
  if (other_content || known.deliver_ms != seen.deliver_ms) {
    Violate(absl::StrCat(item.id.ToString(), ": revision ", revision, " is content ", seen.number,
                         " for ", seen.deliver_ms, " and was content ", known.number, " for ",
                         known.deliver_ms));
  }
}

void ChangeModel::OnSchedule(const Question& question, const Ask& ask,
                             const delivery::AcceptedMessage& answer, const absl::Status& status) {
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
  const bool fresh = !items_.contains(answer.id);
  Item& item = ItemOf(answer.id, question.place);
  if (ask.repeats) {
    // Between the first time and now it may have ended by calls that are forgotten; and nobody
    // tells which change was made, and when.
    item.unsure = true;
    if (fresh) item.maybe_ended = true;
  } else if (answer.outcome == ScheduleOutcome::kCreated) {
    OnCreated(question, ask, answer);
  } else if (answer.outcome == ScheduleOutcome::kReplaced) {
    OnReplaced(ask, answer);
  }
  Close(question);
}

void ChangeModel::OnCreated(const Question& question, const Ask& ask,
                            const delivery::AcceptedMessage& answer) {
  Item& item = items_.at(answer.id);
  const std::string name = answer.id.ToString();
  if (ask.only_if_exists) Violate(name + ": CREATED although only_if_exists");
  if (answer.deliver_ms != ask.deliver_ms) Violate(name + ": another time than was asked for");
  if (!ask.key.empty() && StillOwns(question) && question.owner != answer.id) {
    if (!answer.previous_id.has_value()) {
      Violate(absl::StrCat(name, ": CREATED although ", question.owner.ToString(), " had the key"));
    } else if (question.owner.epoch() == epoch_) {
      Violate(absl::StrCat(name, ": took the key from ", question.owner.ToString(),
                           ", which nobody was given"));
    }
  }
  if (answer.previous_id.has_value()) ItemOf(*answer.previous_id, question.place);
  Confirm(&item, 0, {.number = ask.number, .deliver_ms = answer.deliver_ms});
}

void ChangeModel::OnReplaced(const Ask& ask, const delivery::AcceptedMessage& answer) {
  Item& item = items_.at(answer.id);
  const std::string name = answer.id.ToString();
  ++replaced_;
  if (ask.on_conflict == OnConflict::kFail) Violate(name + ": REPLACED although FAIL");
  const uint64_t time_ms = answer.deliver_ms;
  const bool right = ask.on_conflict == OnConflict::kReplace    ? time_ms == ask.deliver_ms
                     : ask.on_conflict == OnConflict::kKeepTime ? time_ms == answer.old_deliver_ms
                                                                : time_ms >= answer.old_deliver_ms;
  if (!right) Violate(name + ": REPLACED with a wrong time");
  Confirm(&item, answer.revision, {.number = ask.number, .deliver_ms = time_ms});
  const auto before = item.versions.find(answer.revision - 1);
  if (before != item.versions.end() && before->second.deliver_ms != answer.old_deliver_ms) {
    Violate(name + ": REPLACED over another time than it had");
  }
}

void ChangeModel::OnCancel(const Question& question, const MessageId& id,
                           const delivery::CancelReply& reply) {
  Close(question);
  if (!reply.status.ok()) {
    if (!absl::IsResourceExhausted(reply.status)) Lose(question);
    return;
  }
  if (reply.outcome == Outcome::kNotFound) {
    const bool wrong = question.by_key ? StillOwns(question) : MustExist(items_.at(id));
    if (wrong) Violate(absl::StrCat(question.place.second, ": cancel finds nothing (P1)"));
    return;
  }
  Item& item = ItemOf(reply.id, question.place);
  const Key& key = KeyOf(item.place);
  const std::string name = reply.id.ToString();
  const bool may_have_ended = item.maybe_ended || key.bulk_ends || key.cancels_open > 0;
  switch (reply.outcome) {
    case Outcome::kDone:
      if (item.deliveries > 0) Violate(name + ": CANCELLED although it was delivered (P3)");
      if (item.cancelled) Violate(name + ": CANCELLED twice");
      item.cancelled = true;
      return;
    case Outcome::kInFlight:
      if (item.cancelled) Violate(name + ": IN_FLIGHT after CANCELLED");
      if (item.acked && !item.ack_may_be_lost) Violate(name + ": IN_FLIGHT after its ack");
      if (item.deliveries == 0 && !reply.delivery_uncertain) {
        Violate(name + ": IN_FLIGHT, certainly, although it was not delivered");
      }
      if (reply.delivery_uncertain && item.id.epoch() == epoch_) {
        Violate(name + ": uncertain although it was accepted by this run");
      }
      item.stopped |= reply.redelivery_stopped;
      return;
    case Outcome::kAlreadyCancelled:
      if (item.confirmed && !item.cancelled && !item.stopped && !may_have_ended) {
        Violate(name + ": ALREADY_CANCELLED although nobody cancelled it");
      }
      return;
    case Outcome::kSettled:
      if (reply.state != MessageState::kAcked) Violate(name + ": SETTLED, not by an ack");
      if (!item.acked && !item.ack_sent && !item.maybe_ended) {
        Violate(name + ": SETTLED although nobody acked it");
      }
      return;
    case Outcome::kNotFound:
      return;
  }
}

void ChangeModel::OnReschedule(const Question& question, const MessageId& id, uint64_t deliver_ms,
                               const delivery::RescheduleReply& reply) {
  Close(question);
  if (!reply.status.ok()) {
    if (absl::IsUnavailable(reply.status)) Lose(question);
    return;
  }
  if (reply.outcome == Outcome::kNotFound) {
    const bool wrong = question.by_key ? StillOwns(question) : MustExist(items_.at(id));
    if (wrong) Violate(absl::StrCat(question.place.second, ": reschedule finds nothing (P1)"));
    return;
  }
  Item& item = ItemOf(reply.id, question.place);
  const std::string name = reply.id.ToString();
  if (reply.outcome == Outcome::kDone) {
    storage::MessageRecord record;
    if (!storage::DecodeMessageHead(reply.head, &record).ok()) {
      return Violate(name + ": a head that cannot be read");
    }
    ++moved_;
    if (item.cancelled || item.stopped || item.acked) Violate(name + ": moved after its end");
    if (record.header.deliver_ms != deliver_ms) Violate(name + ": moved to another time");
    uint64_t number = 0;
    if (const auto it = item.versions.find(record.revision - 1);
        record.revision > 0 && reply.old_deliver_ms != deliver_ms && it != item.versions.end()) {
      number = it->second.number;
    }
    Confirm(&item, record.revision, {.number = number, .deliver_ms = deliver_ms});
  } else if (reply.outcome == Outcome::kInFlight) {
    if (item.deliveries == 0 && item.id.epoch() == epoch_) {
      Violate(name + ": IN_FLIGHT although nobody was given it");
    }
  } else if (MustExist(item)) {
    Violate(name + ": reschedule finds ended what must be pending (P1)");
  }
}

void ChangeModel::OnGet(const Question& question, const MessageId& id,
                        const delivery::GetReply& reply) {
  Close(question);
  if (!reply.status.ok()) {
    if (!absl::IsNotFound(reply.status)) return;
    const bool wrong = question.by_key ? StillOwns(question) : MustExist(items_.at(id));
    if (wrong) Violate(absl::StrCat(question.place.second, ": Get finds nothing (P1)"));
    return;
  }
  Item& item = ItemOf(reply.id, question.place);
  const std::string name = reply.id.ToString();
  if (reply.fate.has_value()) {
    if (MustExist(item)) Violate(name + ": Get finds ended what must be pending (P1)");
    return;
  }
  if (item.cancelled || item.stopped || (item.acked && !item.ack_may_be_lost)) {
    Violate(name + ": Get finds pending what has ended");
  }
  storage::MessageRecord record;
  uint64_t number = 0;
  if (!storage::DecodeMessageRecord(reply.record, &record).ok() || record.payload.empty() ||
      !absl::SimpleAtoi(record.payload.substr(1), &number)) {
    return Violate(name + ": a record that cannot be read");
  }
  if (item.occurrence) return;
  if (record.revision < item.highest) Violate(name + ": Get finds what was replaced");
  CheckVersion(item, record.revision, {.number = number, .deliver_ms = record.header.deliver_ms});
  if (HasKey(item.place) && record.key != item.place.second) Violate(name + ": another key");
}

// ---- Deliveries
// -------------------------------------------------------------------------------------------------

void ChangeModel::OnOccurrence(const MessageId& id, const storage::MessageRecord& record) {
  ++occurrences_;
  const auto [it, added] =
      recurrences_[absl::StrCat(record.recurrence, " ", record.payload)].emplace(record.occurrence,
                                                                                 id);
  if (it->second != id) {
    Violate(
        absl::StrCat("occurrence ", record.occurrence, " of ", record.payload, " was made twice"));
  }
}

void ChangeModel::OnDelivery(base::Now now, const delivery::Delivery& delivery,
                             const storage::MessageRecord& record, TopicId topic) {
  const std::string name = absl::StrCat(delivery.id.ToString(), " (", record.payload, ")");
  uint64_t number = 0;
  if (!absl::SimpleAtoi(record.payload.substr(1), &number)) return Violate(name + ": what is it");
  const bool occurrence = !record.recurrence.empty();
  Place place(topic, std::string(record.key));
  if (occurrence) {
    place.second = absl::StrCat("#o", number);
  } else if (record.key.empty()) {
    place.second = absl::StrCat("#", number);
  }
  Item& item = ItemOf(delivery.id, place);
  item.occurrence = occurrence;
  if (record.header.topic != topic) Violate(name + ": delivered to another topic");
  if (now.wall_ms < record.header.deliver_ms) Violate(name + ": delivered early (P2)");
  if (item.cancelled) Violate(name + ": delivered after CANCELLED (P3)");
  if (item.stopped) Violate(name + ": delivered after redelivery_stopped");
  if (item.acked && !item.ack_may_be_lost) Violate(name + ": delivered after its ack");
  if (item.deliveries > 0 && !delivery.maybe_redelivered) {
    Violate(name + ": a repeat that does not say so (P9)");
  }
  if (item.deliveries > 0 && item.delivered_revision != record.revision) {
    Violate(name + ": changed after it was delivered");
  }
  if (item.deliveries > 0 && item.delivered_epoch == epoch_ &&
      delivery.attempt != item.last_attempt + 1) {
    Violate(absl::StrCat(name, ": attempt ", delivery.attempt, " after ", item.last_attempt));
  }
  if (record.revision < item.highest) Violate(name + ": delivered what was replaced");
  if (occurrence) {
    OnOccurrence(delivery.id, record);
  } else {
    const Key& key = KeyOf(place);
    CheckVersion(item, record.revision, {.number = number, .deliver_ms = record.header.deliver_ms});
    if (!key.numbers.contains(number) || possible_[number] <= 0) {
      Violate(name + ": a content that was refused, or of another key");
    }
    if (!key.any_time && !key.times.contains(record.header.deliver_ms)) {
      Violate(name + ": a time that nobody asked for");
    }
    if (!item.versions.contains(record.revision) && !item.unsure && !key.unsure &&
        key.changes_open == 0) {
      Violate(name + ": a change that nobody asked for");
    }
  }
  item.versions[record.revision] = {.number = number, .deliver_ms = record.header.deliver_ms};
  item.ack_sent = false;
  ++item.deliveries;
  item.delivered_revision = record.revision;
  item.delivered_epoch = epoch_;
  item.last_attempt = delivery.attempt;
  leases_[delivery.token] = delivery.id;
}

void ChangeModel::OnAckSent(LeaseToken token) {
  if (const auto it = leases_.find(token); it != leases_.end()) {
    items_.at(it->second).ack_sent = true;
  }
}

void ChangeModel::OnAcked(LeaseToken token) {
  Item& item = items_.at(leases_.at(token));
  if (item.cancelled) Violate(item.id.ToString() + ": acked after CANCELLED");
  item.acked = true;
  item.ack_sent = item.ack_may_be_lost = false;
}

void ChangeModel::CheckDrained() {
  for (const auto& [id, item] : items_) {
    if (!MustExist(item)) continue;
    Violate(absl::StrCat(id.ToString(), " of ", item.place.second, " (", item.deliveries,
                         " deliveries) was accepted and never ended: lost (P1)"));
  }
  for (const auto& [payload, numbers] : recurrences_) {
    // Those of the other pass some over.
    if (absl::StartsWith(payload, kWholeRecurrence) && numbers.rbegin()->first != numbers.size()) {
      Violate(absl::StrCat("occurrences of ", payload, " are missing"));
    }
  }
}

}  // namespace duetime::simulation
