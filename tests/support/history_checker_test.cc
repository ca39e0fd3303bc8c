// SPDX-License-Identifier: Apache-2.0
//
// The checker can fail. Each rule has a history that breaks it, and similar ones that do not.
#include "tests/support/history_checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/history_story.h"

namespace duetime::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(HistoryCheckerTest, AMessageIsNotLost) {
  Try({
      {"acked", [](Story& s) { s.Accept().Deliver(1, 1, 1).Ack(1); }, {}},
      {"cancelled", [](Story& s) { s.Accept().Cancel(Outcome::kCancelled); }, {}},
      {"refused", [](Story& s) { s.Schedule(0, Outcome::kRefused); }, {}},
      {"unanswered", [](Story& s) { s.Schedule(0, Outcome::kUnknown); }, {}},
      {"call never over", [](Story& s) { s.Schedule(0, Outcome::kBegun); }, {}},
      {"never delivered", [](Story& s) { s.Accept(); }, {"LOST"}},
      {"not settled", [](Story& s) { s.Accept().Deliver(1, 1, 1); }, {"LOST"}},
      {"ack refused",
       [](Story& s) { s.Accept().Deliver(1, 1, 1).Ack(1, Outcome::kRefused); },
       {"LOST"}},
      {"ack unanswered",
       [](Story& s) { s.Accept().Deliver(1, 1, 1).Ack(1, Outcome::kUnknown); },
       {}},
      {"ack never over", [](Story& s) { s.Accept().Deliver(1, 1, 1).Ack(1, Outcome::kBegun); }, {}},
      {"ack unanswered, and delivered again",
       [](Story& s) {
         s.Accept().Deliver(1, 1, 1).Ack(1, Outcome::kUnknown).Deliver(2, 1, 2, true);
       },
       {"LOST"}},
      {"ack unanswered, and delivered again by the same run",
       [](Story& s) {
         s.Accept().Deliver(1, 1, 1).Ack(1, Outcome::kUnknown).Deliver(1, 2, 2, true);
       },
       {"LOST"}},
      {"ack unanswered, and a late frame of an earlier lease",
       [](Story& s) {
         s.Accept().Deliver(1, 2, 1, true).Ack(1, Outcome::kUnknown).Deliver(1, 1, 2);
       },
       {}},
      {"ack undone by a power cut, and delivered again",
       [](Story& s) {
         s.Accept().Deliver(1, 1, 1).Ack(1).Fault(What::kPowerCut).Deliver(2, 1, 2, true);
       },
       {"LOST"}},
      {"nack",
       [](Story& s) {
         s.Accept().Deliver(1, 1, 1).Call({.token = 1, .what = What::kNack}, Outcome::kOk);
       },
       {"LOST"}},
      {"dead letter",
       [](Story& s) {
         s.Accept().Deliver(1, 1, 1).Call({.token = 1, .what = What::kDeadLetter}, Outcome::kOk);
       },
       {}},
      {"cancel unanswered", [](Story& s) { s.Accept().Cancel(Outcome::kUnknown); }, {}},
      {"a plain cancel ends nothing delivered",
       [](Story& s) { s.Accept().Deliver(1, 1, 1).Cancel(Outcome::kUnknown); },
       {"LOST"}},
      {"stop unanswered",
       [](Story& s) { s.Accept().Deliver(1, 1, 1).Cancel(Outcome::kUnknown, kStopRedelivery); },
       {}},
      {"left alone",
       [](Story& s) { s.Accept().Deliver(1, 1, 1).Cancel(Outcome::kInFlight); },
       {"LOST"}},
      {"stopped",
       [](Story& s) { s.Accept().Deliver(1, 1, 1).Cancel(Outcome::kInFlight, kBoth); },
       {}},
      {"stop refused",
       [](Story& s) { s.Accept().Cancel(Outcome::kRefused, kStopRedelivery); },
       {"LOST"}},
      {"unanswered, but delivered",
       [](Story& s) { s.Schedule(0, Outcome::kUnknown).Deliver(1, 1, 1); },
       {"LOST"}},
      {"unanswered, delivered and acked",
       [](Story& s) { s.Schedule(0, Outcome::kUnknown).Deliver(1, 1, 1).Ack(1); },
       {}},
      {"unanswered, repeated and accepted",
       [](Story& s) { s.Schedule(0, Outcome::kUnknown).At(1'000).Accept(); },
       {"LOST"}},
      {"still pending after the drain",
       [](Story& s) { s.Accept().At(9'100).Cancel(Outcome::kCancelled); },
       {"LOST"}},
      {"due after the drain", [](Story& s) { s.At(8'990).Accept(); }, {}},
      {"moved behind the drain", [](Story& s) { s.Accept().Move(9'500, Outcome::kOk); }, {}},
      {"moved back before the drain",
       [](Story& s) { s.Accept().Move(9'500, Outcome::kOk).Move(2'000, Outcome::kOk); },
       {"LOST"}},
  });
  Story story;
  story.Accept();
  EXPECT_THAT(RulesOf(Check({story.events()}, {.drained = false})), IsEmpty());
}

TEST(HistoryCheckerTest, EverySubscriptionGetsAMessage) {
  const auto deliver = [](Story& s, uint8_t subscription, uint64_t token) -> Story& {
    s.Deliver(1, 1, token).Last().subscription = subscription;
    return s.Call({.token = token, .what = What::kAck, .subscription = subscription}, Outcome::kOk);
  };
  Try({{"both",
        [&](Story& s) {
          deliver(s.Accept(), 0, 1);
          deliver(s, 1, 2).Cancel(Outcome::kSettled);
        },
        {}},
       {"one", [&](Story& s) { deliver(s.Accept(), 1, 1); }, {"LOST"}},
       {"one, of an unanswered schedule",
        [&](Story& s) { deliver(s.Schedule(0, Outcome::kUnknown), 0, 1); },
        {"LOST"}},
       {"settled by one of them only",
        [&](Story& s) {
          deliver(s.Accept(), 0, 1).Cancel(Outcome::kSettled);
          deliver(s, 1, 2);
        },
        {"UNTRUE_END"}},
       {"in flight at the other",
        [&](Story& s) {
          deliver(s.Accept(), 0, 1).Cancel(Outcome::kInFlight);
          deliver(s, 1, 2);
        },
        {}}},
      {.subscriptions = 2});
}

TEST(HistoryCheckerTest, ACancelledMessageIsNotDelivered) {
  Try({
      {"before",
       [](Story& s) { s.Accept().Deliver(1, 1, 1).Cancel(Outcome::kCancelled); },
       {"CANCELLED_DELIVERED"}},
      {"after, in a later run",
       [](Story& s) { s.Accept().Cancel(Outcome::kCancelled).Deliver(2, 1, 1); },
       {"CANCELLED_DELIVERED"}},
      {"twice",
       [](Story& s) { s.Accept().Cancel(Outcome::kCancelled).Cancel(Outcome::kCancelled); },
       {"CANCELLED_TWICE", "FORGOTTEN_END"}},
      {"stopped, same run",
       [](Story& s) {
         s.Accept().Deliver(1, 1, 1).Cancel(Outcome::kInFlight, kBoth).Deliver(1, 2, 2, true);
       },
       {}},
      {"stopped, later run",
       [](Story& s) {
         s.Accept().Deliver(1, 1, 1).Cancel(Outcome::kInFlight, kBoth).Deliver(2, 2, 2, true);
       },
       {"STOPPED_DELIVERED"}},
      {"unanswered",
       [](Story& s) { s.Accept().Cancel(Outcome::kUnknown).Deliver(2, 1, 1).Ack(1); },
       {}},
  });
}

TEST(HistoryCheckerTest, NothingIsEarly) {
  Try({
      {"received before it is due",
       [](Story& s) { (s.Accept().Deliver(1, 1, 1).Last().at_ns -= 1), s.Ack(1); },
       {"EARLY"}},
      {"the answer is too early",
       [](Story& s) { (s.Accept().Last().time_ms -= 1), s.Cancel(Outcome::kCancelled); },
       {"EARLY"}},
      {"an unanswered schedule is known by its request",
       [](Story& s) { s.At(1'001).Schedule(0, Outcome::kUnknown).Deliver(1, 1, 1).Ack(1); },
       {"EARLY"}},
      {"a moment",
       [](Story& s) {
         s.Add({.time_ms = 1'051, .what = What::kSchedule, .flags = kAbsoluteTime});
         s.Deliver(1, 1, 1).Ack(1);
       },
       {"EARLY"}},
      {"another deliver_time than acknowledged",
       [](Story& s) { (s.Accept().At(1'060).Deliver(1, 1, 1).Last().time_ms += 1), s.Ack(1); },
       {"TIME"}},
      {"two deliver_times",
       [](Story& s) {
         s.Schedule(0, Outcome::kUnknown).Deliver(1, 1, 1).At(1'060).Deliver(1, 2, 2, true);
         (s.Last().time_ms += 1), s.Ack(2);
       },
       {"TIME"}},
      {"a delay is not short by a part of a millisecond",
       [](Story& s) {
         Event event = {.time_ms = 50, .what = What::kSchedule};
         (s.Add(event).Last().at_ns += 1);
         event.outcome = Outcome::kOk;
         event.time_ms = 1'050;
         s.Add(event).Cancel(Outcome::kCancelled);
       },
       {"EARLY"}},
      {"without a delay it is due in the millisecond that has begun",
       [](Story& s) {
         Event event = {.what = What::kSchedule};
         (s.Add(event).Last().at_ns += 1);
         event.outcome = Outcome::kOk;
         event.time_ms = 1'000;
         s.Add(event).Cancel(Outcome::kCancelled);
       },
       {}},
  });
}

TEST(HistoryCheckerTest, AMovedMessageHasOneTime) {
  Try({
      {"later",
       [](Story& s) {
         s.Accept().Move(1'080, Outcome::kOk).At(1'080).Deliver(1, 1, 1).Last().time_ms = 1'080;
         s.Ack(1);
       },
       {}},
      {"at the old time",
       [](Story& s) { s.Accept().Move(1'080, Outcome::kOk).Deliver(1, 1, 1).Ack(1); },
       {"TIME"}},
      {"unanswered",
       [](Story& s) { s.Accept().Move(1'080, Outcome::kUnknown).Deliver(1, 1, 1).Ack(1); },
       {}},
      {"had been delivered",
       [](Story& s) { s.Accept().Deliver(1, 1, 1).Move(1'080, Outcome::kOk).Ack(1); },
       {"MOVED_DELIVERED"}},
      {"met a delivery",
       [](Story& s) { s.Accept().Deliver(1, 1, 1).Move(1'080, Outcome::kInFlight).Ack(1); },
       {}},
      {"had ended",
       [](Story& s) { s.Accept().Deliver(1, 1, 1).Ack(1).Move(1'080, Outcome::kInFlight); },
       {"FORGOTTEN_END"}},
      {"was cancelled",
       [](Story& s) {
         s.Accept().Cancel(Outcome::kCancelled).Move(1'080, Outcome::kAlreadyCancelled);
       },
       {}},
  });
}

TEST(HistoryCheckerTest, AConfirmedSettlementLasts) {
  Try({
      {"next run",
       [](Story& s) { s.Accept().Deliver(1, 1, 1).Ack(1).Deliver(2, 1, 2, true); },
       {"ACKED_DELIVERED"}},
      {"same run",
       [](Story& s) { s.Accept().Deliver(1, 1, 1).Ack(1).Deliver(1, 2, 2, true); },
       {"ACKED_DELIVERED"}},
      {"a late frame of an earlier lease",
       [](Story& s) { s.Accept().Deliver(1, 2, 1, true).Ack(1).Deliver(1, 1, 2); },
       {}},
      {"unanswered",
       [](Story& s) {
         s.Accept().Deliver(1, 1, 1).Ack(1, Outcome::kUnknown).Deliver(2, 1, 2, true).Ack(2);
       },
       {}},
      {"twice", [](Story& s) { s.Accept().Deliver(1, 1, 1).Ack(1).Ack(1); }, {"ACKED_TWICE"}},
      {"undone by a power cut",
       [](Story& s) {
         s.Accept().Deliver(1, 1, 1).Ack(1).Fault(What::kPowerCut);
         s.Deliver(2, 1, 2, true).Ack(2).Cancel(Outcome::kSettled);
       },
       {}},
      {"undone, and not marked",
       [](Story& s) {
         s.Accept().Deliver(1, 1, 1).Ack(1).Fault(What::kPowerCut).Deliver(2, 1, 2).Ack(2);
       },
       {"ATTEMPT", "ACKED_DELIVERED"}},
      {"a power cut after the delivery",
       [](Story& s) {
         s.Accept().Deliver(1, 1, 1).Ack(1).Deliver(2, 1, 2, true).Fault(What::kPowerCut);
       },
       {"ACKED_DELIVERED"}},
      {"twice before the power cut",
       [](Story& s) {
         s.Accept().Deliver(1, 1, 1).Ack(1).Ack(1).Fault(What::kPowerCut);
         s.Deliver(2, 1, 2, true).Ack(2);
       },
       {"ACKED_TWICE"}},
      {"undone, and the answer was read after the power cut",
       [](Story& s) {
         Event ack = {.token = 1, .what = What::kAck};
         s.Accept().Deliver(1, 1, 1).Add(ack).Fault(What::kPowerCut);
         ack.outcome = Outcome::kOk;
         s.Add(ack).Deliver(2, 1, 2, true).Ack(2);
       },
       {}},
      {"synced long before the power cut",
       [](Story& s) {
         s.Accept().Deliver(1, 1, 1).Ack(1).At(3'100).Fault(What::kPowerCut);
         s.Deliver(2, 1, 2, true);
       },
       {"ACKED_DELIVERED"}},
  });
}

// A get of message 0. `time_ms`: the deliver_time that a get of a pending message tells.
void Get(Story& story, Outcome outcome, int64_t time_ms = 1'050) {
  story.Call({.time_ms = time_ms, .run = 1, .what = What::kGet}, outcome);
}

TEST(HistoryCheckerTest, AGetTellsTheStateOfTheMessage) {
  Try({
      {"pending, then acked",
       [](Story& s) {
         Get(s.Accept(), Outcome::kOk);
         Get(s.Deliver(1, 1, 1).Ack(1), Outcome::kSettled);
       },
       {}},
      {"without an answer",
       [](Story& s) {
         Get(s.Accept(), Outcome::kUnknown);
         s.Deliver(1, 1, 1).Ack(1);
       },
       {}},
      {"not found",
       [](Story& s) {
         Get(s.Accept(), Outcome::kNotFound);
         s.Deliver(1, 1, 1).Ack(1);
       },
       {"NOT_FOUND"}},
      {"pending after an ack",
       [](Story& s) { Get(s.Accept().Deliver(1, 1, 1).Ack(1), Outcome::kOk); },
       {"FORGOTTEN_END"}},
      {"pending after a cancel",
       [](Story& s) { Get(s.Accept().Cancel(Outcome::kCancelled), Outcome::kOk); },
       {"FORGOTTEN_END"}},
      {"cancelled",
       [](Story& s) { Get(s.Accept().Cancel(Outcome::kCancelled), Outcome::kAlreadyCancelled); },
       {}},
      {"cancelled by no cancel",
       [](Story& s) {
         Get(s.Accept(), Outcome::kAlreadyCancelled);
         s.Deliver(1, 1, 1).Ack(1);
       },
       {"UNTRUE_END"}},
      {"delivered by a later run than one that found it ended",
       [](Story& s) {
         s.Accept().Deliver(1, 1, 1).Ack(1, Outcome::kUnknown);
         Get(s, Outcome::kSettled);
         s.Deliver(2, 1, 2, true).Ack(2);
       },
       {"ENDED_DELIVERED"}},
  });
}

TEST(HistoryCheckerTest, AGetTellsTheTimeOfTheMessage) {
  const auto end = [](Story& s) { s.At(3'000).Cancel(Outcome::kCancelled); };
  Try({
      {"moved",
       [end](Story& s) {
         Get(s.Accept().Move(2'000, Outcome::kOk), Outcome::kOk, 2'000);
         end(s);
       },
       {}},
      {"the time before the move",
       [end](Story& s) {
         Get(s.Accept().Move(2'000, Outcome::kOk), Outcome::kOk, 1'050);
         end(s);
       },
       {"STALE_TIME"}},
      {"moved and moved back",
       [end](Story& s) {
         s.Accept().Move(2'000, Outcome::kOk).Move(1'050, Outcome::kOk);
         Get(s, Outcome::kOk, 1'050);
         end(s);
       },
       {}},
      {"the move has no answer",
       [end](Story& s) {
         s.Accept().Move(2'000, Outcome::kUnknown);
         Get(s, Outcome::kOk, 1'050);
         Get(s, Outcome::kOk, 2'000);
         end(s);
       },
       {}},
      {"a time that no client asked for",
       [end](Story& s) {
         Get(s.Accept(), Outcome::kOk, 1'049);
         end(s);
       },
       {"STALE_TIME"}},
  });
}

TEST(HistoryCheckerTest, AnAnswerAboutAnEndIsTrue) {
  Try({
      {"settled, and acked only afterwards",
       [](Story& s) { s.Accept().Deliver(1, 1, 1).Cancel(Outcome::kSettled).Ack(1); },
       {"UNTRUE_END"}},
      {"settled by an unanswered ack",
       [](Story& s) {
         s.Accept().Deliver(1, 1, 1).Ack(1, Outcome::kUnknown).Cancel(Outcome::kSettled);
       },
       {}},
      {"settled by a refused ack",
       [](Story& s) {
         s.Accept().Deliver(1, 1, 1).Ack(1, Outcome::kRefused).Cancel(Outcome::kSettled);
       },
       {"UNTRUE_END", "LOST"}},
      {"cancelled by no cancel",
       [](Story& s) {
         s.Accept().Cancel(Outcome::kInFlight).Cancel(Outcome::kAlreadyCancelled);
         s.Deliver(1, 1, 1).Ack(1);
       },
       {"UNTRUE_END"}},
      {"cancelled by an unanswered one",
       [](Story& s) { s.Accept().Cancel(Outcome::kUnknown).Cancel(Outcome::kAlreadyCancelled); },
       {}},
      {"found ended",
       [](Story& s) { s.Accept().Deliver(1, 1, 1).Ack(1).Cancel(Outcome::kSettled); },
       {}},
      {"an ack is forgotten",
       [](Story& s) { s.Accept().Deliver(1, 1, 1).Ack(1).Cancel(Outcome::kInFlight); },
       {"FORGOTTEN_END"}},
      {"an ack is forgotten before a power cut",
       [](Story& s) {
         s.Accept().Deliver(1, 1, 1).Ack(1).Cancel(Outcome::kInFlight).Fault(What::kPowerCut);
       },
       {"FORGOTTEN_END"}},
      {"settled by an unanswered ack, and delivered before the question",
       [](Story& s) {
         s.Accept().Deliver(1, 1, 1).Ack(1, Outcome::kUnknown).Deliver(2, 1, 2, true);
         s.Cancel(Outcome::kSettled).Last().run = 2;
         s.Ack(2);
       },
       {"UNTRUE_END"}},
      {"found settled long before the power cut",
       [](Story& s) {
         s.Accept().Deliver(1, 1, 1).Ack(1, Outcome::kUnknown).Cancel(Outcome::kSettled);
         s.At(5'000).Fault(What::kPowerCut).Deliver(2, 1, 2, true);
       },
       {"ENDED_DELIVERED"}},
      {"found settled just before the power cut",
       [](Story& s) {
         s.Accept().Deliver(1, 1, 1).Ack(1, Outcome::kUnknown).Cancel(Outcome::kSettled);
         s.Fault(What::kPowerCut).Deliver(2, 1, 2, true).Ack(2);
       },
       {}},
      {"a stop is forgotten",
       [](Story& s) {
         s.Accept().Deliver(1, 1, 1).Cancel(Outcome::kInFlight, kBoth).Cancel(Outcome::kInFlight);
       },
       {"FORGOTTEN_END"}},
      {"ended, and delivered by a later run",
       [](Story& s) {
         s.Accept().Deliver(1, 1, 1).Ack(1, Outcome::kUnknown).Cancel(Outcome::kSettled);
         s.Deliver(2, 1, 2, true);
       },
       {"ENDED_DELIVERED"}},
      {"two end times",
       [](Story& s) {
         s.Accept().Cancel(Outcome::kCancelled).Cancel(Outcome::kAlreadyCancelled);
         s.Cancel(Outcome::kAlreadyCancelled).Last().time_ms += 1;
       },
       {"END_TIME"}},
      {"no end time",
       [](Story& s) {
         s.Accept().Cancel(Outcome::kCancelled).Cancel(Outcome::kAlreadyCancelled);
         s.Last().time_ms = 0;
       },
       {"END_TIME"}},
      {"not found", [](Story& s) { s.Accept().Cancel(Outcome::kNotFound); }, {"NOT_FOUND", "LOST"}},
      {"not found before the client knew of it",
       [](Story& s) {
         s.Add({.time_ms = 50, .what = What::kSchedule}).Cancel(Outcome::kNotFound);
         s.Add({.id = 100, .time_ms = 1'050, .what = What::kSchedule, .outcome = Outcome::kOk});
         s.Deliver(1, 1, 1).Ack(1);
       },
       {}},
  });
}

TEST(HistoryCheckerTest, OverlappingCallsExplainEachOther) {
  // The cancel begins before the answer to the ack, and the clients differ.
  Event ack = {.token = 1, .client = 1, .what = What::kAck};
  Event cancel = {.client = 2, .what = What::kCancel};
  Story story;
  story.Accept().Deliver(1, 1, 1).Add(ack).Add(cancel);
  ack.outcome = Outcome::kOk;
  cancel.outcome = Outcome::kInFlight;
  story.Add(ack).Add(cancel).At(9'000).Fault(What::kDrained);
  EXPECT_THAT(RulesOf(Check({story.events()}, {})), IsEmpty());
}

TEST(HistoryCheckerTest, RepeatsAreVisible) {
  Try({
      {"below 1", [](Story& s) { s.Accept().Deliver(1, 0, 1).Ack(1); }, {"ATTEMPT"}},
      {"twice in a run",
       [](Story& s) { s.Accept().Deliver(1, 2, 1, true).Deliver(1, 2, 2, true).Ack(2); },
       {"ATTEMPT"}},
      {"without the mark",
       [](Story& s) { s.Accept().Deliver(1, 1, 1).Deliver(2, 1, 2).Ack(2); },
       {"ATTEMPT"}},
      {"with the mark",
       [](Story& s) {
         s.Accept().Deliver(1, 1, 1).Deliver(1, 2, 2, true).Deliver(2, 1, 3, true).Ack(3);
       },
       {}},
      {"refused",
       [](Story& s) { s.Schedule(0, Outcome::kRefused).Deliver(1, 1, 1); },
       {"REFUSED_DELIVERED"}},
      {"of no client",
       [](Story& s) { s.Accept(0).Cancel(Outcome::kCancelled).Deliver(1, 1, 1, false, 7); },
       {"REFUSED_DELIVERED"}},
  });
}

TEST(HistoryCheckerTest, IdsAndTokensAreUnique) {
  Try({
      {"one token for two messages",
       [](Story& s) {
         s.Accept(0).At(1'000).Accept(1).Deliver(1, 1, 7, false, 0).Deliver(2, 1, 7, false, 1);
         s.Ack(7, Outcome::kOk, 0).Ack(7, Outcome::kOk, 1);
       },
       {"TOKEN"}},
      {"one id for two messages",
       [](Story& s) {
         s.Accept(0).At(1'000).Accept(1).Last().id = 100;
         s.Deliver(1, 1, 1, false, 0).Ack(1);
         s.Deliver(1, 1, 2, false, 1).Last().id = 100;
         s.Ack(2, Outcome::kOk, 1);
       },
       {"ID"}},
      {"two ids for one message",
       [](Story& s) { (s.Accept().Deliver(1, 1, 1).Last().id = 7), s.Ack(1); },
       {"ID"}},
  });
}

TEST(HistoryCheckerTest, TooLittleFails) {
  Story story;
  story.Accept().Deliver(1, 1, 1).Ack(1).Fault(What::kKill).Fault(What::kDrained);
  Judgement judgement = Check({story.events()}, {});
  EXPECT_EQ(judgement.broken, 0u);
  EXPECT_THAT(judgement.too_little, IsEmpty());
  EXPECT_EQ(judgement.counts.scheduled, 1);
  EXPECT_EQ(judgement.counts.deliveries, 1);
  EXPECT_EQ(judgement.counts.acks_confirmed, 1);
  EXPECT_EQ(judgement.counts.kills, 1);
  judgement = Check({story.events()}, {.minimum = {.scheduled = 2, .deliveries = 1, .kills = 2}});
  EXPECT_THAT(judgement.too_little, ElementsAre("scheduled 1, at least 2", "kills 1, at least 2"));
  // Nothing at all proves nothing, whatever is asked for.
  EXPECT_THAT(Check({}, {}).too_little,
              ElementsAre(HasSubstr("scheduled"), HasSubstr("deliveries"), HasSubstr("drains")));
}

TEST(HistoryCheckerTest, ManyViolationsAreCounted) {
  Story story;
  for (uint32_t i = 0; i < 10; ++i) story.Accept(i);
  story.At(9'000).Fault(What::kDrained);
  const Judgement judgement = Check({story.events()}, {.violations_max = 3});
  EXPECT_EQ(judgement.violations.size(), 3u);
  EXPECT_EQ(judgement.broken, 10u);
}

TEST(HistoryCheckerTest, ProcessesShareOneHistory) {
  // The sender is one process, the receiver another. Which file comes first does not matter.
  Story sender;
  sender.Accept().At(9'000).Fault(What::kDrained);
  Story receiver;
  receiver.Deliver(1, 1, 1).Ack(1);
  EXPECT_THAT(RulesOf(Check({sender.events(), receiver.events()}, {})), IsEmpty());
  EXPECT_THAT(RulesOf(Check({receiver.events(), sender.events()}, {})), IsEmpty());
  EXPECT_THAT(RulesOf(Check({sender.events()}, {})), ElementsAre("LOST"));
}

}  // namespace
}  // namespace duetime::test
