// SPDX-License-Identifier: Apache-2.0
//
// The linearizability check can fail. Each kind of violation has a history that shows it, and
// similar histories without it.
#include "tests/crash/linear_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace duetime::linear {
namespace {

using Result = Verdict::Result;

// One time far after every moment below, and one long past.
constexpr int64_t kLaterMs = 1'000'000;
constexpr int64_t kPastMs = 0;

// Operations that follow each other, unless a test moves them.
class History {
 public:
  History() : runs_(1) {}

  Operation& Add(Kind kind, Answer answer, const std::string& id = "") {
    Operation operation;
    operation.kind = kind;
    operation.answer = answer;
    operation.id = id;
    operation.begun_us = now_us_ += 10;
    operation.over_us = answer == Answer::kUnknown ? kNever : now_us_ += 10;
    runs_.back().operations.push_back(operation);
    return runs_.back().operations.back();
  }

  Operation& Schedule(OnConflict mode, int64_t content, int64_t deliver_ms, Answer answer,
                      const std::string& id = "", const std::string& etag = "") {
    Operation& operation = Add(Kind::kSchedule, answer, id);
    operation.on_conflict = mode;
    operation.content = content;
    operation.deliver_ms = deliver_ms;
    operation.told_deliver_ms = deliver_ms;
    operation.seen = Seen::kWaiting;
    operation.etag = etag;
    if (answer == Answer::kUnknown) operation.seen = Seen::kNothing;
    return operation;
  }
  Operation& Create(const std::string& id, int64_t content, int64_t deliver_ms,
                    const std::string& previous = "") {
    Operation& operation =
        Schedule(OnConflict::kReplace, content, deliver_ms, Answer::kCreated, id, "0");
    operation.previous_id = previous;
    return operation;
  }
  Operation& Replace(const std::string& id, int64_t content, int64_t deliver_ms, int64_t old_ms,
                     const std::string& etag) {
    Operation& operation =
        Schedule(OnConflict::kReplace, content, deliver_ms, Answer::kReplaced, id, etag);
    operation.old_deliver_ms = old_ms;
    return operation;
  }
  Operation& Move(const std::string& id, int64_t deliver_ms, int64_t old_ms,
                  const std::string& etag) {
    Operation& operation = Add(Kind::kReschedule, Answer::kDone, id);
    operation.deliver_ms = operation.told_deliver_ms = deliver_ms;
    operation.old_deliver_ms = old_ms;
    operation.etag = etag;
    return operation;
  }
  Operation& Cancel(Answer answer, const std::string& id, Seen seen = Seen::kNothing) {
    Operation& operation = Add(Kind::kCancel, answer, id);
    operation.seen = seen;
    return operation;
  }
  Operation& Get(const std::string& id, int64_t content, int64_t deliver_ms,
                 Seen seen = Seen::kWaiting) {
    Operation& operation = Add(Kind::kGet, Answer::kFound, id);
    operation.content = content;
    operation.told_deliver_ms = deliver_ms;
    operation.seen = seen;
    return operation;
  }
  Operation& Deliver(const std::string& id, int64_t content, int64_t deliver_ms, uint64_t token,
                     int attempt = 1, bool maybe = false) {
    Operation& operation = Add(Kind::kDeliver, Answer::kFound, id);
    operation.content = content;
    operation.told_deliver_ms = deliver_ms;
    operation.token = token;
    operation.attempt = attempt;
    operation.maybe_redelivered = maybe;
    return operation;
  }
  Operation& Settle(Kind kind, uint64_t token, Answer answer = Answer::kConfirmed) {
    Operation& operation = Add(kind, answer);
    operation.token = token;
    return operation;
  }
  // Makes the last two operations overlap: both begin at the same moment.
  void Overlap() {
    std::vector<Operation>& operations = runs_.back().operations;
    operations.back().begun_us = operations[operations.size() - 2].begun_us;
  }
  // The operation of this number stays open until now.
  void Extend(size_t number) { runs_.back().operations[number].over_us = now_us_ += 10; }
  void Kill() {
    runs_.back().dead_us = now_us_ += 10;
    runs_.emplace_back();
  }

  Verdict Judge(size_t steps_max = 1'000'000) const {
    std::vector<Run> runs = runs_;
    runs.back().dead_us = now_us_ + 10;
    return Check(runs, steps_max);
  }
  Result Outcome() const { return Judge().result; }

 private:
  std::vector<Run> runs_;
  int64_t now_us_ = 0;
};

#define EXPECT_GOOD(history)                                          \
  do {                                                                \
    const Verdict verdict = (history).Judge();                        \
    EXPECT_EQ(verdict.result, Result::kLinearizable) << verdict.text; \
  } while (false)
#define EXPECT_BAD(history) EXPECT_EQ((history).Outcome(), Result::kNotLinearizable)

History& End(History& history, const std::string& id) {
  history.Cancel(Answer::kDone, id);
  return history;
}

TEST(LinearTest, NothingHappened) {
  History history;
  EXPECT_GOOD(history);
  history.Add(Kind::kGet, Answer::kNotFound);
  history.Cancel(Answer::kNotFound, "");
  EXPECT_GOOD(history);
  history.Get("a", 1, kLaterMs);
  EXPECT_BAD(history);
}

TEST(LinearTest, ALifeWithoutADelivery) {
  History history;
  history.Create("a", 1, kLaterMs);
  history.Replace("a", 2, kLaterMs + 5, kLaterMs, "1");
  history.Move("a", kLaterMs, kLaterMs + 5, "2").if_etag = "1";
  history.Get("a", 2, kLaterMs).etag = "2";
  history.Schedule(OnConflict::kFail, 2, kLaterMs, Answer::kUnchanged, "a", "2");
  history.Schedule(OnConflict::kFail, 3, kLaterMs, Answer::kMismatch, "a");
  history.Cancel(Answer::kDone, "a", Seen::kWaiting);
  history.Cancel(Answer::kAlreadyCancelled, "a", Seen::kCancelled);
  history.Schedule(OnConflict::kReplace, 4, kLaterMs, Answer::kNothingToReplace).only_if_exists =
      true;
  history.Create("b", 4, kLaterMs, "a");
  EXPECT_GOOD(End(history, "b"));
}

TEST(LinearTest, AnEndedMessageDoesNotKeepItsKey) {
  History ended;
  ended.Create("a", 1, kLaterMs);
  ended.Cancel(Answer::kDone, "a", Seen::kWaiting);
  History same = ended;
  Operation& again = same.Schedule(OnConflict::kFail, 1, kLaterMs, Answer::kUnchanged, "a", "0");
  again.seen = Seen::kCancelled;
  EXPECT_BAD(same);
  History other = ended;
  Operation& mismatch = other.Schedule(OnConflict::kFail, 2, kLaterMs, Answer::kMismatch, "a");
  mismatch.seen = Seen::kNothing;
  EXPECT_BAD(other);
  History once = ended;
  once.Schedule(OnConflict::kOnce, 1, kLaterMs, Answer::kUnchanged, "a", "0").seen =
      Seen::kCancelled;
  once.Schedule(OnConflict::kOnce, 2, kLaterMs, Answer::kMismatch, "a").seen = Seen::kNothing;
  EXPECT_GOOD(once);
  once = ended;
  once.Schedule(OnConflict::kOnce, 1, kLaterMs, Answer::kCreated, "b", "0").previous_id = "a";
  EXPECT_BAD(once);
  ended.Schedule(OnConflict::kFail, 1, kLaterMs, Answer::kCreated, "b", "0").previous_id = "a";
  EXPECT_GOOD(End(ended, "b"));
}

TEST(LinearTest, ALifeWithDeliveries) {
  History history;
  history.Create("a", 1, kPastMs);
  history.Deliver("a", 1, kPastMs, 7);
  history.Cancel(Answer::kInFlight, "a", Seen::kInFlight);
  history.Settle(Kind::kNack, 7);
  history.Settle(Kind::kNack, 7, Answer::kLeaseLost);
  history.Create("b", 2, kPastMs, "a");
  history.Deliver("a", 1, kPastMs, 8, 2, true);
  history.Settle(Kind::kAck, 8);
  Operation& cancel = history.Cancel(Answer::kSettled, "a", Seen::kAcked);
  cancel.target_id = "a";
  history.Deliver("b", 2, kPastMs, 9);
  Operation& stop = history.Cancel(Answer::kInFlight, "b");
  stop.stop_redelivery = stop.redelivery_stopped = true;
  history.Settle(Kind::kAck, 9, Answer::kLeaseLost);
  EXPECT_GOOD(history);
}

TEST(LinearTest, WhatOverlapsMayTakeEffectInEitherOrder) {
  History history;
  history.Create("a", 1, kLaterMs);
  // The later operation took effect first.
  history.Replace("a", 3, kLaterMs + 3, kLaterMs + 2, "2");
  history.Replace("a", 2, kLaterMs + 2, kLaterMs, "1");
  History overlapping = history;
  overlapping.Overlap();
  EXPECT_GOOD(End(overlapping, "a"));
  EXPECT_BAD(End(history, "a"));
}

TEST(LinearTest, CancelledAndDelivered) {
  History history;
  history.Create("a", 1, kPastMs);
  history.Cancel(Answer::kDone, "a");
  History late = history;
  late.Deliver("a", 1, kPastMs, 7);
  EXPECT_BAD(late);
  late = history;
  late.Kill();
  late.Deliver("a", 1, kPastMs, 7, 1, true);
  EXPECT_BAD(late);
  // The same if the order is unknown.
  late = history;
  late.Deliver("a", 1, kPastMs, 7);
  late.Overlap();
  EXPECT_BAD(late);
}

TEST(LinearTest, TwoCreatedInsteadOfTheSame) {
  History history;
  history.Create("a", 1, kPastMs);
  history.Deliver("a", 1, kPastMs, 7);
  history.Settle(Kind::kAck, 7);
  history.Create("b", 2, kLaterMs, "a");
  History twice = history;
  twice.Create("c", 3, kLaterMs, "a");
  twice.Overlap();
  EXPECT_BAD(End(twice, "c"));
  history.Replace("b", 3, kLaterMs + 1, kLaterMs, "1");
  EXPECT_GOOD(End(history, "b"));
}

TEST(LinearTest, AnAnswerFromBeforeAnotherWasComplete) {
  History history;
  history.Create("a", 1, kLaterMs);
  history.Replace("a", 2, kLaterMs + 1, kLaterMs, "1");
  history.Get("a", 1, kLaterMs);
  History overlapping = history;
  overlapping.Overlap();
  EXPECT_GOOD(End(overlapping, "a"));
  EXPECT_BAD(End(history, "a"));
}

TEST(LinearTest, WhatIsOpenAllTheTimeExcusesNothing) {
  History history;
  history.Create("a", 1, kLaterMs);
  history.Get("a", 1, kLaterMs);
  history.Replace("a", 2, kLaterMs + 1, kLaterMs, "1");
  history.Get("a", 1, kLaterMs);
  End(history, "a");
  history.Extend(1);
  EXPECT_BAD(history);
}

TEST(LinearTest, WrongIds) {
  History history;
  history.Create("a", 1, kLaterMs);
  history.Cancel(Answer::kDone, "a");
  History again = history;
  again.Create("a", 2, kLaterMs, "a");
  EXPECT_BAD(End(again, "a"));
  History forgotten = history;
  forgotten.Create("b", 2, kLaterMs);
  EXPECT_BAD(End(forgotten, "b"));
  history.Create("b", 2, kLaterMs, "a");
  History twice = End(history, "b");
  twice.Create("c", 3, kLaterMs, "a");
  EXPECT_BAD(End(twice, "c"));
  history.Create("c", 3, kLaterMs, "b");
  EXPECT_GOOD(End(history, "c"));
}

TEST(LinearTest, ACallWithoutAnAnswerMayHaveHappenedOrNot) {
  History history;
  history.Create("a", 1, kLaterMs);
  history.Schedule(OnConflict::kReplace, 2, kLaterMs + 1, Answer::kUnknown);
  history.Cancel(Answer::kUnknown, "");
  History old = history;
  old.Get("a", 1, kLaterMs);
  old.Kill();
  History found = old;
  found.Get("a", 2, kLaterMs + 1);
  EXPECT_GOOD(End(found, "a"));
  found = old;
  found.Cancel(Answer::kAlreadyCancelled, "a", Seen::kCancelled);
  EXPECT_GOOD(found);
  found = old;
  found.Get("a", 1, kLaterMs);
  EXPECT_GOOD(End(found, "a"));
  // The kill ended the operation, so it cannot take effect later.
  found.Get("a", 2, kLaterMs + 1);
  EXPECT_BAD(found);
}

TEST(LinearTest, AMessageOfAnUnansweredCallGetsItsIdWhenItIsSeen) {
  History history;
  history.Schedule(OnConflict::kReplace, 1, kPastMs, Answer::kUnknown);
  history.Kill();
  History seen = history;
  seen.Get("a", 1, kPastMs);
  History stays = seen;
  stays.Get("b", 1, kPastMs);
  EXPECT_BAD(stays);
  seen.Deliver("a", 1, kPastMs, 7, 1, true);
  EXPECT_EQ(seen.Outcome(), Result::kLost);
  seen.Settle(Kind::kAck, 7);
  EXPECT_GOOD(seen);
  // The operation never took effect.
  EXPECT_GOOD(history);
}

TEST(LinearTest, Lost) {
  History history;
  history.Create("a", 1, kPastMs);
  EXPECT_EQ(history.Outcome(), Result::kLost);
  // The message was in flight when the daemon was killed, and is gone afterwards.
  history.Deliver("a", 1, kPastMs, 7);
  history.Kill();
  EXPECT_EQ(history.Outcome(), Result::kLost);
  history.Add(Kind::kGet, Answer::kNotFound);
  EXPECT_BAD(history);
}

TEST(LinearTest, WhatWasConfirmedIsForgotten) {
  History history;
  history.Create("a", 1, kPastMs);
  History moved = history;
  moved.Move("a", kLaterMs, kPastMs, "1");
  moved.Kill();
  History stays = moved;
  stays.Get("a", 1, kLaterMs);
  EXPECT_GOOD(End(stays, "a"));
  moved.Get("a", 1, kPastMs);
  EXPECT_BAD(moved);

  History acked = history;
  acked.Deliver("a", 1, kPastMs, 7);
  acked.Settle(Kind::kAck, 7);
  acked.Kill();
  EXPECT_GOOD(acked);
  acked.Deliver("a", 1, kPastMs, 8, 1, true);
  EXPECT_BAD(acked);

  History delivered = history;
  delivered.Deliver("a", 1, kPastMs, 7);
  delivered.Kill();
  delivered.Cancel(Answer::kDone, "a");
  EXPECT_BAD(delivered) << "delivered, and CANCELLED by a later run";
}

TEST(LinearTest, AnEndThatWasToldStays) {
  History history;
  history.Create("a", 1, kPastMs);
  history.Deliver("a", 1, kPastMs, 7);
  history.Settle(Kind::kAck, 7, Answer::kUnknown);
  History told = history;
  told.Cancel(Answer::kSettled, "a", Seen::kAcked);
  told.Kill();
  EXPECT_GOOD(told);
  told.Deliver("a", 1, kPastMs, 8, 1, true);
  EXPECT_BAD(told);
  history.Kill();
  history.Deliver("a", 1, kPastMs, 8, 1, true);
  history.Settle(Kind::kAck, 8);
  EXPECT_GOOD(history);
}

TEST(LinearTest, WrongDeliveries) {
  History history;
  history.Create("a", 1, kPastMs);
  const auto with = [&](auto change) {
    History changed = history;
    Operation& delivery = changed.Deliver("a", 1, kPastMs, 7);
    change(&delivery);
    changed.Settle(Kind::kAck, 7);
    return changed.Outcome();
  };
  EXPECT_EQ(with([](Operation*) {}), Result::kLinearizable);
  EXPECT_EQ(with([](Operation* d) { d->content = 2; }), Result::kNotLinearizable);
  EXPECT_EQ(with([](Operation* d) { d->id = "b"; }), Result::kNotLinearizable);
  EXPECT_EQ(with([](Operation* d) { d->told_deliver_ms = 1; }), Result::kNotLinearizable);
  EXPECT_EQ(with([](Operation* d) { d->attempt = 0; }), Result::kNotLinearizable);
  EXPECT_EQ(with([](Operation* d) { d->maybe_redelivered = true; }), Result::kNotLinearizable);

  History early;
  early.Create("a", 1, kLaterMs);
  early.Deliver("a", 1, kLaterMs, 7);
  early.Settle(Kind::kAck, 7);
  EXPECT_BAD(early);

  // A subscriber already has the message; and a repeat that claims to be the first delivery.
  history.Deliver("a", 1, kPastMs, 7);
  History twice = history;
  twice.Deliver("a", 1, kPastMs, 8, 2, true);
  twice.Settle(Kind::kAck, 8);
  EXPECT_BAD(twice);
  history.Settle(Kind::kNack, 7);
  History first = history;
  first.Deliver("a", 1, kPastMs, 8, 2, false);
  first.Settle(Kind::kAck, 8);
  EXPECT_BAD(first);
  history.Deliver("a", 1, kPastMs, 8, 2, true);
  history.Settle(Kind::kAck, 8);
  EXPECT_GOOD(history);
}

TEST(LinearTest, WhatWasDeliveredIsNotReplacedOrMoved) {
  History history;
  history.Create("a", 1, kPastMs);
  history.Deliver("a", 1, kPastMs, 7);
  History replaced = history;
  replaced.Replace("a", 2, kLaterMs, kPastMs, "1");
  EXPECT_BAD(replaced);
  History moved = history;
  moved.Move("a", kLaterMs, kPastMs, "1");
  EXPECT_BAD(moved);
  History cancelled = history;
  cancelled.Cancel(Answer::kDone, "a");
  EXPECT_BAD(cancelled);
}

TEST(LinearTest, InFlightNeedsADelivery) {
  // The daemon handed the message out and was killed before a client read it.
  History history;
  history.Create("a", 1, kPastMs);
  history.Cancel(Answer::kInFlight, "a", Seen::kInFlight);
  History again = history;
  again.Cancel(Answer::kDone, "a");
  EXPECT_BAD(again);
  history.Kill();
  history.Deliver("a", 1, kPastMs, 7, 1, true);
  history.Settle(Kind::kAck, 7);
  EXPECT_GOOD(history);

  History early;
  early.Create("a", 1, kLaterMs);
  early.Cancel(Answer::kInFlight, "a", Seen::kInFlight);
  EXPECT_BAD(early);

  // Only messages that an earlier run released can be "perhaps delivered".
  History uncertain;
  uncertain.Create("a", 1, kPastMs);
  History same_run = uncertain;
  same_run.Cancel(Answer::kInFlight, "a", Seen::kWaiting).uncertain = true;
  EXPECT_BAD(same_run);
  same_run = uncertain;
  same_run.Cancel(Answer::kInFlight, "a", Seen::kWaiting);
  EXPECT_BAD(same_run);
  History delivered = uncertain;
  delivered.Deliver("a", 1, kPastMs, 7);
  delivered.Cancel(Answer::kInFlight, "a").uncertain = true;
  EXPECT_BAD(delivered);
  uncertain.Kill();
  Operation& cancel = uncertain.Cancel(Answer::kInFlight, "a", Seen::kWaiting);
  cancel.uncertain = cancel.stop_redelivery = cancel.redelivery_stopped = true;
  EXPECT_GOOD(uncertain);
}

TEST(LinearTest, UntrueEnds) {
  History history;
  history.Create("a", 1, kPastMs);
  history.Deliver("a", 1, kPastMs, 7);
  History settled = history;
  settled.Cancel(Answer::kSettled, "a", Seen::kAcked);
  EXPECT_BAD(settled);
  History cancelled = history;
  cancelled.Cancel(Answer::kAlreadyCancelled, "a", Seen::kCancelled);
  EXPECT_BAD(cancelled);
  History stopped = history;
  stopped.Cancel(Answer::kInFlight, "a").redelivery_stopped = true;
  EXPECT_BAD(stopped);
  history.Settle(Kind::kAck, 8);
  EXPECT_BAD(history) << "an ack of a lease that nobody has";
}

TEST(LinearTest, Etags) {
  History history;
  history.Create("a", 1, kLaterMs);
  history.Move("a", kLaterMs + 1, kLaterMs, "1");
  History stale = history;
  stale.Move("a", kLaterMs + 2, kLaterMs + 1, "2").if_etag = "0";
  EXPECT_BAD(stale);
  History same = history;
  same.Move("a", kLaterMs + 2, kLaterMs + 1, "1");
  EXPECT_BAD(same) << "moved, and the etag stayed";
  History unmoved = history;
  unmoved.Move("a", kLaterMs + 1, kLaterMs + 1, "1");
  EXPECT_GOOD(End(unmoved, "a"));
  History refused = history;
  refused.Add(Kind::kReschedule, Answer::kEtagMismatch).if_etag = "1";
  EXPECT_BAD(refused);
  History rightly = history;
  rightly.Add(Kind::kReschedule, Answer::kEtagMismatch).if_etag = "0";
  EXPECT_GOOD(End(rightly, "a"));
}

TEST(LinearTest, KeepTimeAndPushBack) {
  const auto scheduled = [](OnConflict mode, int64_t wanted_ms, int64_t told_ms) {
    History history;
    history.Create("a", 1, kLaterMs);
    Operation& operation = history.Schedule(mode, 2, wanted_ms, Answer::kReplaced, "a", "1");
    operation.told_deliver_ms = told_ms;
    operation.old_deliver_ms = kLaterMs;
    return End(history, "a").Outcome();
  };
  EXPECT_EQ(scheduled(OnConflict::kKeepTime, kLaterMs + 5, kLaterMs), Result::kLinearizable);
  EXPECT_EQ(scheduled(OnConflict::kKeepTime, kLaterMs + 5, kLaterMs + 5), Result::kNotLinearizable);
  EXPECT_EQ(scheduled(OnConflict::kPushBack, kLaterMs + 5, kLaterMs + 5), Result::kLinearizable);
  EXPECT_EQ(scheduled(OnConflict::kPushBack, kLaterMs - 5, kLaterMs), Result::kLinearizable);
  EXPECT_EQ(scheduled(OnConflict::kPushBack, kLaterMs - 5, kLaterMs - 5), Result::kNotLinearizable);
  EXPECT_EQ(scheduled(OnConflict::kReplace, kLaterMs - 5, kLaterMs - 5), Result::kLinearizable);
}

TEST(LinearTest, UnchangedThoughItDiffers) {
  History history;
  history.Create("a", 1, kLaterMs);
  history.Schedule(OnConflict::kFail, 2, kLaterMs, Answer::kUnchanged, "a", "0");
  EXPECT_BAD(History(history));
}

TEST(LinearTest, TheSearchIsGivenUp) {
  History history;
  history.Create("a", 1, kLaterMs);
  for (int i = 2; i < 30; ++i) {
    history.Schedule(OnConflict::kReplace, i, kLaterMs + i, Answer::kUnknown);
  }
  history.Kill();
  history.Get("a", 99, kLaterMs);
  EXPECT_EQ(history.Judge(1'000).result, Result::kTooLarge);
}

TEST(LinearTest, TextTellsWhatCouldNotBeExplained) {
  History history;
  history.Create("a", 1, kLaterMs);
  history.Cancel(Answer::kInFlight, "a", Seen::kInFlight);
  EXPECT_THAT(history.Judge().text, testing::AllOf(testing::HasSubstr("run 1"),
                                                   testing::HasSubstr("cancel: in flight a")));
}

}  // namespace
}  // namespace duetime::linear
