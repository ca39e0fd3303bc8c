// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/lease_keeper.h"

#include <algorithm>

#include "client/cpp/convert.h"

namespace duetime::client {
namespace {

// The longest time, so that an infinite one does not overflow the clock's arithmetic.
constexpr absl::Duration kKeepMax = absl::Hours(24 * 365);

}  // namespace

LeaseKeeper::LeaseKeeper(absl::Duration keep_max)
    : keep_max_(absl::ToChronoNanoseconds(std::clamp(keep_max, absl::ZeroDuration(), kKeepMax))) {}

void LeaseKeeper::Start(absl::Duration lease) {
  lease_ = lease;
  interval_ = absl::ToChronoNanoseconds(std::clamp(lease, absl::ZeroDuration(), kKeepMax) / 3);
  if (interval_ >= keep_max_) interval_ = std::chrono::nanoseconds(0);
}

void LeaseKeeper::Clear() {
  for (Frame* frame : frames_) frame->listed = false;
  frames_.clear();
  asked_.clear();
  lost_.clear();
  interval_ = std::chrono::nanoseconds(0);
}

void LeaseKeeper::Add(Frame* frame, SteadyTime now) {
  const auto size = static_cast<size_t>(frame->response.deliveries_size());
  frame->held.assign(size, true);
  frame->held_count = static_cast<int>(size);
  frame->received = now;
  frame->listed = false;
  if (interval_.count() > 0) Append(frame, now + interval_);
}

void LeaseKeeper::Append(Frame* frame, SteadyTime extend_at) {
  if (extend_at >= frame->received + keep_max_) return;
  frame->extend_at = extend_at;
  frame->extend_from = 0;
  frame->place = frames_.insert(frames_.end(), frame);
  frame->listed = true;
}

void LeaseKeeper::Release(Frame* frame, int index) {
  const auto at = static_cast<size_t>(index);
  if (!frame->held[at]) return;
  frame->held[at] = false;
  if (!lost_.empty()) lost_.erase(frame->response.deliveries(index).lease_token());
  if (--frame->held_count > 0 || !frame->listed) return;
  frames_.erase(frame->place);
  frame->listed = false;
}

void LeaseKeeper::Collect(SteadyTime now, int room, v1::SubscribeRequest* request) {
  // Collects a little ahead, so that frames that arrived close together share a request.
  const SteadyTime until = now + interval_ / 4;
  // The loop ends because each frame moves to the end with a later time.
  while (!frames_.empty() && frames_.front()->extend_at <= until) {
    Frame* frame = frames_.front();
    for (int& i = frame->extend_from; i < frame->response.deliveries_size(); ++i) {
      const std::string& token = frame->response.deliveries(i).lease_token();
      if (!frame->held[static_cast<size_t>(i)] || lost_.count(token) > 0) continue;
      if (--room < 0) return;
      v1::ExtendLease* extend = request->add_extend();
      extend->set_lease_token(token);
      *extend->mutable_duration() = ToProto(lease_);
      asked_.insert(token);
    }
    frames_.pop_front();
    frame->listed = false;
    Append(frame, now + interval_);
  }
}

std::optional<LeaseKeeper::SteadyTime> LeaseKeeper::NextCollect(SteadyTime now) const {
  if (interval_.count() == 0) return std::nullopt;
  return frames_.empty() ? now + interval_ : frames_.front()->extend_at;
}

void LeaseKeeper::OnExtended(const std::string& lease_token) { asked_.erase(lease_token); }

bool LeaseKeeper::OnRefused(const std::string& lease_token) {
  if (asked_.erase(lease_token) == 0) return false;
  lost_.insert(lease_token);
  return true;
}

}  // namespace duetime::client
