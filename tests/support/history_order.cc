// SPDX-License-Identifier: Apache-2.0
#include "tests/support/history_order.h"

#include <string>

namespace duetime::test {

void OrderJudge::Take(const Event& event) {
  const bool begun = event.outcome == Outcome::kBegun;
  switch (event.what) {
    case What::kStart:
      lanes_.clear();
      places_.clear();
      run_ = event.run;
      return;
    case What::kSchedule:
      for (int i = 0; i < subscriptions_; ++i) {
        if (begun && event.token != 0) {
          // A repeat of the call keeps the first one's time.
          places_.try_emplace(PlaceOf(event.message, i),
                              Place{.key = event.token, .begun_ns = event.at_ns});
        } else if (event.outcome == Outcome::kOk) {
          Accept(event, i);
        }
      }
      return;
    case What::kReschedule:
    case What::kCancel:
      if (!begun) return;
      for (int i = 0; i < subscriptions_; ++i) Forget(event.message, i);
      return;
    case What::kAck:
    case What::kDeadLetter:
      if (begun) Forget(event.message, event.subscription);
      return;
    case What::kDelivery:
      if (event.run == run_) Deliver(event);
      return;
    case What::kClockStep:
      step_ns_ = event.at_ns;
      return;
    default:
      return;
  }
}

void OrderJudge::Accept(const Event& event, int subscription) {
  const auto found = places_.find(PlaceOf(event.message, subscription));
  if (found == places_.end() || found->second.accepted_ns != 0) return;
  Place& place = found->second;
  place.accepted_ns = event.at_ns;
  place.deliver_ms = event.time_ms;
  if (place.delivered) return;
  lanes_[LaneOf(place.key, subscription)].waiting.emplace(event.time_ms, event.message);
}

void OrderJudge::Deliver(const Event& event) {
  const auto found = places_.find(PlaceOf(event.message, event.subscription));
  // A late frame of a message that has ended, or one of an earlier run.
  if (found == places_.end()) return;
  Place& place = found->second;
  Lane& lane = lanes_[LaneOf(place.key, event.subscription)];
  ++counts_.ordered_deliveries;
  const bool may_pass = step_ns_ > lane.held_ns && event.time_ms < lane.held_ms;
  if (lane.held && lane.holder != event.message && !may_pass) {
    violations_.Add(event.message, "ORDER",
                    "while message " + std::to_string(lane.holder) + " was unsettled");
  }
  lane.held = true;
  lane.holder = event.message;
  lane.held_ns = event.at_ns;
  lane.held_ms = event.time_ms;
  if (place.delivered) return;
  place.delivered = true;
  lane.waiting.erase({place.deliver_ms, event.message});
  for (const auto& [deliver_ms, other] : lane.waiting) {
    if (deliver_ms > event.time_ms) return;
    if (places_.at(PlaceOf(other, event.subscription)).accepted_ns > place.begun_ns) continue;
    violations_.Add(event.message, "ORDER", "before message " + std::to_string(other));
    return;
  }
}

void OrderJudge::Forget(uint32_t message, int subscription) {
  const auto found = places_.find(PlaceOf(message, subscription));
  if (found == places_.end()) return;
  const Place place = found->second;
  places_.erase(found);
  const auto lane = lanes_.find(LaneOf(place.key, subscription));
  if (lane == lanes_.end()) return;
  lane->second.waiting.erase({place.deliver_ms, message});
  if (lane->second.held && lane->second.holder == message) lane->second.held = false;
  if (!lane->second.held && lane->second.waiting.empty()) lanes_.erase(lane);
}

}  // namespace duetime::test
