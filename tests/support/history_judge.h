// SPDX-License-Identifier: Apache-2.0
//
// MessageJudge: the part of the history checker that judges one message.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tests/support/history.h"
#include "tests/support/history_checker.h"

namespace duetime::test {

// Collects violations for a Judgement.
class Violations {
 public:
  Violations(size_t kept_max, Judgement* judgement) : kept_max_(kept_max), judgement_(*judgement) {}

  void Add(uint32_t message, const char* rule, std::string text);

 private:
  const size_t kept_max_;
  Judgement& judgement_;
};

// The server's time less the true clock, in milliseconds, at any time of the history.
//
// Server time is never ahead of the machine's clock. It does not follow every step forward, so from
// a start of the daemon on it may lag as far as the clock was back since then. Held, it goes on by
// the steady clock. Both clocks are rounded down, so it may then lag by kHeldLagMs more.
class ClockOffsets {
 public:
  struct Range {
    int64_t least_ms = 0;
    int64_t most_ms = 0;
  };

  // Adds a clock step or a start of the daemon. REQUIRES: they come in order.
  void Add(const Event& event);
  // The offsets that were possible at any time from `from_ns` to `to_ns`. During a step both are.
  Range Between(int64_t from_ns, int64_t to_ns) const;

 private:
  static constexpr int64_t kHeldLagMs = 1;

  // Lasts until the next one begins.
  struct Span {
    int64_t from_ns = 0;
    Range range;
  };
  std::vector<Span> spans_ = {{std::numeric_limits<int64_t>::min(), {}}};
  // The offset of the machine's clock, and the least one since the last start.
  int64_t offset_ms_ = 0;
  int64_t least_ms_ = 0;
};

// What all messages have in common.
struct RunFacts {
  ClockOffsets clock;
  // When the power was cut.
  std::vector<int64_t> power_cuts_ns;
  // The last drain; INT64_MIN without one.
  int64_t drained_ns = std::numeric_limits<int64_t>::min();
};

// Judges the rules of history_checker.h except TOKEN, ORDER and two messages with one id. Reuses
// its memory from message to message.
class MessageJudge {
 public:
  MessageJudge(const Expected& expected, const RunFacts& facts, Violations* violations,
               Counts* counts)
      : expected_(expected), facts_(facts), violations_(*violations), counts_(*counts) {}

  // REQUIRES: `events` are all those of the message, by time.
  void Judge(uint32_t message, std::span<const Event* const> events);

  // The fingerprint of the message's id, or 0.
  uint64_t id() const { return id_; }

 private:
  struct Call {
    const Event* begun = nullptr;
    // Null without an answer.
    const Event* ended = nullptr;

    Outcome outcome() const { return ended == nullptr ? Outcome::kUnknown : ended->outcome; }
    // Whether the client does not know what happened.
    bool open() const { return outcome() == Outcome::kUnknown; }
    bool Is(Outcome outcome) const { return this->outcome() == outcome; }
    // When it was certainly over: never for an open call.
    int64_t over_ns() const { return open() ? std::numeric_limits<int64_t>::max() : ended->at_ns; }
    bool MayHaveHappened() const { return !Is(Outcome::kRefused); }
    // A call with an answer that tells the state of the message.
    bool Told() const { return ended != nullptr && ended->outcome >= Outcome::kOk; }
  };

  void Report(const char* rule, std::string text = "") const {
    violations_.Add(message_, rule, std::move(text));
  }
  void Sort(std::span<const Event* const> events);
  void End(const Event& event, std::vector<Call>* calls) const;
  void Count() const;

  void CheckSchedule();
  void CheckCancels() const;
  void CheckSubscription(int subscription);
  void CheckAcks(int subscription) const;
  void CheckAfterAck(const Event& delivery) const;
  void CheckTimes(const Event& delivery) const;
  void CheckTold(const Call& call, int64_t* end_ms) const;
  void CheckTombstones() const;
  void CheckGets() const;
  void CheckLost() const;

  // A call's lower bound of deliver_time, in milliseconds.
  int64_t Floor(const Call& setter) const;
  // Whether a reschedule that began before `before_ns` has replaced the setter's time.
  bool Superseded(const Call& setter, int64_t before_ns) const;
  // Whether a reschedule that was over before `before_ns` has replaced the time of the setter,
  // which succeeded.
  bool Replaced(const Call& setter, int64_t before_ns) const;
  bool DueAfterDrain() const;
  // A settlement that ends the message for its subscription, or may have.
  static bool Ends(const Call& settlement) {
    const What what = settlement.begun->what;
    return (what == What::kAck || what == What::kDeadLetter) && settlement.MayHaveHappened();
  }
  static bool Confirmed(const Call& settlement) {
    return Ends(settlement) && settlement.Is(Outcome::kOk);
  }
  // Whether a power cut before this moment may have undone a settlement that had happened by
  // `happened_ns`, if it did.
  bool Undone(const Call& settlement, int64_t before_ns,
              int64_t happened_ns = std::numeric_limits<int64_t>::max()) const;
  // Whether a later delivery before this moment shows that an open settlement did not happen, or
  // that a power cut undid it.
  bool Disproved(const Call& settlement, int64_t before_ns) const;
  static bool CancelEnds(const Call& cancel) {
    return cancel.Is(Outcome::kCancelled) ||
           (cancel.Is(Outcome::kInFlight) && cancel.ended->Has(kRedeliveryStopped));
  }
  static bool FoundEnded(const Call& call) {
    return call.Is(Outcome::kSettled) || call.Is(Outcome::kAlreadyCancelled);
  }
  // A cancel after the drain shows that the message was still pending.
  bool CancelledBeforeDrain() const;
  // Whether settlements that may have ended the message for all subscriptions began before the
  // answer to this call.
  bool SettlementsBegan(const Call& asked) const;
  // Whether settlements were confirmed before this call began, and lasted until its answer.
  bool SettlementsConfirmed(const Call& asked) const;
  // Whether another cancel that ended the message, or may have, began before this moment.
  bool CancelBegan(const Call& but, int64_t before_ns) const;
  bool CancelConfirmed(int64_t before_ns) const;
  const Event* DeliveryOf(const Call& settlement) const;

  const Expected& expected_;
  const RunFacts& facts_;
  Violations& violations_;
  Counts& counts_;

  uint32_t message_ = 0;
  uint64_t id_ = 0;
  bool accepted_ = false;
  std::vector<Call> schedules_;
  std::vector<Call> reschedules_;
  std::vector<Call> cancels_;
  std::vector<Call> gets_;
  std::vector<Call> settlements_;
  std::vector<const Event*> deliveries_;
  // The deliveries of one subscription, by run and attempt.
  std::vector<const Event*> ordered_;
};

}  // namespace duetime::test
