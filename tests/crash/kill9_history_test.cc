// SPDX-License-Identifier: Apache-2.0
//
// The crash test's checker can fail. Each rule has a history that breaks it, and similar histories
// that do not.
#include "tests/crash/kill9_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace duetime::crash {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A message that was accepted as `id` at moment 1: requested at 1,000 ms with a delay of 50 ms.
MessageHistory Accepted(const std::string& id = "a") {
  MessageHistory message;
  message.wanted_us = 1'000'000;
  message.delay_ms = 50;
  message.scheduled = Ended::kOk;
  message.scheduled_at = 1;
  message.id = id;
  message.deliver_ms = 1'050;
  return message;
}

MessageHistory& Deliver(MessageHistory& message, int run, int attempt, uint64_t token,
                        bool maybe_redelivered) {
  message.deliveries.push_back({.at = 10 + token,
                                .run = run,
                                .id = message.id.empty() ? "u" : message.id,
                                .attempt = attempt,
                                .maybe_redelivered = maybe_redelivered,
                                .token = token,
                                .deliver_ms = 1'050,
                                .received_us = 1'050'000});
  return message;
}

MessageHistory& Ack(MessageHistory& message, uint64_t token, Ended ended) {
  message.acks.push_back({.begun = 20 + token, .over = 30 + token, .token = token, .ended = ended});
  return message;
}

MessageHistory& Cancel(MessageHistory& message, Ended ended, Found found, bool stop = false,
                       bool stopped = false) {
  const uint64_t begun = 100 + 10 * message.cancels.size();
  message.cancels.push_back({.begun = begun,
                             .over = begun + 5,
                             .run = 1,
                             .stop_redelivery = stop,
                             .ended = ended,
                             .found = found,
                             .redelivery_stopped = stopped,
                             .end_ms = 0});
  if (found == Found::kSettled || found == Found::kAlreadyCancelled) {
    message.cancels.back().end_ms = 1'060;
  }
  return message;
}

std::vector<std::string> Rules(const std::vector<MessageHistory>& history) {
  std::vector<std::string> rules;
  for (const Violation& violation : Check(history)) rules.push_back(violation.rule);
  return rules;
}

TEST(CheckTest, AGoodHistory) {
  MessageHistory acked = Accepted("a");
  Ack(Deliver(acked, 1, 1, 1, false), 1, Ended::kOk);
  MessageHistory repeated = Accepted("b");
  Deliver(Deliver(repeated, 1, 1, 2, false), 1, 2, 3, true);
  Ack(Deliver(repeated, 2, 1, 4, true), 4, Ended::kOk);
  MessageHistory cancelled = Accepted("c");
  Cancel(Cancel(cancelled, Ended::kOk, Found::kCancelled), Ended::kOk, Found::kAlreadyCancelled);
  MessageHistory refused;
  refused.scheduled = Ended::kRefused;
  MessageHistory unknown;
  unknown.scheduled = Ended::kUnknown;
  EXPECT_THAT(Rules({acked, repeated, cancelled, refused, unknown}), IsEmpty());
}

TEST(CheckTest, Lost) {
  EXPECT_THAT(Rules({Accepted()}), ElementsAre("LOST"));
  // A delivery is not enough: the message must be delivered until it is acked.
  MessageHistory message = Accepted();
  Deliver(message, 1, 1, 1, false);
  EXPECT_THAT(Rules({message}), ElementsAre("LOST"));
  MessageHistory refused_ack = message;
  Ack(refused_ack, 1, Ended::kRefused);
  EXPECT_THAT(Rules({refused_ack}), ElementsAre("LOST"));
  MessageHistory unanswered_ack = message;
  Ack(unanswered_ack, 1, Ended::kUnknown);
  EXPECT_THAT(Rules({unanswered_ack}), IsEmpty());
  MessageHistory ack_never_over = message;
  Ack(ack_never_over, 1, Ended::kNot);
  EXPECT_THAT(Rules({ack_never_over}), IsEmpty());
}

TEST(CheckTest, LostAfterACancelThatDoesNotExplainIt) {
  MessageHistory message = Accepted();
  Cancel(message, Ended::kUnknown, Found::kNotFound);
  EXPECT_THAT(Rules({message}), IsEmpty()) << "it may have been cancelled";
  Deliver(message, 1, 1, 1, false);
  EXPECT_THAT(Rules({message}), ElementsAre("LOST")) << "a plain cancel ends nothing delivered";
  Cancel(message, Ended::kUnknown, Found::kNotFound, /*stop=*/true);
  EXPECT_THAT(Rules({message}), IsEmpty());

  message = Accepted();
  Deliver(message, 1, 1, 1, false);
  Cancel(message, Ended::kOk, Found::kInFlight, /*stop=*/false, /*stopped=*/false);
  EXPECT_THAT(Rules({message}), ElementsAre("LOST"));
  Cancel(message, Ended::kOk, Found::kInFlight, /*stop=*/true, /*stopped=*/true);
  EXPECT_THAT(Rules({message}), IsEmpty());
  message = Accepted();
  Cancel(message, Ended::kRefused, Found::kNotFound, /*stop=*/true);
  EXPECT_THAT(Rules({message}), ElementsAre("LOST"));
}

TEST(CheckTest, AnUnknownScheduleThatWasDeliveredMustNotBeLost) {
  MessageHistory message;
  message.scheduled = Ended::kUnknown;
  message.wanted_us = 1'000'000;
  Deliver(message, 1, 1, 1, false);
  EXPECT_THAT(Rules({message}), ElementsAre("LOST"));
  Ack(message, 1, Ended::kOk);
  EXPECT_THAT(Rules({message}), IsEmpty());
}

TEST(CheckTest, CancelledAndDelivered) {
  MessageHistory message = Accepted();
  Deliver(message, 2, 1, 1, false);
  Cancel(message, Ended::kOk, Found::kCancelled);
  EXPECT_THAT(Rules({message}), ElementsAre("CANCELLED_DELIVERED"));
}

TEST(CheckTest, CancelledTwice) {
  MessageHistory message = Accepted();
  Cancel(Cancel(message, Ended::kOk, Found::kCancelled), Ended::kOk, Found::kCancelled);
  EXPECT_THAT(Rules({message}), ElementsAre("CANCELLED_TWICE", "FORGOTTEN_END"));
}

TEST(CheckTest, StoppedAndDelivered) {
  MessageHistory message = Accepted();
  Deliver(message, 1, 1, 1, false);
  Cancel(message, Ended::kOk, Found::kInFlight, true, true);
  EXPECT_THAT(Rules({message}), IsEmpty());
  Deliver(message, 2, 1, 2, true);
  EXPECT_THAT(Rules({message}), ElementsAre("STOPPED_DELIVERED"));
}

TEST(CheckTest, Early) {
  MessageHistory message = Accepted();
  Ack(Deliver(message, 1, 1, 1, false), 1, Ended::kOk);
  message.deliveries[0].received_us = 1'049'999;
  EXPECT_THAT(Rules({message}), ElementsAre("EARLY", "EARLY"));
  // The server resolved the time too low: every later comparison would be against the wrong time.
  message = Accepted();
  message.deliver_ms = 1'049;
  Cancel(message, Ended::kOk, Found::kCancelled);
  EXPECT_THAT(Rules({message}), ElementsAre("EARLY"));
  // For a schedule of unknown outcome the client knows only its request.
  message = MessageHistory();
  message.scheduled = Ended::kUnknown;
  message.wanted_us = 1'000'000;
  message.delay_ms = 51;
  Ack(Deliver(message, 1, 1, 1, false), 1, Ended::kOk);
  EXPECT_THAT(Rules({message}), ElementsAre("EARLY"));
}

TEST(CheckTest, AckedAndDelivered) {
  MessageHistory message = Accepted();
  Ack(Deliver(message, 1, 1, 1, false), 1, Ended::kOk);
  MessageHistory next_run = message;
  Deliver(next_run, 2, 1, 2, true);
  EXPECT_THAT(Rules({next_run}), ElementsAre("ACKED_DELIVERED"));
  MessageHistory same_run = message;
  Deliver(same_run, 1, 2, 2, true);
  EXPECT_THAT(Rules({same_run}), ElementsAre("ACKED_DELIVERED"));
  // The client read the frame of an earlier lease late.
  message = Accepted();
  Ack(Deliver(message, 1, 2, 1, true), 1, Ended::kOk);
  Deliver(message, 1, 1, 2, false);
  EXPECT_THAT(Rules({message}), IsEmpty());
}

TEST(CheckTest, AckedTwice) {
  MessageHistory message = Accepted();
  Ack(Deliver(message, 1, 1, 1, false), 1, Ended::kOk);
  Ack(message, 1, Ended::kOk);
  EXPECT_THAT(Rules({message}), ElementsAre("ACKED_TWICE"));
}

TEST(CheckTest, RefusedAndDelivered) {
  MessageHistory message;
  message.scheduled = Ended::kRefused;
  Ack(Deliver(message, 1, 1, 1, false), 1, Ended::kOk);
  EXPECT_THAT(Rules({message}), ElementsAre("REFUSED_DELIVERED"));
}

TEST(CheckTest, NotFound) {
  MessageHistory message = Accepted();
  Cancel(message, Ended::kOk, Found::kNotFound);
  Ack(Deliver(message, 1, 1, 1, false), 1, Ended::kOk);
  message.cancels[0].begun = 2;
  message.cancels[0].over = 3;
  EXPECT_THAT(Rules({message}), ElementsAre("NOT_FOUND"));
  message.cancels[0].ended = Ended::kRefused;
  EXPECT_THAT(Rules({message}), IsEmpty());
  // The cancel began before the client knew that the id exists.
  message.cancels[0].ended = Ended::kOk;
  message.scheduled_at = 4;
  EXPECT_THAT(Rules({message}), IsEmpty());
}

TEST(CheckTest, UntrueEnds) {
  // The message was settled, although the ack came only after the answer.
  MessageHistory message = Accepted();
  Deliver(message, 1, 1, 1, false);
  Cancel(message, Ended::kOk, Found::kSettled);
  message.acks.push_back({.begun = 200, .over = 201, .token = 1, .ended = Ended::kOk});
  EXPECT_THAT(Rules({message}), ElementsAre("UNTRUE_END"));
  message.acks[0].begun = 50;
  EXPECT_THAT(Rules({message}), IsEmpty());
  message.acks[0].ended = Ended::kUnknown;
  EXPECT_THAT(Rules({message}), IsEmpty());
  message.acks[0].ended = Ended::kRefused;
  EXPECT_THAT(Rules({message}), ElementsAre("UNTRUE_END", "LOST"));
  // A cancel that answered "in flight, left alone" does not explain the end. An unanswered cancel
  // may.
  message = Accepted();
  Cancel(message, Ended::kOk, Found::kInFlight);
  Cancel(message, Ended::kOk, Found::kAlreadyCancelled);
  Deliver(message, 1, 1, 1, false);
  message.acks.push_back({.begun = 200, .over = 201, .token = 1, .ended = Ended::kOk});
  EXPECT_THAT(Rules({message}), ElementsAre("UNTRUE_END"));
  message.cancels[0].ended = Ended::kUnknown;
  EXPECT_THAT(Rules({message}), IsEmpty());
}

TEST(CheckTest, ForgottenEnds) {
  MessageHistory acked = Accepted();
  Ack(Deliver(acked, 1, 1, 1, false), 1, Ended::kOk);
  MessageHistory message = acked;
  Cancel(message, Ended::kOk, Found::kSettled);
  EXPECT_THAT(Rules({message}), IsEmpty());
  message = acked;
  Cancel(message, Ended::kOk, Found::kInFlight);
  EXPECT_THAT(Rules({message}), ElementsAre("FORGOTTEN_END"));
  // While the ack was in flight, both answers are correct.
  message.acks[0].over = 103;
  EXPECT_THAT(Rules({message}), IsEmpty());
  message = Accepted();
  Deliver(message, 1, 1, 1, false);
  Cancel(message, Ended::kOk, Found::kInFlight, /*stop=*/true, /*stopped=*/true);
  Cancel(message, Ended::kOk, Found::kInFlight);
  EXPECT_THAT(Rules({message}), ElementsAre("FORGOTTEN_END"));
  message.cancels[1].found = Found::kAlreadyCancelled;
  message.cancels[1].end_ms = 1;
  EXPECT_THAT(Rules({message}), IsEmpty());
}

TEST(CheckTest, EndedAndDelivered) {
  MessageHistory message = Accepted();
  Ack(Deliver(message, 1, 1, 1, false), 1, Ended::kUnknown);
  Cancel(message, Ended::kOk, Found::kSettled);
  EXPECT_THAT(Rules({message}), IsEmpty());
  Deliver(message, 2, 1, 2, true);
  EXPECT_THAT(Rules({message}), ElementsAre("ENDED_DELIVERED"));
}

TEST(CheckTest, OneEndHasOneTime) {
  MessageHistory message = Accepted();
  Cancel(Cancel(message, Ended::kOk, Found::kCancelled), Ended::kOk, Found::kAlreadyCancelled);
  Cancel(message, Ended::kOk, Found::kAlreadyCancelled);
  EXPECT_THAT(Rules({message}), IsEmpty());
  message.cancels[2].end_ms += 1;
  EXPECT_THAT(Rules({message}), ElementsAre("END_TIME"));
  message.cancels[2].end_ms = 0;
  EXPECT_THAT(Rules({message}), ElementsAre("END_TIME"));
}

TEST(CheckTest, Attempts) {
  MessageHistory message = Accepted();
  Ack(Deliver(message, 1, 0, 1, false), 1, Ended::kOk);
  EXPECT_THAT(Rules({message}), ElementsAre("ATTEMPT"));
  message = Accepted();
  Deliver(message, 1, 2, 1, true);
  Ack(Deliver(message, 1, 2, 2, true), 2, Ended::kOk);
  EXPECT_THAT(Rules({message}), ElementsAre("ATTEMPT"));
  message = Accepted();
  Deliver(message, 1, 1, 1, false);
  Ack(Deliver(message, 2, 1, 2, /*maybe_redelivered=*/false), 2, Ended::kOk);
  EXPECT_THAT(Rules({message}), ElementsAre("ATTEMPT"));
}

TEST(CheckTest, Tokens) {
  MessageHistory one = Accepted("a");
  Ack(Deliver(one, 1, 1, 7, false), 7, Ended::kOk);
  MessageHistory two = Accepted("b");
  Ack(Deliver(two, 2, 1, 7, false), 7, Ended::kOk);
  EXPECT_THAT(Rules({one, two}), ElementsAre("TOKEN"));
}

TEST(CheckTest, Ids) {
  MessageHistory one = Accepted("a");
  Cancel(one, Ended::kOk, Found::kCancelled);
  EXPECT_THAT(Rules({one, one}), ElementsAre("ID"));
  MessageHistory message = Accepted("a");
  Ack(Deliver(message, 1, 1, 1, false), 1, Ended::kOk);
  message.deliveries[0].id = std::string(1, 'b');
  EXPECT_THAT(Rules({message}), ElementsAre("ID"));
  message = Accepted("a");
  Ack(Deliver(message, 1, 1, 1, false), 1, Ended::kOk);
  message.deliveries[0].deliver_ms = 1'049;
  EXPECT_THAT(Rules({message}), ElementsAre("ID"));
}

}  // namespace
}  // namespace duetime::crash
