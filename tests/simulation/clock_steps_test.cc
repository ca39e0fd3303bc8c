// SPDX-License-Identifier: Apache-2.0
//
// A clock that is set back and forth while the server runs, and between two runs.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "server/scheduler/scheduler.h"
#include "storage/message_record.h"
#include "tests/simulation/world.h"
#include "tests/support/from_environment.h"
#include "tests/support/replies.h"
#include "tests/support/test_scale.h"

namespace duetime::simulation {
namespace {

using protocol::LeaseToken;
using storage::MessageId;
using storage::SubscriptionId;

constexpr storage::TopicId kOnlyTopic{1};
// The topic's first subscription, and another one.
constexpr SubscriptionId kFirst = storage::FirstSubscription(kOnlyTopic);
constexpr SubscriptionId kSecond{(uint32_t{1} << 31) + 1};
constexpr uint64_t kHourMs = 3'600'000;
// How late a message may be, and how long the clock must have been right before that counts.
constexpr uint64_t kLateMs = scheduler::Scheduler::kStandStillMs + 200;

// Two subscriptions, each with a stream with enough credit. Checks that no delivery is early by the
// clock of its moment (P2), that nothing is late once the clock is right again, that nothing is
// lost (P1), and that nothing comes after its ack.
class ClockSteps final : public World {
 public:
  explicit ClockSteps(const Setup& setup) : World(setup, /*shards_max=*/1, Lead::kKept) {
    limits_ = {};
    limits_.scheduler.load_window_ms = 1'000 + Random(30'000);
    limits_.spill_age_ms = 1'100 + Random(60'000);
    limits_.scheduler.low_watermark_period_ms = 10 + Random(500);
    Open();
    // In this order, as the catalog does it: only so does a restart find both.
    Create(kFirst);
    Create(kSecond);
    Attach();
  }

 private:
  // What a subscription did with a message.
  struct Part {
    bool delivered = false;
    bool acked = false;
  };
  struct Item {
    bool acked() const { return first.acked && second.acked; }
    bool delivered() const { return first.delivered && second.delivered; }

    uint64_t deliver_ms = 0;
    // The deliver time or, if that has passed, the time of the acceptance or move.
    uint64_t due_ms = 0;
    Part first;
    Part second;
  };
  struct Lease {
    MessageId id;
    SubscriptionId subscription{};
  };

  void Event() override {
    Pass(Chance(90) ? Random(50) : Random(5'000));
    host_->Pass();
    DoOneOf({{60, [this] { Schedule(); }},
             {20, [this] { Reschedule(); }},
             {15, [this] { Settle(); }},
             {4, [this] { StepClock(); }},
             {1, [this] { Restart(); }}});
    Take(RunToRest());
    CheckLate();
  }

  void Pass(uint64_t ms) {
    now_.wall_ms += ms;
    now_.mono_ms += ms;
    right_for_ms_ += ms;
    latest_ms_ = std::max(latest_ms_, now_.wall_ms);
  }

  void StepClock() {
    right_for_ms_ = 0;
    const uint64_t what = Random(100);
    if (what < 30) {
      now_.wall_ms -= 1 + Random(scheduler::Scheduler::kStandStillMs);
      Count("small steps back");
    } else if (what < 60) {
      now_.wall_ms -= scheduler::Scheduler::kStandStillMs + 1 + Random(kHourMs);
      Count("steps back");
    } else {
      now_.wall_ms = what < 80 ? latest_ms_ : now_.wall_ms + Random(60'000);
      Count("steps forward");
    }
    latest_ms_ = std::max(latest_ms_, now_.wall_ms);
    Note("the clock is set");
  }

  void Restart() {
    const bool clean = Chance(50);
    if (clean) Stop();
    Close(clean ? Host::End::kStop : Host::End::kCrash, 0, /*clock_goes_back=*/false);
    leased_.clear();
    acks_.clear();
    if (Chance(70)) StepClock();
    Pass(0);
    right_for_ms_ = 0;
    Open();
    Attach();
  }

  // Lets the run end with its last records.
  void Stop() {
    shards_[0]->Close();
    Take(RunToRest());
    if (!shards_[0]->closed()) Violate("the shard does not write its last records");
    Count("clean stops");
  }

  void Create(SubscriptionId id) {
    protocol::SubscriptionCommand create;
    create.kind = protocol::SubscriptionCommand::Kind::kCreate;
    create.state.id = id;
    create.state.topic = kOnlyTopic;
    create.state.name = absl::StrCat(static_cast<uint32_t>(id));
    shards_[0]->Handle(now_, std::move(create));
  }

  void Attach() {
    for (const SubscriptionId id : {kFirst, kSecond}) {
      Send(0, NewStream(id, kOnlyTopic, 100'000, 30'000));
    }
  }

  Part& PartOf(const Lease& lease) {
    Item& item = items_.at(lease.id);
    return lease.subscription == kFirst ? item.first : item.second;
  }

  uint64_t AnyTime() {
    const uint64_t what = Random(10);
    if (what == 0) return now_.wall_ms - Random(5'000);
    if (what < 4) return now_.wall_ms + Random(100);
    return now_.wall_ms + (what < 7 ? Random(3'000) : Random(2 * kHourMs));
  }

  void Schedule() {
    protocol::ScheduleCommand command;
    for (uint64_t i = Random(4); i < 4; ++i) {
      Ask ask;
      ask.topic = kOnlyTopic;
      ask.fingerprint = ++asked_;
      ask.deliver_ms = AnyTime();
      command.messages.push_back(MakeMessage(ask, /*slot=*/0));
    }
    Send(0, std::move(command));
  }

  void Reschedule() {
    if (items_.empty()) return;
    protocol::RescheduleCommand command;
    command.tag = NewTag();
    command.target.id = AnyOf(items_)->first;
    command.deliver_ms = AnyTime();
    moves_[command.tag] = {command.target.id, command.deliver_ms};
    Send(0, std::move(command));
  }

  void Settle() {
    for (auto& [id, stream] : streams_) {
      if (stream.held.empty()) continue;
      protocol::SettleCommand command;
      command.stream = id;
      for (const LeaseToken token : std::exchange(stream.held, {})) {
        if (healing_ || Chance(80)) {
          command.settlements.push_back({.token = token});
          acks_.insert(token);
        } else {
          command.settlements.push_back(
              {.token = token, .action = protocol::SettleAction::kNack, .ms = Random(3'000)});
        }
      }
      Send(0, std::move(command));
    }
  }

  // At times the clock is set while the decision is not committed yet.
  void Send(uint16_t shard, protocol::Command command) override {
    shards_[shard]->Handle(now_, std::move(command));
    decided_ms_ = now_.wall_ms;
    if (!healing_ && Chance(4)) StepClock();
    Take(RunToRest());
  }

  void Take(const protocol::Effects& effects) {
    for (const auto& reply : test::RepliesOf<protocol::ScheduleReply>(effects)) {
      for (const protocol::AcceptedMessage& accepted : reply.accepted) {
        if (!accepted.status.ok()) Violate("a message was refused");
        SetTime(accepted.id, accepted.deliver_ms);
        Note("accepted ", accepted.id.ToString(), " for ", accepted.deliver_ms);
        Count("accepted");
      }
    }
    for (const auto& reply : test::RepliesOf<protocol::RescheduleReply>(effects)) {
      const auto move = moves_.extract(reply.tag);
      if (!reply.status.ok() || reply.outcome != protocol::Outcome::kDone) continue;
      SetTime(move.mapped().first, move.mapped().second);
      Count("moved");
      Note("moved ", move.mapped().first.ToString(), " to ", move.mapped().second);
    }
    for (const protocol::DeliveryFrame& frame : effects.frames) {
      const Stream* const stream = Receive(frame);
      if (stream == nullptr) return;
      for (const protocol::Delivery& delivery : frame.deliveries) {
        Take(delivery, stream->subscription);
      }
    }
    for (const protocol::SettleReply& reply : effects.settles) {
      for (const LeaseToken token : reply.settled) {
        if (acks_.erase(token) > 0) PartOf(leased_.at(token)).acked = true;
      }
    }
  }

  void SetTime(const MessageId& id, uint64_t deliver_ms) {
    Item& item = items_[id];
    item.deliver_ms = deliver_ms;
    item.due_ms = std::max(deliver_ms, decided_ms_);
  }

  void Take(const protocol::Delivery& delivery, SubscriptionId subscription) {
    const std::string name =
        absl::StrCat(delivery.id.ToString(), " for ", static_cast<uint32_t>(subscription));
    const auto found = items_.find(delivery.id);
    if (found == items_.end()) return Violate(name + " is unknown");
    if (now_.wall_ms < found->second.deliver_ms) {
      const uint64_t early_ms = found->second.deliver_ms - now_.wall_ms;
      Violate(absl::StrCat(name, " is early by ", early_ms, " ms (P2)"));
    }
    const Lease lease{.id = delivery.id, .subscription = subscription};
    Part& part = PartOf(lease);
    if (part.acked) Violate(name + " comes after its ack");
    if (part.delivered && !delivery.maybe_redelivered) Violate(name + " is a silent repeat (P9)");
    part.delivered = true;
    leased_[delivery.token] = lease;
  }

  void CheckLate() {
    if (right_for_ms_ < kLateMs) return;
    for (const auto& [id, item] : items_) {
      if (item.delivered() || item.due_ms + kLateMs > now_.wall_ms) continue;
      return Violate(absl::StrCat(id.ToString(), " is late by ", now_.wall_ms - item.due_ms,
                                  " ms, and the clock has been right for ", right_for_ms_, " ms"));
    }
  }

  void Drain() override {
    healing_ = true;
    now_.wall_ms = latest_ms_;
    constexpr int kRoundsMax = 5'000;
    for (int round = 0; round < kRoundsMax && ok(); ++round) {
      uint64_t next_ms = storage::MessageId::kDueMax;
      for (const auto& [id, item] : items_) {
        if (!item.acked()) next_ms = std::min(next_ms, item.deliver_ms);
      }
      if (next_ms == storage::MessageId::kDueMax) break;
      Pass(next_ms > now_.wall_ms ? next_ms - now_.wall_ms : 1'000);
      Take(RunToRest());
      Settle();
    }
    for (const auto& [id, item] : items_) {
      if (!item.acked()) return Violate(id.ToString() + " never ended: lost (P1)");
    }
    // Timers of the times from which messages were moved away.
    for (int i = 0; i < 40 && ok(); ++i) {
      Pass(5'000);
      Take(RunToRest());
    }
    CheckInvariants();
    CheckNothingLeft();
  }

  std::map<MessageId, Item> items_;
  std::map<LeaseToken, Lease> leased_;
  std::set<LeaseToken> acks_;
  // The messages and the new times of the moves that have no answer.
  std::map<protocol::CallTag, std::pair<MessageId, uint64_t>> moves_;
  uint64_t asked_ = 0;
  // The time of the last command.
  uint64_t decided_ms_ = 0;
  uint64_t latest_ms_ = kStartMs;
  // How long the clock has not been set.
  uint64_t right_for_ms_ = 0;
};

// `members`: of a cell; 0 for one machine.
void RunClockSteps(size_t members, int64_t count) {
  const uint64_t first = test::FromEnvironment("DUETIME_SEED", 1);
  const auto seeds =
      test::FromEnvironment("DUETIME_SIM_SEEDS", static_cast<uint64_t>(test::Scaled(count)));
  std::cout << "seeds " << first << " to " << first + seeds - 1 << "\n";
  std::map<std::string, uint64_t> total;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    const Report report = ClockSteps({.seed = seed, .members = members}).Run(/*events=*/300);
    ASSERT_EQ(report.violation, "") << "seed " << seed << ", event " << report.events << "\n"
                                    << report.history;
    for (const auto& [what, times] : report.counts) total[what] += times;
  }
  for (const auto& [what, times] : total) std::cout << times << " " << what << "\n";
  for (const char* what : {"accepted", "deliveries", "moved", "small steps back", "steps back",
                           "steps forward", "clean stops", "crashes"}) {
    EXPECT_GT(total[what], seeds) << what;
  }
}

TEST(ClockStepsTest, NothingIsEarlyLateOrLost) { RunClockSteps(0, 200); }
TEST(ClockStepsTest, NothingIsEarlyLateOrLostInACell) { RunClockSteps(2, 50); }

}  // namespace
}  // namespace duetime::simulation
