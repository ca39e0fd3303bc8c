// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/model.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace duetime::simulation {

using delivery::Delivery;
using delivery::LeaseToken;
using delivery::MessageState;
using delivery::Outcome;

void Model::Violate(const std::string& what) {
  if (violation_.empty()) violation_ = what;
}

Model::Message& Model::Add(storage::TopicId topic, uint64_t deliver_ms) {
  Message& message = messages_[next_number_];
  message.number = next_number_++;
  message.topic = topic;
  message.deliver_ms = deliver_ms;
  message.accepted_run = run_;
  return message;
}

Model::Message* Model::FindByLease(LeaseToken token) {
  const auto it = by_lease_.find(token);
  if (it == by_lease_.end()) return nullptr;
  Message& message = messages_.at(it->second);
  return message.lease == token ? &message : nullptr;
}

void Model::OnScheduled(Message& message, const storage::MessageId& id, uint64_t wall_ms) {
  message.accepted = Known::kYes;
  message.accepted_wall_ms = wall_ms;
  if (message.id.has_value() && *message.id != id) Violate("a message has two ids");
  if (by_id_.contains(id) && by_id_[id] != message.number) Violate("an id was given twice");
  message.id = id;
  by_id_[id] = message.number;
}

void Model::OnScheduleUnknown(Message& message) {
  if (message.accepted == Known::kPending) message.accepted = Known::kUnknown;
}

void Model::OnDelivery(uint64_t number, const Delivery& delivery, storage::TopicId topic,
                       delivery::StreamId stream, uint16_t shard, base::Now now,
                       uint64_t lease_ms) {
  const auto it = messages_.find(number);
  if (it == messages_.end()) return Violate("delivered what nobody scheduled");
  Message& m = it->second;
  const std::string name = absl::StrCat("message ", number, " id ", delivery.id.ToString());
  if (m.topic != topic) Violate(name + ": delivered to another topic");
  if (now.wall_ms < m.deliver_ms) Violate(name + ": delivered early (P2)");
  if (m.cancelled) Violate(name + ": delivered after CANCELLED (P3)");
  if (m.stopped) Violate(name + ": delivered after redelivery_stopped");
  if (m.acked && !m.ack_may_be_lost) Violate(name + ": delivered after a confirmed ack");
  if (m.id.has_value() && *m.id != delivery.id) Violate(name + ": the id changed (P9)");
  m.id = delivery.id;
  by_id_[delivery.id] = number;
  if (m.deliveries > 0 && !delivery.maybe_redelivered) {
    Violate(name + ": a repeat that does not say so (P9)");
  }
  if (delivery.attempt == 0) Violate(name + ": attempt 0");
  if (m.last_run == run_ && delivery.attempt != m.last_attempt + 1) {
    Violate(absl::StrCat(name, ": attempt ", delivery.attempt, " after ", m.last_attempt));
  }
  if (m.lease.has_value() && now.mono_ms < m.lease_end_mono_ms) {
    Violate(name + ": two leases at once");
  }
  if (by_lease_.contains(delivery.token)) Violate(name + ": a lease token was used twice");
  if (m.deliveries == 0 && !delivery.maybe_redelivered) CheckOrder(m, delivery, shard);
  ++m.deliveries;
  m.last_run = run_;
  m.last_attempt = delivery.attempt;
  m.lease = delivery.token;
  m.lease_stream = stream;
  m.lease_end_mono_ms = now.mono_ms + lease_ms;
  m.ack_sent = false;
  by_lease_[delivery.token] = number;
}

void Model::CheckOrder(const Message& m, const Delivery& delivery, uint16_t shard) {
  // P8 holds for messages that were accepted, in this run, before they were due.
  if (m.accepted != Known::kYes || m.accepted_run != run_ || m.accepted_wall_ms >= m.deliver_ms) {
    return;
  }
  const storage::MessageKey key{.due_ms = delivery.id.due_ms(), .id = delivery.id};
  storage::MessageKey& last = last_first_[{shard, m.topic}];
  if (key < last) {
    Violate(absl::StrCat("message ", m.number, ": first deliveries out of order (P8): due ",
                         key.due_ms, " after ", last.due_ms, ", deliver_ms ", m.deliver_ms));
  }
  last = std::max(last, key);
}

void Model::EndLease(Message& message) {
  message.lease.reset();
  message.ack_sent = false;
}

void Model::OnSettled(LeaseToken token, bool ack) {
  const auto it = by_lease_.find(token);
  if (it == by_lease_.end()) return Violate("settled a token that was never given");
  if (!ack) return;
  Message& m = messages_.at(it->second);
  if (m.lease != token) {
    return Violate(absl::StrCat("message ", m.number, ": a stale lease was settled"));
  }
  if (m.cancelled) Violate("acked after CANCELLED");
  m.acked = true;
  m.ack_may_be_lost = false;
  EndLease(m);
}

void Model::OnRefused(LeaseToken token, base::Now now) {
  const auto it = by_lease_.find(token);
  if (it == by_lease_.end()) return;
  const Message& m = messages_.at(it->second);
  const bool live = m.lease == token && now.mono_ms < m.lease_end_mono_ms;
  if (live && !m.maybe_ended && !m.stopped && m.cancels_sent == 0 && !m.ack_sent) {
    Violate(absl::StrCat("message ", m.number, ": a live lease was refused"));
  }
}

bool Model::MustExist(const Message& m) {
  return m.accepted == Known::kYes && !m.cancelled && !m.stopped && !m.acked && !m.maybe_ended &&
         !m.ack_sent && m.cancels_sent == 0;
}

void Model::OnCancel(Message& m, const delivery::CancelReply& reply) {
  const std::string name = absl::StrCat("message ", m.number);
  --m.cancels_sent;
  if (!reply.status.ok()) {
    m.maybe_ended = true;
    return;
  }
  switch (reply.outcome) {
    case Outcome::kDone:
      if (m.deliveries > 0) Violate(name + ": CANCELLED although it was delivered (P3)");
      if (m.cancelled) Violate(name + ": CANCELLED twice");
      if (m.acked) Violate(name + ": CANCELLED although acked");
      m.cancelled = true;
      return;
    case Outcome::kInFlight:
      if (m.cancelled) Violate(name + ": IN_FLIGHT after CANCELLED");
      if (m.acked && !m.ack_may_be_lost) Violate(name + ": IN_FLIGHT after a confirmed ack");
      if (m.deliveries == 0 && !reply.delivery_uncertain) {
        Violate(name + ": IN_FLIGHT, certainly, although it was not delivered");
      }
      if (reply.delivery_uncertain && m.accepted_run == run_) {
        Violate(name + ": uncertain although it was accepted by this run");
      }
      if (reply.redelivery_stopped) {
        m.stopped = true;
        EndLease(m);
      }
      return;
    case Outcome::kAlreadyCancelled:
      if (m.accepted == Known::kYes && !m.cancelled && !m.stopped && !m.maybe_ended &&
          m.cancels_sent == 0) {
        Violate(name + ": ALREADY_CANCELLED although nobody cancelled it");
      }
      return;
    case Outcome::kSettled:
      if (reply.state != MessageState::kAcked) Violate(name + ": SETTLED, not by an ack");
      if (!m.acked && !m.ack_sent && !m.maybe_ended) {
        Violate(name + ": SETTLED although nobody acked it");
      }
      return;
    case Outcome::kNotFound:
      if (MustExist(m)) Violate(name + ": NOT_FOUND although it must exist (P1)");
      return;
  }
}

void Model::OnGet(Message& m, const delivery::GetReply& reply) {
  if (reply.status.ok()) {
    const bool ended = reply.fate.has_value();
    if (!ended && (m.cancelled || m.stopped || (m.acked && !m.ack_may_be_lost))) {
      Violate(absl::StrCat("message ", m.number, ": Get finds pending what has ended"));
    }
    if (ended && MustExist(m)) {
      Violate(absl::StrCat("message ", m.number, ": Get finds ended what must be pending (P1)"));
    }
  } else if (MustExist(m)) {
    Violate(absl::StrCat("message ", m.number, ": Get does not find what must exist (P1)"));
  }
}

void Model::OnCrash(bool power) {
  ++run_;
  last_first_.clear();
  for (auto& [number, m] : messages_) {
    OnScheduleUnknown(m);
    if (m.ack_sent || m.cancels_sent > 0) m.maybe_ended = true;
    m.cancels_sent = 0;
    if (m.acked && power) m.ack_may_be_lost = true;
    EndLease(m);
  }
}

void Model::CheckDrained() {
  for (const auto& [number, m] : messages_) {
    if (m.accepted != Known::kYes || m.cancelled || m.stopped || m.acked || m.maybe_ended) continue;
    Violate(absl::StrCat("message ", number, " (", m.deliveries,
                         " deliveries) was accepted and never ended: lost (P1)"));
  }
}

}  // namespace duetime::simulation
