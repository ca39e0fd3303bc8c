// SPDX-License-Identifier: Apache-2.0
#include "tests/support/history_judge.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace duetime::test {
namespace {

constexpr int64_t kNanosPerMilli = 1'000'000;

bool Earlier(const Event* a, const Event* b) {
  return std::tie(a->run, a->attempt) < std::tie(b->run, b->attempt);
}

}  // namespace

void Violations::Add(uint32_t message, const char* rule, std::string text) {
  ++judgement_.broken;
  if (judgement_.violations.size() >= kept_max_) return;
  judgement_.violations.push_back({message, rule, std::move(text)});
}

void ClockOffsets::Add(const Event& event) {
  if (event.what == What::kStart) {
    if (spans_.size() > 1) spans_.push_back({event.at_ns, {offset_ms_, offset_ms_}});
    least_ms_ = offset_ms_;
    return;
  }
  least_ms_ = std::min(least_ms_, event.time_ms);
  const int64_t least_ms = event.time_ms > least_ms_ ? least_ms_ - kHeldLagMs : least_ms_;
  const bool begun = event.outcome == Outcome::kBegun;
  const int64_t most_ms = begun ? std::max(offset_ms_, event.time_ms) : event.time_ms;
  spans_.push_back({event.at_ns, {least_ms, most_ms}});
  if (!begun) offset_ms_ = event.time_ms;
}

ClockOffsets::Range ClockOffsets::Between(int64_t from_ns, int64_t to_ns) const {
  auto span =
      std::upper_bound(spans_.begin(), spans_.end(), from_ns,
                       [](int64_t time_ns, const Span& other) { return time_ns < other.from_ns; }) -
      1;
  Range range = span->range;
  for (++span; span != spans_.end() && span->from_ns <= to_ns; ++span) {
    range.least_ms = std::min(range.least_ms, span->range.least_ms);
    range.most_ms = std::max(range.most_ms, span->range.most_ms);
  }
  return range;
}

void MessageJudge::Judge(uint32_t message, std::span<const Event* const> events) {
  message_ = message;
  Sort(events);
  Count();
  CheckSchedule();
  CheckCancels();
  for (int i = 0; i < expected_.subscriptions; ++i) CheckSubscription(i);
  CheckTombstones();
  CheckGets();
  CheckLost();
}

void MessageJudge::Sort(std::span<const Event* const> events) {
  schedules_.clear();
  reschedules_.clear();
  cancels_.clear();
  gets_.clear();
  settlements_.clear();
  deliveries_.clear();
  for (const Event* event : events) {
    std::vector<Call>* calls = nullptr;
    switch (event->what) {
      case What::kSchedule:
        calls = &schedules_;
        break;
      case What::kReschedule:
        calls = &reschedules_;
        break;
      case What::kCancel:
        calls = &cancels_;
        break;
      case What::kGet:
        calls = &gets_;
        break;
      case What::kAck:
      case What::kNack:
      case What::kRelease:
      case What::kDeadLetter:
        calls = &settlements_;
        break;
      case What::kDelivery:
        deliveries_.push_back(event);
        continue;
      default:
        continue;
    }
    if (event->outcome == Outcome::kBegun) {
      calls->push_back({event});
    } else {
      End(*event, calls);
    }
  }
}

void MessageJudge::End(const Event& event, std::vector<Call>* calls) const {
  for (auto call = calls->rbegin(); call != calls->rend(); ++call) {
    if (call->ended != nullptr || call->begun->what != event.what ||
        call->begun->client != event.client) {
      continue;
    }
    const bool settlement = calls == &settlements_;
    if (settlement && call->begun->token != event.token) continue;
    call->ended = &event;
    return;
  }
}

void MessageJudge::Count() const {
  const auto any = [](const std::vector<Call>& calls, auto condition) {
    return std::any_of(calls.begin(), calls.end(), condition) ? 1 : 0;
  };
  const auto ok = [](const Call& call) { return call.Is(Outcome::kOk); };
  const auto open = [](const Call& call) { return call.open(); };
  if (any(schedules_, ok) != 0) {
    ++counts_.scheduled;
  } else if (any(schedules_, open) != 0) {
    ++counts_.schedule_unknown;
    counts_.unknown_delivered += deliveries_.empty() ? 0 : 1;
  } else {
    counts_.schedule_refused += schedules_.empty() ? 0 : 1;
  }
  for (const std::vector<Call>* calls : {&schedules_, &reschedules_, &cancels_, &settlements_}) {
    counts_.unanswered += std::count_if(calls->begin(), calls->end(), [](const Call& call) {
      return call.open() && call.begun->what <= What::kAck;
    });
  }
  for (const Call& call : reschedules_) {
    ++(ok(call)      ? counts_.rescheduled
       : call.open() ? counts_.reschedule_unknown
                     : counts_.reschedule_other);
  }
  for (const Call& cancel : cancels_) {
    counts_.cancel_unknown += cancel.open() ? 1 : 0;
    counts_.cancelled += cancel.Is(Outcome::kCancelled) ? 1 : 0;
    counts_.cancel_in_flight += cancel.Is(Outcome::kInFlight) ? 1 : 0;
    counts_.cancel_already += cancel.Is(Outcome::kAlreadyCancelled) ? 1 : 0;
    counts_.cancel_settled += cancel.Is(Outcome::kSettled) ? 1 : 0;
    counts_.cancel_not_found += cancel.Is(Outcome::kNotFound) ? 1 : 0;
  }
  for (const Call& get : gets_) {
    counts_.gets += get.Told() ? 1 : 0;
    counts_.gets_pending += ok(get) ? 1 : 0;
  }
  uint32_t first_run = 0;
  uint32_t last_run = 0;
  for (const Call& call : settlements_) {
    if (call.begun->what != What::kAck) {
      counts_.other_settlements_confirmed += ok(call) ? 1 : 0;
      continue;
    }
    ++(ok(call)      ? counts_.acks_confirmed
       : call.open() ? counts_.acks_unknown
                     : counts_.acks_refused);
    const Event* const acked = ok(call) ? DeliveryOf(call) : nullptr;
    if (acked == nullptr) continue;
    first_run = first_run == 0 ? acked->run : std::min(first_run, acked->run);
    last_run = std::max(last_run, acked->run);
  }
  counts_.acked_in_several_runs += first_run != last_run ? 1 : 0;
  counts_.deliveries += static_cast<int64_t>(deliveries_.size());
}

const Event* MessageJudge::DeliveryOf(const Call& settlement) const {
  for (const Event* delivery : deliveries_) {
    if (delivery->token == settlement.begun->token) return delivery;
  }
  return nullptr;
}

void MessageJudge::CheckSchedule() {
  id_ = 0;
  accepted_ = false;
  bool open = false;
  for (const Call& schedule : schedules_) {
    open = open || schedule.open();
    if (!schedule.Is(Outcome::kOk)) continue;
    accepted_ = true;
    if (schedule.ended->time_ms < Floor(schedule)) {
      Report("EARLY", "the deliver_time is before what was asked for");
    }
    if (id_ != 0 && id_ != schedule.ended->id) Report("ID", "two ids for one message");
    id_ = schedule.ended->id;
  }
  for (const Call& call : reschedules_) {
    if (!call.Is(Outcome::kOk)) continue;
    if (call.ended->time_ms < Floor(call)) {
      Report("EARLY", "the new deliver_time is before what was asked for");
    }
    for (const Event* delivery : deliveries_) {
      if (delivery->at_ns < call.begun->at_ns) Report("MOVED_DELIVERED");
    }
  }
  if (deliveries_.empty()) return;
  if (!accepted_ && !open) {
    Report("REFUSED_DELIVERED", schedules_.empty() ? "no client scheduled it" : "");
  }
  accepted_ = accepted_ || open;
  if (id_ == 0) id_ = deliveries_.front()->id;
  for (const Event* delivery : deliveries_) {
    if (delivery->id != id_) Report("ID", "two ids for one message");
    CheckTimes(*delivery);
  }
}

int64_t MessageJudge::Floor(const Call& setter) const {
  if (setter.begun->Has(kAbsoluteTime)) return setter.begun->time_ms;
  const int64_t begun_ns = setter.begun->at_ns;
  const int64_t offset_ms = facts_.clock.Between(begun_ns, setter.over_ns()).least_ms;
  // The daemon rounds up, unless there is no delay.
  const int64_t partial_ns = setter.begun->time_ms > 0 ? kNanosPerMilli - 1 : 0;
  return (begun_ns + partial_ns) / kNanosPerMilli + setter.begun->time_ms + offset_ms;
}

bool MessageJudge::Superseded(const Call& setter, int64_t before_ns) const {
  return std::any_of(reschedules_.begin(), reschedules_.end(), [&](const Call& call) {
    return call.Is(Outcome::kOk) && call.begun->at_ns > setter.over_ns() &&
           call.begun->at_ns < before_ns;
  });
}

bool MessageJudge::Replaced(const Call& setter, int64_t before_ns) const {
  return std::any_of(reschedules_.begin(), reschedules_.end(), [&](const Call& call) {
    return call.Is(Outcome::kOk) && call.begun->at_ns > setter.over_ns() &&
           call.over_ns() < before_ns && call.ended->time_ms != setter.ended->time_ms;
  });
}

void MessageJudge::CheckTimes(const Event& delivery) const {
  const int64_t offset_ms =
      facts_.clock
          .Between(delivery.at_ns - expected_.lease_to_receipt_ms * kNanosPerMilli, delivery.at_ns)
          .most_ms;
  const int64_t early_ns = (delivery.time_ms - offset_ms) * kNanosPerMilli - delivery.at_ns;
  if (early_ns > 0) Report("EARLY", std::to_string(early_ns / 1'000) + " us");
  bool before_request = false;
  for (const std::vector<Call>* calls : {&schedules_, &reschedules_}) {
    for (const Call& setter : *calls) {
      if (Superseded(setter, delivery.at_ns)) continue;
      if (setter.Is(Outcome::kOk) && delivery.time_ms == setter.ended->time_ms) return;
      if (!setter.open()) continue;
      if (delivery.time_ms >= Floor(setter)) return;
      before_request = true;
    }
  }
  if (before_request) {
    Report("EARLY", "before what was asked for");
  } else if (accepted_) {
    Report("TIME", std::to_string(delivery.time_ms) + " ms was not to be expected");
  }
}

bool MessageJudge::CancelledBeforeDrain() const {
  return std::any_of(cancels_.begin(), cancels_.end(), [this](const Call& cancel) {
    return cancel.Is(Outcome::kCancelled) && cancel.begun->at_ns < facts_.drained_ns;
  });
}

void MessageJudge::CheckCancels() const {
  int cancelled = 0;
  for (const Call& cancel : cancels_) {
    cancelled += cancel.Is(Outcome::kCancelled) ? 1 : 0;
    if (!cancel.Told() || !cancel.ended->Has(kRedeliveryStopped)) continue;
    for (const Event* delivery : deliveries_) {
      // Within one run, the client may receive the delivery and the answer to the cancel in either
      // order.
      if (delivery->run > cancel.ended->run) Report("STOPPED_DELIVERED", "in a later run");
    }
  }
  if (cancelled > 1) Report("CANCELLED_TWICE");
  if (cancelled > 0 && !deliveries_.empty()) {
    Report("CANCELLED_DELIVERED", std::to_string(deliveries_.size()) + " times");
  }
}

void MessageJudge::CheckSubscription(int subscription) {
  ordered_.clear();
  for (const Event* delivery : deliveries_) {
    if (delivery->subscription == subscription) ordered_.push_back(delivery);
  }
  // Frames of earlier leases may be read late.
  std::stable_sort(ordered_.begin(), ordered_.end(), Earlier);
  for (size_t i = 0; i < ordered_.size(); ++i) {
    const Event& delivery = *ordered_[i];
    if (delivery.attempt < 1) Report("ATTEMPT", "below 1");
    // With no reschedule, a message has one deliver_time, also if no client was told it.
    if (delivery.time_ms != ordered_[0]->time_ms && reschedules_.empty() &&
        (schedules_.empty() || schedules_[0].open())) {
      Report("TIME", "two deliver_times of one message");
    }
    if (i > 0 && !Earlier(ordered_[i - 1], &delivery)) {
      Report("ATTEMPT", "number " + std::to_string(delivery.attempt) + " twice in a run");
    }
    if (Earlier(ordered_[0], &delivery) && !delivery.Has(kMaybeRedelivered)) {
      Report("ATTEMPT", "a repeat that does not say so");
    }
    counts_.redelivered_by_later_run += delivery.run > ordered_[0]->run ? 1 : 0;
    CheckAfterAck(delivery);
  }
  CheckAcks(subscription);
}

bool MessageJudge::Undone(const Call& settlement, int64_t before_ns, int64_t happened_ns) const {
  const int64_t done_ns = std::min(settlement.over_ns(), happened_ns);
  // A client may read an answer from before the cut after it.
  return std::any_of(facts_.power_cuts_ns.begin(), facts_.power_cuts_ns.end(), [&](int64_t cut_ns) {
    return settlement.begun->at_ns <= cut_ns && cut_ns < before_ns &&
           done_ns > cut_ns - expected_.power_cut_ms * kNanosPerMilli;
  });
}

bool MessageJudge::Disproved(const Call& settlement, int64_t before_ns) const {
  const Event* const settled = DeliveryOf(settlement);
  if (settled == nullptr) return false;
  return std::any_of(deliveries_.begin(), deliveries_.end(), [&](const Event* later) {
    return later->subscription == settled->subscription && later->at_ns < before_ns &&
           Earlier(settled, later) && (settlement.open() || Undone(settlement, later->at_ns));
  });
}

void MessageJudge::CheckAcks(int subscription) const {
  const Call* before = nullptr;
  for (const Call& settlement : settlements_) {
    if (settlement.begun->subscription != subscription || !Confirmed(settlement)) continue;
    if (before != nullptr && !Undone(*before, settlement.over_ns())) return Report("ACKED_TWICE");
    before = &settlement;
  }
}

void MessageJudge::CheckAfterAck(const Event& delivery) const {
  for (const Call& settlement : settlements_) {
    if (!Confirmed(settlement) || settlement.begun->subscription != delivery.subscription) continue;
    const Event* const acked = DeliveryOf(settlement);
    // Compares runs and attempts, because a client may read a frame of an earlier lease late.
    if (acked == nullptr || !Earlier(acked, &delivery)) continue;
    const bool undone = Undone(settlement, delivery.at_ns) && delivery.run > acked->run;
    if (undone && delivery.Has(kMaybeRedelivered)) continue;
    Report("ACKED_DELIVERED", "run " + std::to_string(delivery.run) + " after an ack in run " +
                                  std::to_string(acked->run));
    return;
  }
}

bool MessageJudge::SettlementsBegan(const Call& asked) const {
  for (int i = 0; i < expected_.subscriptions; ++i) {
    if (std::none_of(settlements_.begin(), settlements_.end(), [&](const Call& call) {
          return call.begun->subscription == i && call.begun->at_ns < asked.over_ns() &&
                 Ends(call) && !Disproved(call, asked.begun->at_ns);
        })) {
      return false;
    }
  }
  return true;
}

bool MessageJudge::SettlementsConfirmed(const Call& asked) const {
  for (int i = 0; i < expected_.subscriptions; ++i) {
    if (std::none_of(settlements_.begin(), settlements_.end(), [&](const Call& call) {
          return call.begun->subscription == i && call.over_ns() < asked.begun->at_ns &&
                 Confirmed(call) && !Undone(call, asked.over_ns());
        })) {
      return false;
    }
  }
  return true;
}

bool MessageJudge::CancelBegan(const Call& but, int64_t before_ns) const {
  return std::any_of(cancels_.begin(), cancels_.end(), [&](const Call& other) {
    if (other.begun == but.begun || other.begun->at_ns > before_ns) return false;
    return other.open() || CancelEnds(other);
  });
}

bool MessageJudge::CancelConfirmed(int64_t before_ns) const {
  return std::any_of(cancels_.begin(), cancels_.end(), [&](const Call& other) {
    return CancelEnds(other) && other.over_ns() < before_ns;
  });
}

void MessageJudge::CheckTombstones() const {
  int64_t end_ms = 0;
  for (const std::vector<Call>* calls : {&cancels_, &reschedules_, &gets_}) {
    for (const Call& call : *calls) {
      if (call.Told()) CheckTold(call, &end_ms);
    }
  }
}

void MessageJudge::CheckGets() const {
  for (const Call& get : gets_) {
    if (!get.Is(Outcome::kOk)) continue;
    const int64_t time_ms = get.ended->time_ms;
    bool possible = false;
    for (const std::vector<Call>* calls : {&schedules_, &reschedules_}) {
      possible = possible || std::any_of(calls->begin(), calls->end(), [&](const Call& setter) {
                   if (setter.begun->at_ns > get.over_ns()) return false;
                   if (setter.open()) return time_ms >= Floor(setter);
                   return setter.Is(Outcome::kOk) && time_ms == setter.ended->time_ms &&
                          !Replaced(setter, get.begun->at_ns);
                 });
    }
    if (!possible) Report("STALE_TIME", std::to_string(time_ms) + " ms");
  }
}

void MessageJudge::CheckTold(const Call& call, int64_t* end_ms) const {
  const int64_t begun_ns = call.begun->at_ns;
  if (call.Is(Outcome::kNotFound)) {
    if (std::any_of(schedules_.begin(), schedules_.end(), [&](const Call& schedule) {
          return schedule.Is(Outcome::kOk) && schedule.over_ns() < begun_ns;
        })) {
      Report("NOT_FOUND", "its tombstone is kept for longer than this");
    }
    return;
  }
  if (call.Is(Outcome::kSettled) && !SettlementsBegan(call)) {
    Report("UNTRUE_END", "settled, and not every subscription had begun to settle it");
  }
  if (call.Is(Outcome::kAlreadyCancelled) && !CancelBegan(call, call.over_ns())) {
    Report("UNTRUE_END", "already cancelled, and no cancel had begun");
  }
  if (!call.Is(Outcome::kSettled) && SettlementsConfirmed(call)) {
    Report("FORGOTTEN_END", "its settlement had been confirmed");
  }
  if (!call.Is(Outcome::kAlreadyCancelled) && CancelConfirmed(begun_ns)) {
    Report("FORGOTTEN_END", "a cancel had been confirmed");
  }
  if (!FoundEnded(call)) return;
  // A power cut can undo the settlement that the answer saw, or that an earlier answer saw.
  const auto undone = [&](int64_t before_ns) {
    return call.Is(Outcome::kSettled) &&
           std::any_of(settlements_.begin(), settlements_.end(), [&](const Call& other) {
             return Ends(other) && Undone(other, before_ns, call.over_ns());
           });
  };
  if (call.begun->what == What::kCancel) {
    const bool another = *end_ms != 0 && call.ended->time_ms != *end_ms;
    if (call.ended->time_ms <= 0 || (another && !undone(call.over_ns()))) {
      Report("END_TIME", std::to_string(call.ended->time_ms) + " after " + std::to_string(*end_ms));
    }
    *end_ms = call.ended->time_ms;
  }
  for (const Event* delivery : deliveries_) {
    if (delivery->run <= call.ended->run) continue;
    if (undone(delivery->at_ns) && delivery->Has(kMaybeRedelivered)) continue;
    Report("ENDED_DELIVERED", "in a later run");
  }
}

bool MessageJudge::DueAfterDrain() const {
  const int64_t drained_ms = facts_.drained_ns / kNanosPerMilli +
                             facts_.clock.Between(facts_.drained_ns, facts_.drained_ns).least_ms;
  for (const std::vector<Call>* calls : {&schedules_, &reschedules_}) {
    for (const Call& setter : *calls) {
      if (setter.begun->at_ns > facts_.drained_ns) return true;
      if (Superseded(setter, std::numeric_limits<int64_t>::max())) continue;
      if (setter.Is(Outcome::kOk) && setter.ended->time_ms > drained_ms) return true;
      if (setter.open() && !deliveries_.empty()) continue;
      if (setter.open() && Floor(setter) > drained_ms) return true;
    }
  }
  return false;
}

void MessageJudge::CheckLost() const {
  if (!expected_.drained || !accepted_ || CancelledBeforeDrain() || DueAfterDrain()) return;
  const bool stopped = std::any_of(cancels_.begin(), cancels_.end(), [&](const Call& cancel) {
    if (cancel.Told()) return cancel.ended->Has(kRedeliveryStopped);
    // A plain cancel ends only messages that were never delivered.
    return cancel.open() && (cancel.begun->Has(kStopRedelivery) || deliveries_.empty());
  });
  if (stopped) return;
  // Such an answer proves that every settlement happened. ENDED_DELIVERED judges what follows it.
  const auto settled = [](const Call& call) { return call.Is(Outcome::kSettled); };
  const bool told = std::any_of(cancels_.begin(), cancels_.end(), settled) ||
                    std::any_of(reschedules_.begin(), reschedules_.end(), settled);
  constexpr int64_t kEver = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < expected_.subscriptions; ++i) {
    const auto mine = [&](const Call& call) {
      return call.begun->subscription == i && Ends(call) && (told || !Disproved(call, kEver));
    };
    if (std::any_of(settlements_.begin(), settlements_.end(), mine)) continue;
    Report("LOST", "subscription " + std::to_string(i) + " got it " +
                       std::to_string(std::count_if(
                           deliveries_.begin(), deliveries_.end(),
                           [i](const Event* event) { return event->subscription == i; })) +
                       " times and did not settle it");
  }
}

}  // namespace duetime::test
