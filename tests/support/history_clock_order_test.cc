// SPDX-License-Identifier: Apache-2.0
//
// What the checker says of clocks that are set, and of ordering keys.
#include <gtest/gtest.h>

#include "tests/support/history_story.h"

namespace duetime::test {
namespace {

TEST(HistoryClockTest, TheDaemonsClockDecides) {
  const auto step = [](Story& s, int64_t offset_ms) -> Story& {
    return s.Fault(What::kClockStep, Outcome::kBegun, offset_ms)
        .Fault(What::kClockStep, Outcome::kOk, offset_ms);
  };
  const auto early = [](Story& s) {
    (s.Deliver(1, 1, 1).Last().at_ns -= 5 * kNanosPerMilli), s.Ack(1);
  };
  const Expected expected = {.lease_to_receipt_ms = 10};
  Try(
      {
          {"ahead", [&](Story& s) { early(step(s.Accept(), 5)); }, {}},
          {"not so far ahead", [&](Story& s) { early(step(s.Accept(), 4)); }, {"EARLY"}},
          {"set right again, but the lease was before that",
           [&](Story& s) { early(step(step(s.Accept(), 5).At(1'042), 0)); },
           {}},
          {"set right long before",
           [&](Story& s) { early(step(step(s.Accept(), 5), 0)); },
           {"EARLY"}},
          {"a step that never ended",
           [&](Story& s) { early(s.Accept().Fault(What::kClockStep, Outcome::kBegun, 5)); },
           {}},
          {"behind, so the answer is earlier",
           [&](Story& s) {
             (step(s.At(990), -5).Accept().Last().time_ms -= 3);
             s.Cancel(Outcome::kCancelled);
           },
           {}},
          {"ahead, and the daemon goes on in whole milliseconds",
           [&](Story& s) {
             step(s.At(990), 5).At(1'000).Accept().Last().time_ms -= 1;
             s.Cancel(Outcome::kCancelled);
           },
           {}},
          {"ahead, but the answer is earlier than that",
           [&](Story& s) {
             step(step(s.At(980), 4), 5).At(1'000).Accept().Last().time_ms -= 2;
             s.Cancel(Outcome::kCancelled);
           },
           {"EARLY"}},
          {"after a start it is no longer behind",
           [&](Story& s) {
             step(step(s.At(980), -5), 0).Start(2).At(1'000).Accept().Last().time_ms -= 3;
             s.Cancel(Outcome::kCancelled);
           },
           {"EARLY"}},
      },
      expected);
}

TEST(HistoryOrderTest, AnOrderingKeyKeepsItsOrder) {
  // Two messages of one key, or of two: both due at 1,050 ms, 0 accepted before 1.
  const auto two = [](Story& s, uint64_t key, uint64_t other) -> Story& {
    s.At(990).Start(1).At(1'000).Accept(0, key);
    s.Accept(1, other).Last().time_ms = 1'052;
    return s;
  };
  const auto deliver = [](Story& s, uint32_t message, uint64_t token, uint32_t run) -> Story& {
    s.At(std::max<int64_t>(s.Last().at_ns / kNanosPerMilli + 1, 1'060));
    s.Deliver(run, 1, token, false, message).Last().time_ms = message == 0 ? 1'050 : 1'052;
    return s;
  };
  Try({
      {"in order",
       [&](Story& s) {
         deliver(two(s, 5, 5), 0, 1, 1).Ack(1);
         deliver(s, 1, 2, 1).Ack(2, Outcome::kOk, 1);
       },
       {}},
      {"both at once",
       [&](Story& s) {
         deliver(deliver(two(s, 5, 5), 0, 1, 1), 1, 2, 1).Ack(1).Ack(2, Outcome::kOk, 1);
       },
       {"ORDER"}},
      {"the wrong way round",
       [&](Story& s) {
         deliver(two(s, 5, 5), 1, 2, 1).Ack(2, Outcome::kOk, 1);
         deliver(s, 0, 1, 1).Ack(1);
       },
       {"ORDER"}},
      {"two keys",
       [&](Story& s) {
         deliver(deliver(two(s, 5, 6), 1, 2, 1), 0, 1, 1).Ack(1).Ack(2, Outcome::kOk, 1);
       },
       {}},
      {"a nack holds the key",
       [&](Story& s) {
         deliver(two(s, 5, 5), 0, 1, 1).Call({.token = 1, .what = What::kNack}, Outcome::kOk);
         deliver(s, 1, 2, 1).Ack(2, Outcome::kOk, 1).Ack(1);
       },
       {"ORDER"}},
      {"a crash forgets",
       [&](Story& s) {
         deliver(two(s, 5, 5), 0, 1, 1).Start(2);
         deliver(s, 1, 2, 2).Ack(2, Outcome::kOk, 1).Ack(1);
       },
       {}},
      {"a late frame of a settled message",
       [&](Story& s) {
         deliver(two(s, 5, 5), 0, 1, 1).Last().attempt = 2;
         s.Last().flags = kMaybeRedelivered;
         deliver(s.Ack(1), 1, 2, 1);
         deliver(s, 0, 3, 1).Ack(2, Outcome::kOk, 1);
       },
       {}},
      {"a cancel makes the first one vanish",
       [&](Story& s) {
         deliver(two(s, 5, 5).Cancel(Outcome::kCancelled), 1, 2, 1).Ack(2, Outcome::kOk, 1);
       },
       {}},
  });
}

// Message 0 is due at 1,150 ms by a clock that is 100 ms ahead, and delivered. Message 1 is
// accepted after the clock was set right.
TEST(HistoryOrderTest, AfterAStepBackTheTimesDecideAgain) {
  const auto step = [](Story& s, int64_t offset_ms) {
    s.Fault(What::kClockStep, Outcome::kBegun, offset_ms)
        .Fault(What::kClockStep, Outcome::kOk, offset_ms);
  };
  const auto tell = [&](Story& s, int64_t second_due_ms) {
    s.At(990).Start(1);
    step(s, 100);
    s.At(1'000).Accept(0, 5).Last().time_ms = 1'151;
    s.At(1'060).Deliver(1, 1, 1).Last().time_ms = 1'151;
    step(s, 0);
    s.At(1'070).Accept(1, 5).Last().time_ms = second_due_ms;
    s.At(1'160).Deliver(1, 1, 2, false, 1).Last().time_ms = second_due_ms;
    s.Ack(2, Outcome::kOk, 1).Deliver(1, 2, 3, true).Last().time_ms = 1'151;
    s.Ack(3);
  };
  Try({{"due earlier", [&](Story& s) { tell(s, 1'150); }, {}},
       {"due later", [&](Story& s) { tell(s, 1'152); }, {"ORDER"}}});
}

}  // namespace
}  // namespace duetime::test
