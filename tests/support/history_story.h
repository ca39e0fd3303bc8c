// SPDX-License-Identifier: Apache-2.0
//
// Story: short histories for the tests of the checker.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tests/support/history.h"
#include "tests/support/history_checker.h"

namespace duetime::test {

inline constexpr int64_t kNanosPerMilli = 1'000'000;
inline constexpr uint8_t kBoth = kStopRedelivery | kRedeliveryStopped;

// Makes the events of a history, one after the other. An event takes 1 ms; the first is at 1,000
// ms. Messages are due 50 ms after their call, so message 0 is due at 1,050 ms.
class Story {
 public:
  Story& At(int64_t ms) {
    now_ms_ = ms;
    return *this;
  }
  Story& Add(Event event) {
    event.at_ns = now_ms_++ * kNanosPerMilli;
    events_.push_back(event);
    return *this;
  }

  Story& Schedule(uint32_t message, Outcome outcome, uint64_t key = 0) {
    Event event = {.time_ms = 50, .token = key, .message = message, .what = What::kSchedule};
    const int64_t deliver_ms = now_ms_ + 50;
    Add(event);
    if (outcome == Outcome::kBegun) return *this;
    event.outcome = outcome;
    if (outcome == Outcome::kOk) {
      event.id = 100 + message;
      event.time_ms = deliver_ms;
    }
    return Add(event);
  }
  Story& Accept(uint32_t message = 0, uint64_t key = 0) {
    return Schedule(message, Outcome::kOk, key);
  }

  // Not before 1,050 ms.
  Story& Deliver(uint32_t run, uint16_t attempt, uint64_t token, bool again = false,
                 uint32_t message = 0) {
    now_ms_ = std::max<int64_t>(now_ms_, 1'050);
    return Add({.id = 100 + message,
                .time_ms = 1'050,
                .token = token,
                .message = message,
                .run = run,
                .attempt = attempt,
                .what = What::kDelivery,
                .flags = again ? kMaybeRedelivered : uint8_t{0}});
  }

  // A call or a settlement. kBegun: without an end.
  Story& Call(Event event, Outcome outcome) {
    Add(event);
    if (outcome == Outcome::kBegun) return *this;
    event.outcome = outcome;
    return Add(event);
  }
  Story& Ack(uint64_t token, Outcome outcome = Outcome::kOk, uint32_t message = 0) {
    return Call({.token = token, .message = message, .what = What::kAck}, outcome);
  }
  // In run 1. Every end is at 1,060 ms.
  Story& Cancel(Outcome outcome, uint8_t flags = 0) {
    return Call({.time_ms = 1'060, .run = 1, .what = What::kCancel, .flags = flags}, outcome);
  }
  // To a moment.
  Story& Move(int64_t to_ms, Outcome outcome) {
    return Call({.time_ms = to_ms, .run = 1, .what = What::kReschedule, .flags = kAbsoluteTime},
                outcome);
  }
  Story& Fault(What what, Outcome outcome = Outcome::kBegun, int64_t time_ms = 0) {
    return Add({.time_ms = time_ms, .what = what, .outcome = outcome});
  }
  Story& Start(uint32_t run) { return Add({.run = run, .what = What::kStart}); }

  Event& Last() { return events_.back(); }
  const std::vector<Event>& events() const { return events_; }

 private:
  std::vector<Event> events_;
  int64_t now_ms_ = 1'000;
};

inline std::vector<std::string> RulesOf(const Judgement& judgement) {
  std::vector<std::string> rules;
  for (const Violation& violation : judgement.violations) rules.push_back(violation.rule);
  return rules;
}

struct Case {
  const char* name;
  std::function<void(Story&)> tell;
  std::vector<std::string> rules;
};

// Judges each story after a drain at 9,000 ms.
inline void Try(const std::vector<Case>& cases, const Expected& expected = {}) {
  for (const Case& test : cases) {
    SCOPED_TRACE(test.name);
    Story story;
    test.tell(story);
    story.At(9'000).Fault(What::kDrained);
    EXPECT_THAT(RulesOf(Check({story.events()}, expected)), testing::ElementsAreArray(test.rules));
  }
}

}  // namespace duetime::test
